"""``sn-submit``'s command line: our options taken out, sbatch's left exactly as they were."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import UsageError
from ..slurm import options as sbatch
from ..slurm.option_table import PRINTING
from .options import OWN, PLANNING, Option
from .script import Script, find_script

_OWN = {option.name: option for option in OWN}
_WRAP = Option("wrap", "COMMAND", "sbatch's own: it becomes the script, which then holds the plan.")
_ACTING = {option.name for option in OWN if option not in PLANNING}
"""What changes the program itself; a script's own --model is nobody's mistake."""
_READS_ARGUMENTS = re.compile(r"\$(?:\{?!?[@*#1-9]|\{@)|\bgetopts?\b|\bshift\b")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line, taken apart."""

    own: dict[str, str]
    """Our options, by name; a flag holds an empty string. sbatch's ``wrap`` is among them."""
    components: tuple[tuple[str, ...], ...]
    """sbatch's options as written; several for a heterogeneous job, a ``:`` between them."""
    script: str | None
    arguments: tuple[str, ...]
    """What follows the script."""
    asks: str = ""
    """The option of sbatch that prints something and leaves: ``help``, ``usage`` ..."""
    is_apart: bool = False
    """Whether ``--`` stands before the script: all that follows is the script's."""

    @property
    def given(self) -> dict[str, str | None]:
        """Return what sbatch's options set, by long name, in the first component."""
        return sbatch.values(self.components[0])


def parse(argv: Sequence[str]) -> CommandLine:
    """Take a command line apart; ours may stand anywhere left of the script.

    Raises ``UsageError`` for an option that neither we nor sbatch know.
    """
    own: dict[str, str] = {}
    rest: list[str] = []
    words = list(argv)
    while words and (words[0] == sbatch.HET_SEPARATOR or _is_option(words[0])):
        word = words.pop(0)
        if word == sbatch.HET_SEPARATOR:
            rest.append(word)
            continue
        option, names = _known(word)
        if option is not None:
            own[option.name] = _own_value(option, word, words)
            continue
        if asked := [name for name in names if name in PRINTING]:
            return CommandLine(own, ((),), None, (), asks=asked[0])
        rest.append(word)
        if sbatch.takes_next(word) and words:
            rest.append(words.pop(0))
    parts = sbatch.split([*rest, *words])
    return CommandLine(
        own, parts.components, parts.script, parts.arguments, is_apart=words[:1] == ["--"]
    )


def located(line: CommandLine, path: str) -> CommandLine:
    """Return the line with the script's file in place of its name, as sbatch finds it."""
    if line.script is None:
        return line
    folders = [sbatch.values(words).get("chdir") for words in line.components]
    folder = next(filter(None, folders), "")
    return replace(line, script=find_script(line.script, folder, path))


def argument_notes(line: CommandLine, script: Script) -> list[str]:
    """Return a note for each of our options that stands right of the script.

    What the script names itself is its own. Raises ``UsageError`` where a real job would
    be submitted instead of a dry run, and for a script that reads no arguments.
    """
    notes = []
    reads = not script.is_shell or bool(_READS_ARGUMENTS.search(script.text))
    for word in () if line.is_apart else line.arguments:
        name = word.removeprefix("--").partition("=")[0]
        spellings = (name, name.replace("-", "_"))
        if name not in _ACTING or not word.startswith("--"):
            continue
        if any(spelling in script.text for spelling in spellings):
            continue
        said = (
            f"{word!r:.80} right of {script.origin} is an argument of the script: for sn-submit, "
            f"write it left of the script; for the script, put -- before {script.origin}"
        )
        if name == "dry-run" or not reads:
            raise UsageError(said)
        notes.append(said)
    return notes


def _is_option(word: str) -> bool:
    return sbatch.is_option(word) and word != "--"


def _known(word: str) -> tuple[Option | None, list[str]]:
    """Return our option, or the full names of sbatch's, which may be shortened."""
    name = word.removeprefix("--").partition("=")[0]
    if word.startswith("--") and name in _OWN:
        return _OWN[name], []
    try:
        names = sbatch.long_names(word)
    except UsageError:
        close = [long for long in _OWN if word.startswith("--") and long.startswith(name)]
        if close:
            raise UsageError(f"write --{' or --'.join(close)} in full, not --{name}") from None
        close = difflib.get_close_matches(name, _OWN, 1, 0.75)
        if not close:
            raise
        raise UsageError(f"no option --{name}; did you mean --{close[0]}?") from None
    return (_WRAP, []) if names == [_WRAP.name] else (None, names)


def _own_value(option: Option, word: str, words: list[str]) -> str:
    name = option.name
    _, equals, value = word.partition("=")
    if not option.metavar:
        if equals:
            raise UsageError(f"--{name} takes no value, got {value!r:.80}")
        return ""
    if equals:
        return value
    if not words:
        raise UsageError(f"--{name} needs a value: {option.metavar}")
    return words.pop(0)
