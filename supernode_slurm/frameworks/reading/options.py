"""Options as frameworks take them: words of a command, YAML, JSON and TOML, all as one table.

Keys are in lower case with ``_`` for ``-``; a section's keys follow its name and a dot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import ConfigError, Where
from ...inventory import yamltree
from . import toml
from .expand import Word
from .files import Files, Unread

_MAX_KEYS = 20_000
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*(?==|\Z)", re.ASCII)
_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_][\w.-]*)=", re.ASCII)


@dataclass(frozen=True, slots=True)
class Value:
    """What an option is set to, and where."""

    text: str
    origin: str
    unknown: str = ""
    """Why it is not known; the text is empty then."""
    there: bool = False
    """The option itself is there for sure: what is not known may be no part of it."""


Options = dict[str, Value]


def folded(name: str) -> str:
    """Return the form in which two spellings of an option are equal."""
    return name.lstrip("-").lower().replace("-", "_")


def of_words(words: Sequence[Word]) -> Options:
    """Return the options of a command; of one that is given twice, the later counts.

    A flag holds an empty text, an option with several values the first.
    """
    found: Options = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        option = _OPTION.match(word.text)
        if option is None or _starts_unknown(word):
            continue
        rest = _after(word, option.end() + 1) if option.end() < len(word.text) else None
        values = [] if rest is None else [rest]
        while rest is None and at < len(words) and not _is_option(words[at]):
            values.append(words[at])
            at += 1
        _set(found, folded(option.group()), word, values)
    return found


def overrides(words: Sequence[Word]) -> Options:
    """Return what words like ``train.model.seq_length=4096`` set."""
    found: Options = {}
    for word in words:
        begin = _OVERRIDE.match(word.text)
        if begin and not _starts_unknown(word):
            _set(found, folded(begin[1]), word, [_after(word, begin.end())])
    return found


def _starts_unknown(word: Word) -> bool:
    return bool(word.parts and word.parts[0].unknown)


def _is_option(word: Word) -> bool:
    return bool(_OPTION.match(word.text)) and not _starts_unknown(word)


def _after(word: Word, count: int) -> Word:
    """Return a word without its first characters."""
    parts = []
    for part in word.parts:
        kept = part.text[count:]
        count = max(count - len(part.text), 0)
        if kept or part.unknown:
            parts.append(replace(part, text=kept))
    return Word(tuple(parts))


def _set(found: Options, name: str, word: Word, values: Sequence[Word]) -> None:
    # What stands after the first value may belong to it, or not.
    first = values[0] if values else Word()
    origin, unknown = first.origin or word.origin, first.unknown
    text = "" if unknown else first.text
    maybe = word.maybe or first.maybe
    if maybe and not (name in found and found[name].text == text and not unknown):
        reason = unknown or f"it is set under the condition at {maybe}"
        found[name] = Value("", origin, reason)
    elif not maybe:
        found[name] = Value(text, origin, unknown, there=True)


def of_file(files: Files, path: Path, shown: str) -> Options:
    """Return what a file sets; raises ``Unread`` where it cannot be read, or is malformed."""
    return of_text(files.read(path, shown), shown)


def of_text(text: str, shown: str) -> Options:
    """Return what the text of a YAML, JSON or TOML file sets; raises ``Unread``."""
    if shown.endswith(".toml"):
        try:
            return _of_pairs(toml.pairs(text, shown))
        except toml.Malformed as error:
            raise Unread(str(error)) from error
    try:
        tree, problems = yamltree.parse(text, shown)
    except ConfigError as error:
        if shown.endswith(".json") and (plain := _plain_json(text, shown)) is not None:
            return plain
        where = error.problems[0].where
        raise Unread(f"{where}: {error.problems[0].what}") from error
    if problems:
        raise Unread(f"{problems[0].where}: {problems[0].what}")
    if not isinstance(tree.value, dict):
        raise Unread(f"{shown} holds no settings by name")
    return _of_pairs(_leaves(tree))


def _of_pairs(pairs: Iterator[tuple[str, str, Where]]) -> Options:
    found: Options = {}
    for name, text, where in pairs:
        if len(found) >= _MAX_KEYS:
            raise Unread(f"{where.file} holds more than {_MAX_KEYS:,} settings")
        unknown = "the framework fills it in" if "${" in text else ""
        found[folded(name)] = Value("" if unknown else text, str(where), unknown)
    return found


def _leaves(tree: yamltree.Node) -> Iterator[tuple[str, str, Where]]:
    """Yield each scalar with its dotted name; a list of scalars is one text."""
    todo: list[tuple[str, yamltree.Node]] = [("", tree)]
    while todo:
        prefix, node = todo.pop()
        if isinstance(node.value, dict):
            todo += [(f"{prefix}{name}.", child) for name, child in node.value.items()]
        elif isinstance(node.value, list):
            plain = all(isinstance(item.text, str) for item in node.value)
            if plain and len(node.value) < _MAX_KEYS:
                text = " ".join(item.text or "" for item in node.value)
                yield prefix[:-1], text, node.where
            # Of a list of mappings, as Hydra's defaults, each is one of its own.
            todo += [(prefix, item) for item in node.value[:_MAX_KEYS] if item.kind == "mapping"]
        elif node.value is not None:
            yield prefix[:-1], node.text or "", node.where


def _plain_json(text: str, shown: str) -> Options | None:
    """Return a JSON object that is no YAML, without lines; None if it is no JSON either."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found: Options = {}
    todo: list[tuple[str, object]] = [("", raw)]
    while todo and len(found) < _MAX_KEYS:
        prefix, value = todo.pop()
        if isinstance(value, Mapping):
            todo += [(f"{prefix}{name}.", child) for name, child in value.items()]
        elif isinstance(value, (str, int, float)):
            said = str(value).lower() if isinstance(value, bool) else str(value)
            found[folded(prefix[:-1])] = Value(said, shown)
    return found


def layered(below: Options, above: Options, notes: list[str]) -> Options:
    """Return two sources as one; where they differ the second counts, with a note."""
    for name, value in above.items():
        other = below.get(name)
        if other and other.text != value.text and not other.unknown and not value.unknown:
            notes.append(
                f"{other.origin} says {name} {other.text}, {value.origin} says {value.text}: "
                "the latter counts"
            )
    return {**below, **above}
