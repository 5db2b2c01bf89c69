"""Take sbatch's command lines apart as sbatch does: getopt_long, ``:``, ``#SBATCH``, SBATCH_*."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ..errors import UsageError
from .option_table import ALIASES, TABLES, VARIABLES, Arity, Spec

HET_SEPARATOR = ":"
_HET_WORDS = ("hetjob", "packjob")
_MARKS = ("#SBATCH", "#SLURM")
_BLANK = " \t\n\v\f\r"
"""What isspace() calls so in sbatch's locale; Python knows more."""


@dataclass(frozen=True, slots=True)
class Split:
    """A command line of sbatch, taken apart."""

    components: tuple[tuple[str, ...], ...]
    """The words of the options as written; several for a heterogeneous job."""
    script: str | None
    arguments: tuple[str, ...]
    """Of the script."""

    def join(self) -> list[str]:
        """Return a command line that sbatch reads in the same way."""
        words: list[str] = []
        for index, component in enumerate(self.components):
            words += [HET_SEPARATOR] if index else []
            words += component
        if self.script is None:
            return words
        guard = ["--"] if self.script.startswith("-") and self.script != "-" else []
        return [*words, *guard, self.script, *self.arguments]


def split(argv: Sequence[str], release: str | None = None) -> Split:
    """Take a command line apart; ``UsageError`` for an option that this release does not know."""
    components: list[tuple[str, ...]] = []
    current: list[str] = []
    words = list(argv)
    position = 0
    while position < len(words) and words[position] != "--":
        word = words[position]
        if word == HET_SEPARATOR:
            components.append(tuple(current))
            current = []
        elif not is_option(word):
            break
        elif takes_next(word, release):
            if position + 1 == len(words):
                raise UsageError(f"sbatch's option {word} needs a value")
            position += 1
            current += [word, words[position]]
        else:
            current.append(word)
        position += 1
    components.append(tuple(current))
    rest = words[position + (words[position : position + 1] == ["--"]) :]
    return Split(tuple(components), rest[0] if rest else None, tuple(rest[1:]))


def takes_next(word: str, release: str | None = None) -> bool:
    """Whether the word that follows this option of sbatch is its value.

    Raises ``UsageError`` for an option that this release, or any of ours, does not know.
    """
    name, value = _options_of(word, release)[-1]
    return value is None and table(release)[name].arity is Arity.REQUIRED


def long_names(word: str, release: str | None = None) -> list[str]:
    """Return the full names of the options in a word, as ``takes_next`` knows them."""
    return [name for name, _ in _options_of(word, release)]


def values(words: Sequence[str], release: str | None = None) -> dict[str, str | None]:
    """Return what the options of one component set, by long name; the last one counts.

    None stands for an option without a value. Raises ``UsageError`` for what is none.
    """
    found: dict[str, str | None] = {}
    remaining = iter(words)
    for word in remaining:
        if not is_option(word) or word == "--":
            raise UsageError(f"{word!r:.80} is not an option of sbatch")
        options = _options_of(word, release)
        if takes_next(word, release):
            options[-1] = (options[-1][0], next(remaining, ""))
        for name, value in options:
            known = ALIASES.get(name, name)
            found.pop(known, None)
            found[known] = value
    return found


def directives(script: str) -> list[str]:
    """Return the words of a script's ``#SBATCH`` lines, as sbatch reads them.

    It reads up to the first command; quotes and backslashes work as in a shell, ``#`` ends
    a line. A line of ``hetjob`` becomes the separator ``:``. Raises ``UsageError`` for a
    quote that is not closed.
    """
    words: list[str] = []
    lines = script.split("\n")
    for number, line in enumerate(lines[: first_command(lines)], 1):
        mark = next(filter(line.startswith, _MARKS), None)
        if mark is not None:
            words += _words(line.removeprefix(mark), number)
    return words


def components(words: Sequence[str]) -> list[list[str]]:
    """Return the words of each component of a heterogeneous job, apart at the ``:``."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == HET_SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def first_command(lines: Sequence[str]) -> int:
    """Return the index of the first line that sbatch takes for a command, or their number."""
    for index, line in enumerate(lines):
        if line.strip(_BLANK) and not line.lstrip(_BLANK).startswith("#"):
            return index
    return len(lines)


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return what SBATCH_* variables set, by long name."""
    return {name: env[key] for name, key in VARIABLES.items() if key in env}


def variable(name: str) -> str:
    """Return the environment variable of a long name; ``KeyError`` where sbatch has none."""
    return VARIABLES[name]


@cache
def table(release: str | None) -> Mapping[str, Spec]:
    """Return the options of a release, those of all releases for None.

    One between two that were asked has those of both: what it lacks, its own sbatch says.
    """
    if release is None:
        return _union(*TABLES.values())
    before = max((known for known in TABLES if known <= release), default=min(TABLES))
    after = min((known for known in TABLES if known >= release), default=before)
    return TABLES[before] if before == after else _union(TABLES[before], TABLES[after])


def _union(*tables: Mapping[str, Spec]) -> dict[str, Spec]:
    """Return the options of all tables; where they differ, a value is optional."""
    found: dict[str, Spec] = {}
    for name, spec in (pair for known in tables for pair in known.items()):
        if name not in found or spec.arity is Arity.OPTIONAL:
            found[name] = spec
    return found


def is_option(word: str) -> bool:
    """Whether getopt takes a word for options; ``--`` ends them."""
    return word.startswith("-") and word != "-"


def _options_of(word: str, release: str | None) -> list[tuple[str, str | None]]:
    """Return the options in a word by long name, with the values that stand in it."""
    if word.startswith("--"):
        given, equals, value = word[2:].partition("=")
        spec = _long(given, release)
        if equals and spec.arity is Arity.NONE:
            raise UsageError(f"sbatch's option --{spec.long} takes no value, got {word!r:.80}")
        return [(spec.long, value if equals else None)]
    letters = {spec.letter: spec for spec in table(release).values() if spec.letter}
    found: list[tuple[str, str | None]] = []
    for position, letter in enumerate(word[1:], 2):
        if letter not in letters:
            raise UsageError(f"{_sbatch(release)} has no option -{letter} (in {word!r:.80})")
        spec = letters[letter]
        if spec.arity is not Arity.NONE:
            return [*found, (spec.long, word[position:] or None)]
        found.append((spec.long, None))
    return found


def _long(given: str, release: str | None) -> Spec:
    """Return the option of a long name, or of the start of just one, as getopt_long does."""
    known = table(release)
    if given in known:
        return known[given]
    starts = [name for name in known if given and name.startswith(given)]
    if len(starts) == 1:
        return known[starts[0]]
    if starts:
        raise UsageError(f"--{given} is ambiguous for sbatch: --{', --'.join(sorted(starts))}")
    near = difflib.get_close_matches(given, known, 1, 0.6)
    hint = f"; do you mean --{near[0]}?" if near else ""
    raise UsageError(f"{_sbatch(release)} has no option --{given:.80}{hint}")


def _sbatch(release: str | None) -> str:
    return f"sbatch {release}" if release else "sbatch"


def _words(text: str, line: int) -> list[str]:
    """Split a line of a script as sbatch does; shlex treats ``#`` and backslashes otherwise.

    An empty word and a bare ``hetjob`` end what is read. 22.05 differs in one point: there a
    space ends the word even after a backslash.
    """
    words: list[str] = []
    word = ""
    quote = ""
    started = is_bare = False
    letters = iter(text + "\n")
    for letter in letters:
        if letter == "#" and not quote:
            break
        if letter not in _BLANK or quote:
            started, is_bare = True, (is_bare or not started) and letter not in "\\\"'"
            if letter == "\\":
                word += next(letters, "").rstrip("\n")
            elif letter == quote or (not quote and letter in "\"'"):
                quote = "" if quote else letter
            else:
                word += letter
        elif started:
            if not word or (is_bare and word.lower() in _HET_WORDS):
                return words or ([HET_SEPARATOR] if word else [])
            words.append(word)
            word, started, is_bare = "", False, False
    if quote:
        raise UsageError(f"line {line} of the script: no closing {quote} in a #SBATCH line")
    return [*words, word] if word else words
