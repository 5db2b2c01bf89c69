"""All that the probe reads, part by part: what fails is said and leaves the rest alone.

Python 3.6, standard library only.
"""

from typing import Any, Callable, Dict, Iterator, List, Tuple

from . import cards, host, network, software
from .source import Source

Part = Tuple[str, Any]
_PARSING = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""What a reader may trip over in a text that nobody has seen before."""


def collect(source: Source, serials: bool) -> Iterator[Part]:
    """Yield the parts of the record by name, each preceded by ``reading`` and its name.

    ``tools`` is what the programs have answered so far; the last one counts.
    """
    record: Dict[str, Any] = {}
    for name, function in _steps(source, serials, record):
        yield "reading", name
        try:
            found = function()
        except _PARSING as error:
            found = {}
            record.setdefault("unread", {})[name] = type(error).__name__ + ": " + str(error)[:100]
            yield "unread", record["unread"]
        for key, value in found.items():
            record[key] = value
            yield key, value
        yield "tools", source.answers


def _steps(
    source: Source, serials: bool, record: Dict[str, Any]
) -> Iterator[Tuple[str, Callable[[], Dict[str, Any]]]]:
    yield "node", lambda: {"node": host.read_node(source)}
    yield "system", lambda: {"system": host.read_system(source)}
    yield "board", lambda: {"board": host.read_board(source, serials)}
    yield "bus", lambda: {"bus": host.read_bus(source)}
    yield "files", lambda: {"files": host.read_device_files(source)}
    yield "network", lambda: {"network": _network(source)}
    record["devices"] = []
    for vendor, tool, reader in cards.tools():
        yield tool, _Cards(source, serials, record, vendor, tool, reader)
    yield "device files", lambda: {"devices": _with_files(record)}
    yield "modules", lambda: {"modules": software.read_modules(source)}
    yield "versions", lambda: {"versions": _versions(source, record)}


class _Cards:
    """Reads the cards of one vendor into the record."""

    def __init__(
        self, source: Source, serials: bool, record: Dict[str, Any], *of_vendor: Any
    ) -> None:
        self._source = source
        self._serials = serials
        self._record = record
        self._vendor, self._tool, self._reader = of_vendor

    def __call__(self) -> Dict[str, Any]:
        bus = self._record.get("bus", {})
        if self._vendor == "amd" and "hygon" in bus and "amd" not in bus:
            return {}  # Hygon's cards answer to rocm-smi as well
        found = self._reader(self._source)
        devices = cards.finished(
            self._vendor, self._tool, found.get("devices") or [], self._serials
        )
        if devices and found.get("driver"):
            drivers = self._record.setdefault("drivers", {})
            drivers[self._vendor] = found["driver"]
        changed = {"devices": self._record["devices"] + devices}
        for key in ("cuda", "topology", "super_pod", "attached"):
            if found.get(key) not in (None, "", {}):
                changed[key] = found[key]
        return changed


def _network(source: Source) -> List[Dict[str, Any]]:
    found = network.read_files(source)
    return found or network.read_ibstat(source.run(["ibstat"]))


def _with_files(record: Dict[str, Any]) -> List[Dict[str, Any]]:
    devices: List[Dict[str, Any]] = record["devices"]
    return devices + cards.of_files(record.get("files", []), devices)


def _versions(source: Source, record: Dict[str, Any]) -> Dict[str, str]:
    found = software.read_versions(source)
    found.update(software.of_devices(record["devices"], record.get("network", [])))
    drivers = sorted(set(record.get("drivers", {}).values()))
    if drivers:
        found["driver"] = " + ".join(drivers)
    if record.get("cuda"):
        found["cuda"] = record["cuda"]
    for key in ("kernel", "os"):
        if record.get("system", {}).get(key):
            found[key] = record["system"][key]
    bios = record.get("board", {}).get("bios")
    if bios:
        found["bios"] = bios
    return found
