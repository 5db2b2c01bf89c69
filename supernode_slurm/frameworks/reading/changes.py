"""What the commands of a shell script change: variables, arguments and the folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from . import syntax
from .expand import Part, Scope, Variable, Word, bounded, joined, words
from .lexer import Piece, Token

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def assigns(token: Token) -> re.Match[str] | None:
    """Return the beginning of an assignment, if the token is one."""
    first = token.pieces[0] if token.pieces else None
    return _ASSIGNMENT.match(first.text) if first and _is_plain(first) else None


def _is_plain(piece: Piece) -> bool:
    return piece.kind == "text" and not piece.quoted


def assignment(scope: Scope, token: Token, found: re.Match[str]) -> Variable:
    """Return what an assignment gives its variable."""
    name, index, plus = found.groups()
    old = scope.variables.get(name)
    if token.array is not None:
        added = tuple(word for element in token.array for word in words(scope, element))
        return Variable((*(old.words if plus and old else ()), *added), array=True)
    first = token.pieces[0]
    word = joined(scope, (replace(first, text=first.text[found.end() :]), *token.pieces[1:]))
    if index:
        reason = f"elements of ${name} are set one by one"
        return Variable((scope.lost(token.line, reason),))
    if plus and old:
        last = bounded(Word((*(old.words[0].parts if old.words else ()), *word.parts)))
        return replace(old, words=(last, *old.words[1:]))
    return Variable((word,))


def declare(scope: Scope, tokens: Sequence[Token]) -> None:
    """Follow ``export`` and its kin."""
    for token in tokens:
        if found := assigns(token):
            scope.variables[found[1]] = assignment(scope, token, found)


def forget(scope: Scope, found: Sequence[Word], line: int) -> None:
    """Take it that a command like ``read`` gives new values to what it names."""
    for word in found:
        name = word.text.partition("=")[0]
        if _NAME.match(name):
            scope.variables[name] = Variable((scope.lost(line, f"${name} is set as it runs"),))


def shift(scope: Scope, found: Sequence[Word]) -> None:
    """Follow ``shift``."""
    count = found[0].text if found else "1"
    known = count.isdecimal() and len(count) < 6 and not (found and found[0].unknown)
    if scope.arguments is not None:
        scope.arguments = scope.arguments[int(count) :] if known else None


def change_folder(scope: Scope, found: Sequence[Word]) -> None:
    """Follow ``cd``; where it leads to what is not known, the folder is not known."""
    target = found[-1] if found else Word()
    if target.unknown or target.maybe or target.text in ("", "-") or target.text.startswith("~"):
        scope.folder = None
    elif target.text.startswith("/"):
        scope.folder = Path(target.text)
    elif scope.folder is not None:
        scope.folder = scope.folder / target.text


def assigned(block: syntax.Block) -> Iterator[str]:
    """Yield the variables that the commands of a block set anew."""
    for step in block:
        node = step.node
        if isinstance(node, syntax.Command):
            for token in node.words:
                found = assigns(token)
                if found and not found[3]:
                    yield found[1]
        elif isinstance(node, (syntax.Branches, syntax.Choice)):
            for branch in node.branches:
                yield from assigned(branch[1])
        else:
            yield from assigned(node.body)
            if isinstance(node, syntax.Loop) and _NAME.match(node.name):
                yield node.name


def merge(scope: Scope, ways: Sequence[Scope], place: str) -> None:
    """Make of the scope what is true whichever way was gone from it."""
    before = dict(scope.variables)
    names = dict.fromkeys(name for way in ways for name in way.variables)
    for name in names:
        found = [way.variables.get(name) for way in ways]
        if all(_same(value, found[0]) for value in found) and found[0] is not None:
            scope.variables[name] = found[0]
        else:
            scope.variables[name] = _either(name, before.get(name), found, place)
    for name in dict.fromkeys(name for way in ways for name in way.functions):
        bodies = [body for way in ways for body in way.functions.get(name, ())]
        scope.functions[name] = tuple({id(body): body for body in bodies}.values())
    folders, arguments = {way.folder for way in ways}, {way.arguments for way in ways}
    scope.folder = folders.pop() if len(folders) == 1 else None
    scope.arguments = arguments.pop() if len(arguments) == 1 else None


def _same(one: Variable | None, other: Variable | None) -> bool:
    if one is other or one is None or other is None:
        return one is other
    if any(word.unknown or word.maybe for word in (*one.words, *other.words)):
        return one == other
    return one.array == other.array and [w.text for w in one.words] == [w.text for w in other.words]


def _either(
    name: str, before: Variable | None, found: Sequence[Variable | None], place: str
) -> Variable:
    """Return what was there with what some ways add, or what is not known."""
    result = before
    for value in found:
        if value == before or result is None or before is None:
            continue
        result = _extended(result, before, value, place) if value is not None else None
    if result is None or before is None:
        part = Part("", place, f"${name} is set under the condition at {place}")
        return Variable((Word((part,)),))
    return result


def _extended(result: Variable, before: Variable, value: Variable, place: str) -> Variable | None:
    if before.array != value.array:
        return None
    if before.array:
        size = len(before.words)
        head, tail = value.words[:size] == before.words, value.words[len(value.words) - size :]
        if not head and tail != before.words:
            return None
        added = value.words[size:] if head else value.words[: len(value.words) - size]
        marked = tuple(Word(_marked(word.parts, place)) for word in added)
        return Variable((*result.words, *marked), array=True)
    old, new = before.words[0].parts, value.words[0].parts
    if new[: len(old)] == old:
        extra = new[len(old) :]
    elif new[len(new) - len(old) :] == old:
        extra = (*new[: len(new) - len(old)],)
    else:
        return None
    gap = Part(" ", place, maybe=place)
    return Variable((bounded(Word((*result.words[0].parts, gap, *_marked(extra, place)))),))


def _marked(parts: Sequence[Part], place: str) -> tuple[Part, ...]:
    return tuple(replace(part, maybe=part.maybe or place) for part in parts)
