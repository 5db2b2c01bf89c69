"""``sn-submit``'s command line: our options taken out, sbatch's left exactly as they were."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..slurm import options as sbatch
from .options import OWN, Option

_OWN = {option.name: option for option in OWN}
_WRAP = Option("wrap", "COMMAND", "sbatch's own: it becomes the script, which then holds the plan.")


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
    while words:
        word = words.pop(0)
        if word == "--" or not word.startswith("-") or word == "-":
            rest += [word, *words]
            break
        name, equals, value = word[2:].partition("=")
        option = {**_OWN, "wrap": _WRAP}.get(name) if word.startswith("--") else None
        if option is not None:
            own[name] = _own_value(option, value if equals else None, words)
            continue
        rest.append(word)
        if _takes_next(word) and words:
            rest.append(words.pop(0))
    parts = sbatch.split(rest)
    return CommandLine(own, parts.components, parts.script, parts.arguments)


def _takes_next(word: str) -> bool:
    try:
        return sbatch.takes_next(word)
    except UsageError:
        name = word.removeprefix("--").partition("=")[0]
        close = difflib.get_close_matches(name, _OWN, 1, 0.75)
        if not close:
            raise
        raise UsageError(f"no option --{name}; did you mean --{close[0]}?") from None


def _own_value(option: Option, value: str | None, words: list[str]) -> str:
    name = option.name
    if not option.metavar:
        if value is not None:
            raise UsageError(f"--{name} takes no value, got {value!r:.80}")
        return ""
    if value is None:
        if not words:
            raise UsageError(f"--{name} needs a value: {option.metavar}")
        value = words.pop(0)
    return value
