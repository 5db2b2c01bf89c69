"""What a job says of its workload, collected value by value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .files import Files
from .options import Options, Value

_NUMBER = re.compile(r"0*([1-9][0-9]{0,11})(?:\.0+)?\Z")
_PLACEHOLDER = re.compile(r"\{\w+\}")
_TRUE, _FALSE = ("", "true", "yes", "1", "on", "t", "y"), ("false", "no", "0", "off", "f", "n")


@dataclass(frozen=True, slots=True)
class Found:
    """What a job says of its workload."""

    values: Mapping[str, str]
    """By planning option (model, sequence, global-batch, framework, train, lora-rank,
    precision), and what it fixes of the layout: tp, pp, cp, ep, etp, virtual-stages, zero,
    micro-batch (of one data-parallel rank) and accumulation (micro-batches per step)."""
    origins: Mapping[str, str]
    notes: tuple[str, ...]
    """What was seen and could not be used, for the user."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a framework's reader may look at beside the options."""

    folder: Path | None
    """Where relative paths start, if that is known."""
    files: Files
    programs: tuple[str, ...]
    """The words of the command that are not known to be options."""
    settings: Mapping[str, Value]
    """Variables that the script sets."""

    def path(self, text: str) -> Path | None:
        """Return the path that a text means; None if that is not known."""
        if not text.startswith("/") and self.folder is None:
            return None
        return (self.folder or Path("/")) / text


class Reading:
    """Takes planning values out of options, and notes on what could not be taken."""

    def __init__(self, options: Options, notes: list[str]) -> None:
        self.options = options
        self.notes = notes
        self.values: dict[str, str] = {}
        self.origins: dict[str, str] = {}

    def get(self, *names: str) -> Value | None:
        """Return the first of some options that is set and known; what is not, is noted."""
        for name in names:
            value = self.options.get(name)
            if value is None or value.text.lower() in ("none", "null", "auto"):
                continue
            if value.unknown:
                self.notes.append(f"{value.origin}: {name} is not known: {value.unknown}")
            elif not _PLACEHOLDER.search(value.text):
                return value
            return None
        return None

    def has(self, *names: str) -> bool:
        """Say whether any of some options is set, to whatever."""
        return any(name in self.options for name in names)

    def integer(self, *names: str) -> int | None:
        """Return the number of the first of some options that is set."""
        value = self.get(*names)
        if value is None:
            return None
        number = _NUMBER.match((value.text.split() or [""])[0].replace("_", ""))
        if number is None:
            name = next(name for name in names if self.options.get(name) is value)
            if value.text not in ("-1", "0"):
                self.notes.append(
                    f"{value.origin}: {name} is no positive whole number: {value.text!r:.60}"
                )
            return None
        return int(number[1])

    def origin(self, *names: str) -> str:
        """Return where the first of some options that is set stands."""
        return next((self.options[name].origin for name in names if name in self.options), "")

    def flag(self, name: str, default: bool = False) -> bool:
        """Return whether a flag is set."""
        value = self.get(name)
        if value is None:
            return default
        word = value.text.strip().lower()
        if word not in _TRUE + _FALSE:
            # A flag takes no value: what follows it is something else.
            return True
        return word in _TRUE

    def is_set(self, name: str) -> bool:
        """Return whether a flag that never takes a value is set."""
        value = self.options.get(name)
        return value is not None and (value.there if value.unknown else self.flag(name))

    def put(self, name: str, value: str, origin: str) -> None:
        """Keep a planning value; if there is another, that one stays, with a note."""
        if self.values.setdefault(name, value) != value:
            self.notes.append(
                f"{origin} says {name} {value}, {self.origins[name]} says {self.values[name]}: "
                "the latter counts"
            )
        else:
            self.origins.setdefault(name, origin)

    def keep(self, planning: str, *names: str) -> None:
        """Keep a planning value that is the number of an option."""
        value, number = self.get(*names), self.integer(*names)
        if value is not None and number is not None:
            self.put(planning, str(number), value.origin)

    def precision(self, *flags: tuple[str, str]) -> None:
        """Keep the precision of the first of some flags that is set."""
        for name, precision in flags:
            if name in self.options and self.flag(name):
                self.put("precision", precision, self.options[name].origin)
                return
