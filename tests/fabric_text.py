"""Fabrics for tests: cables by name, printed as ``ibnetdiscover`` would."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Wire:
    """How fast a cable is."""

    lanes: int = 4
    rate: str = "NDR"


NDR = Wire()


@dataclass
class _End:
    guid: str
    name: str
    port: int


@dataclass
class Net:
    """Switches, named by one word, and adapters, whose names hold a space or stand alone."""

    first: int = 1
    cables: list[tuple[str, str, Wire, int]] = field(default_factory=list)
    """Adapter or switch, switch, speed and the switch's port, 0 for the next."""
    _names: dict[int, str] = field(default_factory=dict)

    def wire(self, one: str, switch: str, wire: Wire = NDR, port: int = 0) -> None:
        """Add a cable."""
        self.cables.append((one, switch, wire, port))

    def cut(self, adapter: str) -> None:
        """Take out an adapter."""
        self.cables = [cable for cable in self.cables if cable[0] != adapter]

    def move(self, adapter: str, switch: str) -> None:
        """Hang an adapter at another switch."""
        self.cables = [(c[0], switch, *c[2:]) if c[0] == adapter else c for c in self.cables]

    def rename(self, adapter: str, name: str) -> None:
        """Give an adapter another node description; its GUID stays."""
        for at, cable in enumerate(self.cables):
            if cable[0] == adapter:
                self._names[at] = name

    def switches(self) -> list[str]:
        """Return the names of all switches."""
        return list(dict.fromkeys(cable[1] for cable in self.cables))

    def guid(self, adapter: str) -> str:
        """Return the GUID of an adapter by the name it was wired under."""
        return next(
            f"{self.first + at:016x}" for at, c in enumerate(self.cables) if c[0] == adapter
        )

    def _ends(self) -> list[tuple[_End, _End, Wire]]:
        names = self.switches()
        guids = {name: f"{0x2C5E0000 + self.first + at:016x}" for at, name in enumerate(names)}
        ports = dict.fromkeys(names, 0)

        def end(name: str, at: int, port: int) -> _End:
            if name in guids:
                ports[name] += 1
                return _End(guids[name], f"MF0;{name}:MQM9701/U1", port or ports[name])
            return _End(f"{self.first + at:016x}", self._names.get(at, name), 1)

        return [
            (end(one, at, 0), end(switch, at, port), wire)
            for at, (one, switch, wire, port) in enumerate(self.cables)
        ]

    def __str__(self) -> str:
        """Return the whole listing."""
        parts: dict[str, list[str]] = {}
        heads: dict[str, str] = {}
        lids: dict[str, int] = {}
        for here, there, wire in self._both():
            lid = lids.setdefault(there.guid, len(lids) + 1)
            mine = lids.setdefault(here.guid, len(lids) + 1)
            kind = "S" if there.name.startswith("MF0;") else "H"
            speed = f"{wire.lanes}x{wire.rate}"
            if here.name.startswith("MF0;"):
                heads[here.guid] = (
                    f"vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{here.guid}\n"
                    f"switchguid=0x{here.guid}({here.guid})\n"
                    f'Switch\t65 "S-{here.guid}"\t\t'
                    f'# "{here.name}" enhanced port 0 lid {mine} lmc 0'
                )
                after = f"({there.guid}) " if kind == "H" else ""
                line = f'[{here.port}]\t"{kind}-{there.guid}"[{there.port}]{after}\t\t'
                line += f'# "{there.name}" lid {lid} {speed}'
            else:
                heads[here.guid] = (
                    f"vendid=0x2c9\ndevid=0x1021\nsysimgguid=0x{here.guid}\n"
                    f'caguid=0x{here.guid}\nCa\t1 "H-{here.guid}"\t\t# "{here.name}"'
                )
                line = f'[{here.port}]({here.guid}) \t"S-{there.guid}"[{there.port}]\t\t'
                line += f'# lid {mine} lmc 0 "{there.name}" lid {lid} {speed}'
            parts.setdefault(here.guid, []).append(line)
        head = "#\n# Topology file: generated on Wed Aug  6 16:11:23 2025\n#\n"
        return head + "".join(
            "\n" + "\n".join([heads[guid], *lines]) + "\n" for guid, lines in parts.items()
        )

    def ports(self) -> str:
        """Return the list of ports."""
        lines = []
        for here, there, wire in self._both():
            kinds = ["SW" if end.name.startswith("MF0;") else "CA" for end in (here, there)]
            lines.append(
                f"{kinds[0]} {1:5} {here.port:2} 0x{here.guid} {wire.lanes}x {wire.rate}"
                f" - {kinds[1]} {2:5} {there.port:2} 0x{there.guid}"
                f" ( '{here.name}' - '{there.name}' )\n"
            )
        return "".join(lines)

    def _both(self) -> list[tuple[_End, _End, Wire]]:
        ends = self._ends()
        return [*((b, a, wire) for a, b, wire in ends), *ends]
