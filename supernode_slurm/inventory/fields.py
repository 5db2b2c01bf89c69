"""The kinds of values that an inventory's fields hold: how each is read and described.

Each kind turns a scalar into one unit, raises ``ValueError`` with the accepted forms,
and knows its JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Protocol

from .. import hostlist, units
from .options import NODE_OPTIONS, PARTITION_OPTIONS, Option
from .yamltree import shown

RESERVED = frozenset({"ALL", "DEFAULT", "NONE"})
"""Names, in any case, that Slurm's files read as something else."""
SHARING_GRES = frozenset({"mps", "shard"})
"""GRES that share another one and may not be named for cards."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,62}\Z")
_BOUND = re.compile(r"\{0,([0-9]+)\}\\Z\Z")
"""How a pattern ends that takes one character and so many more."""


class Kind(Protocol):
    """How the value of a field is read."""

    def read(self, value: Any) -> Any:
        """Return the value in its unit; ``ValueError`` says what is accepted."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what is accepted."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with a unit, such as ``900 GB/s``."""

    parse: Callable[[str], Any]
    example: str

    def read(self, value: Any) -> Any:
        """Return the quantity in the unit of the parser."""
        if not isinstance(value, str):
            raise ValueError(f"expected a quantity with its unit like '{self.example}'")
        return self.parse(value)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: a string, with an example."""
        return {"type": "string", "examples": [self.example]}


@dataclass(frozen=True, slots=True)
class Text:
    """A word that ends up in Slurm's files, so only safe letters."""

    pattern: re.Pattern[str]
    hint: str
    reserved: frozenset[str] = RESERVED

    def read(self, value: Any) -> str:
        """Return the text; a bare number comes as it was written."""
        text = value
        if not isinstance(text, str) or not self.pattern.match(text):
            raise ValueError(f"expected {self._hint(text)}, got {shown(text)}")
        if text.upper() in self.reserved:
            raise ValueError(f"{text!r} has a meaning of its own in Slurm's files")
        _countable(text)
        return text

    def _hint(self, text: object) -> str:
        bound = _BOUND.search(self.pattern.pattern)
        if bound and isinstance(text, str):
            unbound = self.pattern.pattern[: bound.start()] + r"*\Z"
            if re.match(unbound, text):
                return f"at most {int(bound[1]) + 1} characters"
        return self.hint

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: a string with its pattern."""
        return {"type": "string", "pattern": "^" + self.pattern.pattern.replace(r"\Z", "$")}


def _countable(name: str) -> None:
    most = hostlist.LONGEST_TAIL
    if len(hostlist.digit_tail(name)) > most:
        raise ValueError(f"{name!r:.80} ends in more than {most} digits: Slurm miscounts them")


@dataclass(frozen=True, slots=True)
class Share:
    """A share written in percent."""

    def read(self, value: Any) -> float:
        """Return the share, 0.1 for ``10 %``."""
        found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%", str(value))
        if found is None:
            raise ValueError("expected a share like '10 %'")
        return float(found[1]) / 100

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: a string, with an example."""
        return {"type": "string", "examples": ["10 %"]}


@dataclass(frozen=True, slots=True)
class Hosts:
    """A host list in Slurm's notation."""

    numbered: bool = False
    """``{n}`` may stand in it, for the number of a supernode of the class."""

    def read(self, value: Any) -> str:
        """Return the list as written, once it is known to be one."""
        if not isinstance(value, str):
            raise ValueError("expected a host list like 'n[01-18]'")
        for host in hostlist.expand(value.replace("{n}", "0") if self.numbered else value):
            if host.upper() in RESERVED:
                raise ValueError(f"{host!r} has a meaning of its own in Slurm's files")
            _countable(host)
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: a string."""
        return {"type": "string", "examples": ["n[01-18]", "sn{n}-[01-18]"]}


@dataclass(frozen=True, slots=True)
class Number:
    """A number within bounds."""

    low: float
    high: float
    whole: bool = True

    def read(self, value: Any) -> float:
        """Return the number."""
        wanted = "a whole number" if self.whole else "a number"
        accepted = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise ValueError(f"expected {wanted}, got {shown(value)}")
        if not self.low <= value <= self.high:
            raise ValueError(f"expected {wanted} from {self.low:g} to {self.high:g}, got {value}")
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: a number with its bounds."""
        kind = "integer" if self.whole else "number"
        return {"type": kind, "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, value: Any) -> str:
        """Return the word."""
        if value not in self.words:
            raise ValueError(f"expected one of {', '.join(self.words)}, got {shown(value)}")
        return str(value)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: an enumeration."""
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """A release of Slurm, in quotes: without them ``24.10`` would be the number 24.1."""

    def read(self, value: Any) -> str:
        """Return the release, or ``auto``."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            raise ValueError(f"a release stands in quotes, like '24.11'; got the number {value}")
        if value != "auto" and not re.fullmatch(r"[0-9]{2}\.[0-9]{2}", str(value)):
            raise ValueError(
                f"expected a release like '24.11' in quotes, or auto, got {shown(value)}"
            )
        return str(value)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: a string with its pattern."""
        return {"type": "string", "pattern": r"^(auto|[0-9]{2}\.[0-9]{2})$"}


@dataclass(frozen=True, slots=True)
class Day:
    """A day of the calendar, like ``2026-11-30``."""

    def read(self, value: Any) -> date:
        """Return the day."""
        try:
            if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", str(value)):
                raise ValueError
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError(f"expected a day like 2026-11-30, got {shown(value)}") from None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: a string in the format of a date."""
        return {"type": "string", "format": "date"}


Bandwidth = Annotated[float, Quantity(units.bandwidth_gbs, "900 GB/s")]
Latency = Annotated[float, Quantity(units.latency_ns, "500 ns")]
Memory = Annotated[int, Quantity(units.memory_mib, "940 GiB")]
Rate = Annotated[float, Quantity(units.tflops, "312 TFLOPS")]
Power = Annotated[float, Quantity(units.power_w, "132 kW")]
HourPrice = Annotated[tuple[float, str], Quantity(units.price_per_hour, "3.1 CNY/h")]
TimeLimit = Annotated[str, Quantity(units.slurm_time, "7-00:00:00")]
Period = Annotated[float, Quantity(units.days, "180 d")]
Date = Annotated[date, Day()]
Release = Annotated[str, ReleaseName()]
HostList = Annotated[str, Hosts()]
HostPattern = Annotated[str, Hosts(numbered=True)]
GresName = Annotated[
    str,
    Text(
        re.compile(r"[a-z][a-z0-9_]{0,30}\Z"),
        "a GRES name of small letters, digits and '_'",
        frozenset(name.upper() for name in SHARING_GRES),
    ),
]
GresType = Annotated[
    str, Text(NAME, "a name of letters, digits, '_', '.', '-'", RESERVED | {"NO_CONSUME"})
]
OtherGres = Annotated[
    str,
    Text(
        re.compile(
            r"(?!shard\b)[A-Za-z][A-Za-z0-9_]{0,30}(?::[A-Za-z0-9_][A-Za-z0-9_.\-]{0,62})?\Z"
        ),
        "a GRES like 'gpu:m2070q' or 'mps'; shards stand with their cards",
    ),
]
Feature = Annotated[
    str, Text(re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-=]{0,62}\Z"), "a feature of one word")
]
NodeOption = Annotated[str, Option(NODE_OPTIONS)]
PartitionOption = Annotated[str, Option(PARTITION_OPTIONS)]
# Quotes, backslashes and '#' would end the value or the line in slurm.conf.
OptionValue = Annotated[
    str,
    Text(
        re.compile(r"(?! )(?:(?![\"'\\#])[ -~]){1,4000}(?<! )\Z"),
        "a value without quotes, backslashes and '#'",
        frozenset(),
    ),
]
# Slurm's and ours tell a job what it is; the loader's change what its programs are.
VariableName = Annotated[
    str,
    Text(
        re.compile(r"(?!(?:LD|SLURM|SBATCH|SN)_|PATH\Z)[A-Z][A-Z0-9_]{0,63}\Z"),
        "a variable of a communication library like 'NCCL_IB_GID_INDEX'",
    ),
]
VariableValue = Annotated[
    str,
    Text(
        re.compile(r"[A-Za-z0-9_.:,;=^%/+@\-]{1,400}\Z"),
        "a value without blanks and quotes",
        frozenset(),
    ),
]
LinkName = Annotated[
    str,
    Text(re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:\-]{0,31}\Z"), "a device like 'bond0' or 'mlx5_0'"),
]
FilePath = Annotated[
    str, Text(re.compile(r"/[A-Za-z0-9_./\-]{1,200}\Z"), "an absolute path of plain letters")
]
DeviceFiles = Annotated[
    str,
    Text(
        re.compile(r"/dev/[A-Za-z0-9_./\-]+(?:\[[0-9,\-]+\])?\Z"),
        "device files like '/dev/nvidia[0-7]'",
    ),
]
CoreRange = Annotated[
    str,
    Text(
        re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*\Z"),
        "core indexes like '0-47'",
    ),
]
LinkCounts = Annotated[
    str, Text(re.compile(r"-?[0-9]{1,3}(?:,-?[0-9]{1,3})*\Z"), "link counts like '-1,16,16,16'")
]
MigProfile = Annotated[
    str, Text(re.compile(r"[1-7]g\.[0-9]{1,3}gb(?:[+.-]me)?\Z"), "a MIG profile like '1g.10gb'")
]
Index = Annotated[int, Number(0, 1023)]
Name = Annotated[str, Text(NAME, "a name of letters, digits, '_', '.', '-'")]
PartitionName = Annotated[
    str, Text(NAME, "a name of letters, digits, '_', '.', '-'", frozenset({"DEFAULT"}))
]
Word = Annotated[str, Text(re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\- /+:]{0,126}\Z"), "a short text")]
Count = Annotated[int, Number(1, 1_000_000)]
Cores = Annotated[int, Number(1, 65_533)]
Cards = Annotated[int, Number(1, 1024)]
CountOrZero = Annotated[int, Number(0, 1_000_000)]
Percent = Annotated[float, Share()]
Ratio = Annotated[float, Number(1, 1000, whole=False)]
Version = Annotated[int, Number(1, 1)]
RuleName = Annotated[
    str, Text(re.compile(r"[a-z][a-z0-9\-]{1,40}\Z"), "the name of a rule, like 'rack-power'")
]
Remark = Annotated[
    str, Text(re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,400}\Z"), "a line of text", frozenset())
]
Component = Annotated[
    str,
    Text(re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,62}\Z"), "a component like 'driver'", frozenset()),
]
VersionText = Annotated[
    str,
    Text(
        re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+:~()\- /]{0,126}\Z"),
        "a version like '550.54.15'",
        frozenset(),
    ),
]


def class_numbers(name: str) -> list[str]:
    """Return the numbers of ``sn[1-8]`` as written, none for a name without a bracket."""
    found = re.fullmatch(r"([^\[\]]+)(\[[^\[\]]*\])", name)
    if found is None or not NAME.match(found.group(1)):
        return []
    stem = len(found.group(1))
    return [host[stem:] for host in hostlist.expand(name)]
