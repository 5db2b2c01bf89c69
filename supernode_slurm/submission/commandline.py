"""``sn-submit``'s command line: our options taken out, sbatch's left exactly as they were."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import ConfigError, UsageError, Where, nearest
from ..slurm import options as sbatch
from .options import OWN, PLANNING, Option
from .script import Script, sn_lines
from .settings import Settings

_OWN = {option.name: option for option in OWN}
_WRAP = Option("wrap", "COMMAND", "sbatch's own: it becomes the script, which then holds the plan.")
_PLANNING = {option.name for option in PLANNING}
_OWN_HET = (
    "makes a heterogeneous job by hand, which plain sbatch submits; sn-submit makes the "
    "components itself: --cards h100:8,a100:8"
)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line, taken apart."""

    own: dict[str, str]
    """Our options, by name; a flag holds an empty string. sbatch's ``wrap`` is among them."""
    sbatch: tuple[str, ...]
    """sbatch's options as written."""
    script: str | None
    arguments: tuple[str, ...]
    """What follows the script."""

    @property
    def given(self) -> dict[str, str | None]:
        """Return what sbatch's options set, by long name."""
        return sbatch.values(self.sbatch)


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
    if len(parts.components) > 1:
        raise UsageError(f"':' {_OWN_HET}")
    return CommandLine(own, parts.components[0], parts.script, parts.arguments)


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


def settings(line: CommandLine, env: Mapping[str, str], script: Script) -> Settings:
    """Return the planning values: command line, then SN_* variables, then #SN lines."""
    found = Settings()
    for name, value in line.own.items():
        if name in _PLANNING:
            found.add(name, value, "command line")
    for name in sorted(_PLANNING):
        variable = "SN_" + name.upper().replace("-", "_")
        if env.get(variable):
            found.add(name, env[variable], variable)
    for name, value, where in _directives(script):
        found.add(name, value, str(where))
    return found


def _directives(script: Script) -> list[tuple[str, str, Where]]:
    found: list[tuple[str, str, Where]] = []
    words = sn_lines(script)
    while words:
        word, where = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _PLANNING:
            hint = nearest(name.lstrip("-"), _PLANNING)
            raise ConfigError.one(where, f"#SN takes planning options only, got {word!r:.80}", hint)
        if not equals:
            if not words or words[0][1] != where:
                raise ConfigError.one(where, f"#SN: --{name} needs a value")
            value = words.pop(0)[0]
        found.append((name, value, where))
    # Of two lines the later one counts, as with #SBATCH.
    return found[::-1]


def sbatch_settings(line: CommandLine, env: Mapping[str, str], script: Script) -> Settings:
    """Return what the user asked of sbatch, by long option: command line, SBATCH_*, #SBATCH."""
    found = Settings()
    for name, value in sbatch.values(line.sbatch).items():
        found.add(name, value or "", "command line")
    for name, value in sbatch.environment(env).items():
        found.add(name, value or "", sbatch.variable(name))
    words = sbatch.directives(script.text)
    if sbatch.HET_SEPARATOR in words:
        raise UsageError(f"{script.origin}: '#SBATCH hetjob' {_OWN_HET}")
    for name, value in sbatch.values(words).items():
        found.add(name, value or "", f"#SBATCH in {script.origin}")
    return found
