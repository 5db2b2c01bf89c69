"""The outcome of a test in a shell script, where reading can tell it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from .expand import Scope, Word, words
from .syntax import Block, Command

_MAX_PATTERN = 200
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


def status(scope: Scope, block: Block) -> bool | None:
    """Return whether a condition holds; None where that is known only when it runs.

    What no one sets is empty here. Files are those of another machine: nothing is told of them.
    """
    result: bool | None = True
    for step in block:
        if step.after in ("&&", "||") and result is (step.after == "||"):
            continue
        told = _command(scope, step.node) if isinstance(step.node, Command) else None
        if result is None and step.after == "&&":
            result = None if told is not False else False
        elif result is None and step.after == "||":
            result = True if told else None
        else:
            result = told
    return result


def matches(word: Word, pattern: Word) -> bool | None:
    """Return whether a word matches a pattern of ``case``; None if either is not known."""
    text, against = _text(word), _text(pattern)
    if text is None or against is None or len(against) > _MAX_PATTERN:
        return None
    return fnmatchcase(text, against)


def _text(word: Word) -> str | None:
    if any((part.unknown and not part.unset) or part.maybe for part in word.parts):
        return None
    return word.text


def _command(scope: Scope, node: Command) -> bool | None:
    found = [word for token in node.words for word in words(scope, token)]
    texts = [_text(word) for word in found]
    negated = False
    while texts and texts[0] == "!":
        negated = not negated
        texts, found = texts[1:], found[1:]
    name = texts[0] if texts else None
    told: bool | None = None
    if name in ("true", ":", "false"):
        told = name != "false"
    elif name in ("[", "[[", "test") and not node.opaque:
        end = len(texts) if name == "test" else -1
        told = _test(found[1:end], texts[1:end])
    return told if told is None else told is not negated


def _test(found: list[Word], texts: list[str | None]) -> bool | None:
    if texts and texts[0] == "!":
        told = _test(found[1:], texts[1:])
        return None if told is None else not told
    if len(texts) == 1:
        return None if texts[0] is None else bool(texts[0])
    if len(texts) == 2 and texts[0] in ("-z", "-n"):
        return None if texts[1] is None else bool(texts[1]) is (texts[0] == "-n")
    if len(texts) != 3:
        return None
    left, sign, right = texts
    if sign in ("=", "==", "!="):
        told = matches(found[0], found[2])
        return None if told is None else told is (sign != "!=")
    numbers = [text for text in (left, right) if text and re.fullmatch(r"-?[0-9]{1,18}", text)]
    if sign in _NUMBERS and len(numbers) == 2:
        return _NUMBERS[sign](int(numbers[0]), int(numbers[1]))
    return None
