"""The grammar that slurm.conf, gres.conf and topology.conf share.

From Slurm's parser (src/common/parse_config.c): a line is ``Key=value`` pairs, a value is
one word or stands in double quotes; ``#`` begins a comment unless a backslash stands
before it; a backslash at the end of a line joins the next line to it, with nothing between
(22.05, 24.11 and 26.05 do so); ``Include`` reads another file, relative to the directory of
the one that includes it. It expands no patterns.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError, Problem, Where

MAX_BYTES = 64 * 2**20
MAX_INCLUDES = 1000
MAX_DEPTH = 16

_PAIR = re.compile(r"\s*([A-Za-z0-9_.]+)\s*[-*+/]?=(\s*)(?:\"([^\"]*)\"|(\S+))(?=\s|\Z)")
_EMPTY = re.compile(r"\s*([A-Za-z0-9_.]+)\s*=\s*")
_SWALLOWED = re.compile(r"[A-Za-z]+=")
_COMMENT = re.compile(r"(?<!\\)#")
_INCLUDE = re.compile(r"include\s+(\S+)\s*(.*)", re.IGNORECASE)
_INCLUDES = re.compile(
    r"^[ \t]*(?:include[ \t]+(\S+)|clustername[ \t]*=[ \t]*\"?([^\s\"#]+))", re.I | re.M
)


@dataclass(frozen=True, slots=True)
class Said:
    """A text and where it stands."""

    text: str
    where: Where
    key: str = ""
    """As it is written, for the value of a pair."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of pairs, continuations joined."""

    pairs: tuple[tuple[str, Said], ...]
    """Keys as they are written."""
    where: Where
    comments: tuple[str, ...] = ()
    """Lines of comment since the line before."""
    remark: str = ""
    """Comment behind the pairs."""
    problem: Problem | None = None
    """Why Slurm could not read the line to its end."""

    @property
    def first(self) -> str:
        """Return the first key, without regard to case; empty if there is none."""
        return self.pairs[0][0].casefold() if self.pairs else ""

    @property
    def keys(self) -> dict[str, Said]:
        """Return the values by key, without regard to case; the last of equal keys counts."""
        return {key.casefold(): said for key, said in self.pairs}

    def must(self) -> Line:
        """Return the line; raises ``ConfigError`` if Slurm could not read it."""
        if self.problem:
            raise ConfigError([self.problem])
        return self


def read_text(path: Path) -> str:
    """Return the text of a regular file, bounded; raises ``ConfigError``."""
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                todo = "save what it gives to a file, and name that"
                raise ConfigError.one(str(path), "is no regular file", todo)
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError.one(str(path), f"cannot be read: {reason}") from error
    if len(raw) > MAX_BYTES:
        raise ConfigError.one(str(path), f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = "is not UTF-8 text from here on"
        raise ConfigError.one(Where(str(path), line, 1), what, "convert it with iconv") from error


def read_lines(path: Path, done: set[Path] | None = None) -> Iterator[Line]:
    """Yield the lines of a file and of what it includes, in Slurm's order.

    ``done`` are included files of another configuration, which are not read again, and takes
    those of this one. Raises ``ConfigError`` for a file that cannot be read or included.
    """
    reader = _Reader(frozenset(done or ()))
    yield from reader.read(path, ())
    if done is not None:
        done |= reader.files


def files_of(path: Path) -> set[Path]:
    """Return a file and those that it includes, as far as they are there; resolved paths."""
    found = {path.resolve()}
    waiting = [path]
    cluster = ""
    while waiting:
        file = waiting.pop()
        for name, said in _INCLUDES.findall(read_text(file)):
            cluster = said.lower() or cluster
            target = file.parent / name.replace("%c", cluster)
            if name and os.path.isfile(target) and target.resolve() not in found:
                found.add(target.resolve())
                waiting.append(target)
    return found


def parse_lines(text: str, source: str) -> Iterator[Line]:
    """Yield the lines of a text; an ``Include`` is a pair of its own."""
    comments: list[str] = []
    for logical in _logical(text, source):
        if logical.text.strip():
            pairs, problem = _pairs(logical)
            yield Line(pairs, logical.where, tuple(comments), logical.comment, problem)
            comments.clear()
        elif logical.comment:
            comments.append(f"# {logical.comment}")


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to does not keep us waiting."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _names_like(pattern: Path) -> list[str]:
    try:
        return sorted(fnmatch.filter(os.listdir(pattern.parent), pattern.name))
    except (OSError, ValueError, re.error):
        return []


class _Reader:
    """Follows the includes of one configuration."""

    def __init__(self, done: frozenset[Path]) -> None:
        self._done = done
        self._cluster = ""
        self._count = 0
        self.files: set[Path] = set()
        """Those that were included."""

    def read(self, path: Path, above: tuple[Path, ...]) -> Iterator[Line]:
        for line in parse_lines(read_text(path), str(path)):
            if line.first == "clustername":
                self._cluster = line.pairs[0][1].text
            if line.first == "include":
                yield from self._include(line.pairs[0][1], path, above)
            else:
                yield line

    def _include(self, said: Said, path: Path, above: tuple[Path, ...]) -> Iterator[Line]:
        name = said.text
        if "%c" in name:
            if not self._cluster:
                raise ConfigError.one(
                    said.where, "Include: %c stands before ClusterName", "give ClusterName first"
                )
            name = name.replace("%c", self._cluster.lower())
        target = path.parent / name
        if any(letter in name for letter in "*?[") and not os.path.exists(target):
            found = ", ".join(_names_like(target)[:5])
            todo = f"write an Include line for each file{': ' + found if found else ''}"
            raise ConfigError.one(said.where, f"Include {name}: Slurm expands no patterns", todo)
        self._count += 1
        if target in (path, *above):
            raise ConfigError.one(said.where, f"Include {name}: the file includes itself")
        if len(above) >= MAX_DEPTH or self._count > MAX_INCLUDES:
            raise ConfigError.one(said.where, f"Include {name}: too many files include another")
        if not os.path.isfile(target):
            todo = f"put it there, or delete the line: {target}"
            raise ConfigError.one(said.where, f"Include {name}: there is no such file", todo)
        self.files.add(target.resolve())
        if target.resolve() not in self._done:
            yield from self.read(target, (*above, path))


@dataclass(frozen=True, slots=True)
class _Logical:
    """Physical lines joined by continuations."""

    text: str
    starts: tuple[tuple[int, int], ...]
    """Offset at which each physical line begins, and its number."""
    source: str
    comment: str

    @property
    def where(self) -> Where:
        return self.place(len(self.text) - len(self.text.lstrip()))

    def place(self, offset: int) -> Where:
        start, number = next(item for item in reversed(self.starts) if item[0] <= offset)
        return Where(self.source, number, offset - start + 1)


def _logical(text: str, source: str) -> Iterator[_Logical]:
    joined, comment = "", ""
    starts: list[tuple[int, int]] = []
    for number, raw in enumerate(text.split("\n"), 1):
        found = _COMMENT.search(raw)
        line = raw[: found.start()] if found else raw.rstrip("\r")
        comment = raw[found.end() :].strip() if found else comment
        starts.append((len(joined), number))
        stripped = line.rstrip()
        if (len(stripped) - len(stripped.rstrip("\\"))) % 2:
            joined += stripped[:-1]
            continue
        yield _Logical(joined + line, tuple(starts), source, comment)
        joined, comment = "", ""
        starts.clear()
    if starts:
        yield _Logical(joined, tuple(starts), source, comment)


def _pairs(logical: _Logical) -> tuple[tuple[tuple[str, Said], ...], Problem | None]:
    """Return the pairs of a line, and what is wrong with the rest of it."""
    text = logical.text.replace("\\#", "#")
    if found := _INCLUDE.match(text.strip()):
        offset = text.index(found[1], len(text) - len(text.lstrip()) + len("include"))
        return (("Include", Said(found[1], logical.place(offset))),), None
    pairs: list[tuple[str, Said]] = []
    position = 0
    while found := _PAIR.match(text, position):
        quoted = found[3] is not None
        value = found[3] if quoted else found[4]
        place = logical.place(found.start(3) - 1 if quoted else found.start(4))
        if found[2] and not quoted and _SWALLOWED.match(value):
            what = f"{found[1]} has no value: Slurm takes '{value[:40]}' for it"
            return tuple(pairs), Problem(place, what, f"delete '{found[1]}='")
        pairs.append((found[1], Said(value, place, found[1])))
        position = found.end()
    rest = text[position:]
    if not rest.strip():
        return tuple(pairs), None
    place = logical.place(position + len(rest) - len(rest.lstrip()))
    if empty := _EMPTY.fullmatch(rest):
        return tuple(pairs), Problem(place, f"{empty[1]} has no value", f"delete '{empty[1]}='")
    what = f"expected Key=value, got {rest.strip()[:60]!r}"
    return tuple(pairs), Problem(place, what, "values with blanks stand in double quotes")
