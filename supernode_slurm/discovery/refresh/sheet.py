"""An inventory as its author folded it: sections, classes of them, and the hosts of each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ... import hostlist
from ...inventory import Inventory, NodeClass, loads
from ...inventory.fields import class_numbers
from ..classes import places_of_number
from ..machines import OF_EACH
from .patch import MARK, patched
from .spans import BOM, Item, new, parse, plain, str_of


class MustSplit(Exception):
    """A mapping must become a list before the tree can change as wanted; its value."""

    def __init__(self, item: Item) -> None:
        self.item = item
        super().__init__()


@dataclass(slots=True, eq=False)
class Part:
    """Equal nodes of a section: a mapping with ``hosts``."""

    item: Item
    classes: list[NodeClass]
    """For each instance of the section; empty for a rack."""

    @property
    def pattern(self) -> str:
        """Return the hosts as written."""
        return self.item.text("hosts")


@dataclass(slots=True, eq=False)
class Section:
    """A supernode, a pool or a rack, or a class of equal ones."""

    kind: str
    """Its key in the inventory: supernodes, pools or racks."""
    item: Item
    names: list[str]
    numbers: list[str | None]
    """Of each instance in its class, None for a section that is no class."""
    parts: list[Part] = field(default_factory=list)
    each: dict[str, dict[str, str]] = field(default_factory=dict)
    """By host the options that each node has for itself, such as its address."""

    def hosts(self, part: Part, instance: int) -> list[str]:
        """Return the hosts of a part of one instance."""
        return hostlist.expand(part.pattern.replace("{n}", self.numbers[instance] or "0"))

    def all_hosts(self, instance: int) -> list[str]:
        """Return the hosts of one instance."""
        return [host for part in self.parts for host in self.hosts(part, instance)]

    @property
    def is_ordered(self) -> bool:
        """Return whether the place of a host in the list is its place in the fabric."""
        link = self.item.at("interconnect")
        return link is not None and link.text("kind") in ("ring", "torus")

    def pattern_for(self, part: Part, hosts: Sequence[Sequence[str]]) -> str:
        """Return the hosts of a part as text, a list for each instance; empty if none fits."""
        before = hostlist.expand(part.pattern.replace("{n}", self.numbers[0] or "0"))
        is_sorted = before == hostlist.expand(hostlist.fold(before)) and not self.is_ordered
        text = hostlist.fold(hosts[0], sort=is_sorted)
        number = self.numbers[0]
        if number is None:
            return text
        fitting = [
            pattern
            for pattern in places_of_number(text, number)
            if all(
                _expands(pattern, n, held, is_sorted)
                for n, held in zip(self.numbers, hosts, strict=True)
            )
        ]
        place = part.pattern.find("{n}")
        same = (item for item in fitting if item.find("{n}") == place)
        return next(same, fitting[0] if fitting else "")

    def set_hosts(self, part: Part, hosts: Sequence[Sequence[str]]) -> None:
        """Write the hosts of a part, a list for each instance."""
        text = self.pattern_for(part, hosts)
        put(part.item, "hosts", text or hostlist.fold(hosts[0], sort=not self.is_ordered))
        if self.numbers[0] is None:
            self.fit_options(part.item)

    def fit_options(self, item: Item) -> None:
        """Write the options that each host has for itself in the order of the hosts."""
        options = item.at("options")
        if options is None or not isinstance(options.value, dict):
            return
        hosts = hostlist.expand(item.text("hosts"))
        for key in [key for key in options.value if key.casefold() in OF_EACH]:
            if not any(key in self.each.get(host, {}) for host in hosts):
                continue
            values = [self.each.get(host, {}).get(key, host) for host in hosts]
            if len(set(values)) == 1:
                put(options, key, values[0])
            else:
                whole = len(set(values)) == len(values)
                put(options, key, hostlist.fold(values, sort=False) if whole else ",".join(values))


def _expands(pattern: str, number: str | None, hosts: Sequence[str], is_sorted: bool) -> bool:
    try:
        found = hostlist.expand(pattern.replace("{n}", number or "0"))
    except ValueError:  # a number of its own became a part of a range
        return False
    return sorted(found) == sorted(hosts) if is_sorted else found == list(hosts)


class Sheet:
    """A text of an inventory, its tree to be changed, and what it means."""

    def __init__(self, text: str, source: str, day: str) -> None:
        """Read a text; raises ``ConfigError`` where it is no inventory."""
        self.text = text
        self.source = source
        self.day = day
        self.body = text.removeprefix(BOM)
        """What the places of the tree count."""
        self.root = parse(text, source)
        self.inventory: Inventory = loads(text, source)
        self.each: dict[str, dict[str, str]] = {}
        self.sections = [
            section for kind in ("supernodes", "pools", "racks") for section in self._read(kind)
        ]

    def patched(self) -> str:
        """Return the text of the changed tree; raises ``CannotEdit``."""
        return patched(self.text, self.root, self.source)

    @property
    def domains(self) -> list[Section]:
        """Return the sections of supernodes and pools."""
        return [section for section in self.sections if section.kind != "racks"]

    @property
    def racks(self) -> list[Section]:
        """Return the sections of racks."""
        return [section for section in self.sections if section.kind == "racks"]

    def of_domain(self, name: str) -> tuple[Section, int] | None:
        """Return the section of a supernode or pool, and its place in the class."""
        for section in self.domains:
            if name in section.names:
                return section, section.names.index(name)
        return None

    def mark(self, what: str) -> str:
        """Return the comment that stands over an entry of ours."""
        return f"{MARK[2:]} {self.day}: {what}"

    def has_comments(self, item: Item) -> bool:
        """Return whether somebody wrote a comment within an entry, or behind it."""
        if item.span is None:
            return False
        end = self.body.find("\n", item.span.end)
        return "#" in self.body[item.span.start : end if end >= 0 else len(self.body)]

    def isolate(self, section: Section, instance: int, why: str) -> Section:
        """Return one of a class as a section of its own, behind that of its class."""
        name, number = section.names[instance], section.numbers[instance] or ""
        item = copied(section.item)
        item.fold = True
        item.comment = self.mark(why)
        put(item, "name", name)
        alone = Section(section.kind, item, [name], [None], each=self.each)
        bodies = item.entries("nodes") if section.kind != "racks" else [item]
        for part, body in zip(section.parts, bodies, strict=True):
            body.fold = True
            put(body, "hosts", part.pattern.replace("{n}", number))
            classes = [part.classes[instance]] if part.classes else []
            alone.parts.append(Part(body, classes))
            part.classes[instance : instance + 1] = []
        del section.names[instance], section.numbers[instance]
        if section.kind == "racks" and len(section.names) == 1:
            put(section.item, "hosts", section.parts[0].pattern.replace("{n}", _only(section)))
            put(section.item, "name", section.names[0])
            section.numbers[0] = None
        else:
            put(section.item, "name", _class_name(section))
        listed = self.list_of(section.kind)
        listed.insert(listed.index(section.item) + 1, item)
        self.sections.insert(self.sections.index(section) + 1, alone)
        return alone

    def refold(self, section: Section) -> bool:
        """Put a section of ours back into the class that it is equal to; say whether."""
        if len(section.names) != 1 or section.numbers[0] is not None:
            return False
        if self.has_comments(section.item):
            return False
        for other in self.sections:
            number = _number_in(other, section.names[0])
            if other is section or other.kind != section.kind or number is None:
                continue
            if _meant(section.item) == _as_instance(other, section.names[0], number):
                _insert(other, section.names[0], number, [p.classes for p in section.parts])
                put(other.item, "name", _class_name(other))
                listed = self.list_of(section.kind)
                del listed[listed.index(section.item)]
                self.sections.remove(section)
                return True
        return False

    def add_instance(self, section: Section, number: str) -> str:
        """Add one to a class, whose hosts follow from its pattern; return its name."""
        name = section.names[0].removesuffix(section.numbers[0] or "") + number
        _insert(section, name, number, [part.classes[:1] for part in section.parts])
        put(section.item, "name", _class_name(section))
        return name

    def list_of(self, key: str) -> list[Item]:
        """Return the list of a key of the file, made if there is none."""
        if not isinstance(self.root.value, dict):
            raise TypeError("an inventory is a mapping")
        found = self.root.value.get(key)
        if found is None:
            found = self.root.value[key] = new([])
            found.fold = True
        if not isinstance(found.value, list):
            found.value = []
        return found.value

    def _read(self, kind: str) -> list[Section]:
        found = []
        for item in self.root.entries(kind):
            text = item.text("name")
            names = hostlist.expand(text)
            numbers: list[str | None] = list(class_numbers(text)) or [None] * len(names)
            if kind == "pools":
                numbers = [None]
            section = Section(kind, item, names, numbers, each=self.each)
            bodies = item.entries("nodes") if kind != "racks" else [item]
            for at, body in enumerate(bodies):
                classes = [] if kind == "racks" else self._classes(names, at)
                section.parts.append(Part(body, classes))
                if classes and numbers[0] is None:
                    self._take_options(classes[0])
            found.append(section)
        return found

    def _take_options(self, nodes: NodeClass) -> None:
        for key, text in nodes.options:
            if key.casefold() in OF_EACH:
                values = _values(text)
                if len(values) in (1, len(nodes.hosts)):
                    for at, host in enumerate(nodes.hosts):
                        self.each.setdefault(host, {})[key] = values[at % len(values)]

    def _classes(self, names: list[str], at: int) -> list[NodeClass]:
        return [self.inventory.domain(name).nodes[at] for name in names]


def _values(text: str) -> list[str]:
    try:
        return hostlist.expand(text)
    except ValueError:
        return text.split(",")


def put(mapping: Item, key: str, value: object) -> None:
    """Write a value under a key, changing no more of what is there than differs."""
    if not isinstance(mapping.value, dict):
        raise TypeError("a mapping is needed")
    there = mapping.value.get(key)
    if there is None:
        mapping.value[key] = new(value)
    else:
        assign(there, value)


def assign(item: Item, value: object) -> None:
    """Make an item say a value, changing no more of what is there than differs."""
    if isinstance(value, dict) and isinstance(item.value, dict):
        for key in [key for key in item.value if key not in value]:
            del item.value[key]
        for key, held in value.items():
            put(item, key, held)
    elif isinstance(value, (list, tuple)) and isinstance(item.value, list):
        left, kept = list(item.value), []
        for held in value:
            at = next((i for i, old in enumerate(left) if plain(old) == held), None)
            kept.append(left[at] if at is not None else new(held))
            left = left[at + 1 :] if at is not None else left
        item.value = kept
    elif plain(item) != value:
        item.value = new(value).value


def drop(mapping: Item, key: str) -> None:
    """Take a key away, if it is there."""
    if isinstance(mapping.value, dict):
        mapping.value.pop(key, None)


def copied(item: Item) -> Item:
    """Return a copy that is not in the text yet; scalars mean what they meant."""
    if isinstance(item.value, dict):
        return Item({key: copied(held) for key, held in item.value.items()})
    if isinstance(item.value, list):
        return Item([copied(held) for held in item.value])
    if isinstance(item.value, (int, float)) and str(item.value).lower() != str_of(item).lower():
        return Item(str_of(item))  # 0012 is a good name
    return Item(item.value)


def _only(section: Section) -> str:
    return section.numbers[0] or ""


def _class_name(section: Section) -> str:
    """Return the name of a class, also of one with a single instance left."""
    if len(section.names) > 1:
        return hostlist.fold(section.names, sort=False)
    number = section.numbers[0] or ""
    return f"{section.names[0].removesuffix(number)}[{number}]"


def _insert(
    section: Section, name: str, number: str, classes: Sequence[Sequence[NodeClass]]
) -> None:
    at = sum(_order(held) < _order(number) for held in section.numbers)
    section.names.insert(at, name)
    section.numbers.insert(at, number)
    for part, mine in zip(section.parts, classes, strict=True):
        part.classes[at:at] = mine


def _order(number: str | None) -> int:
    return int(number or 0)


def _number_in(section: Section, name: str) -> str | None:
    """Return the number that a name would have in a class, None if it cannot be of it."""
    number = section.numbers[0]
    if number is None:
        return None
    stem = section.names[0].removesuffix(number)
    rest = name.removeprefix(stem)
    fits = name.startswith(stem) and rest.isdecimal() and len(rest) >= len(number)
    return rest if fits and stem else None


def _as_instance(section: Section, name: str, number: str) -> object:
    """Return the bare values of a class written for one of it."""
    item = copied(section.item)
    put(item, "name", name)
    bodies = item.entries("nodes") if section.kind != "racks" else [item]
    for body in bodies:
        put(body, "hosts", body.text("hosts").replace("{n}", number))
    return _meant(item)


def _meant(item: Item) -> object:
    """Return bare values in which a list of one part is that part."""
    found = plain(item)
    if isinstance(found, dict) and isinstance(found.get("nodes"), list):
        nodes = found["nodes"]
        return {**found, "nodes": nodes[0] if len(nodes) == 1 else nodes}
    return found
