"""What is wrong with probed nodes: cards that are missing, ports and links that are down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from .. import hostlist
from ..errors import Problem
from .probe_cards import Cards
from .probe_facts import Probe
from .probe_network import rails_of
from .probes import place_of
from .room import Remark, Room

Told = tuple[str, str, str]
"""Kind of remark, what, and what to do."""


def tell_faults(room: Room, cards: Mapping[str, Cards]) -> None:
    """Tell of each node what a person should look at, equal words once for all hosts."""
    told: dict[Told, list[str]] = {}
    for host, probe in room.probes.items():
        for words in (*_of_tools(probe), *_of_cards(probe, cards[host]), *_of_network(probe)):
            told.setdefault(words, []).append(host)
    for words, hosts in _uneven(room.probes, cards):
        told.setdefault(words, []).extend(hosts)
    for (kind, what, todo), hosts in told.items():
        room.remarks.append(Remark(kind, Problem(place_of(hosts), what, todo)))


def _of_tools(probe: Probe) -> Iterator[Told]:
    for trouble in probe.troubles:
        yield "fault", trouble, "what it would have told is not known"


def _of_cards(probe: Probe, cards: Cards) -> Iterator[Told]:
    for unknown in cards.unknown:
        todo = f"--accelerator '{unknown.key}=NAME' says which ('sn show accelerators')"
        yield "unsaid", f"{unknown.count} cards '{unknown.key}': {unknown.why}", todo
    if cards.uneven_mig:
        what = "MIG is on, and not the same on all cards: left out"
        yield "lost", what, "an inventory has equal instances on all cards of a kind"
    seen = Counter(card.vendor for card in probe.cards)
    for vendor, count in probe.on_bus:
        if 0 < seen[vendor] < count:
            what = f"{seen[vendor]} of {count} {vendor} cards on the PCI bus answer"
            yield "fault", what, "dmesg says which its driver has lost"
        elif count and not seen[vendor]:
            what = f"{count} {vendor} cards on the PCI bus, and no tool shows them"
            yield "fault", what, "is the driver loaded?"
    down = sum(card.links_down > 0 for card in probe.cards)
    if down:
        yield "fault", f"{down} cards have scale-up links that are down", "look at the fabric"
    ill = sorted({card.health for card in probe.cards if card.health.casefold() not in ("", "ok")})
    if ill:
        yield "fault", f"health of cards: {', '.join(ill)}", "ask the vendor's tool why"
    if unverified := sorted({card.vendor for card in probe.cards if not card.verified}):
        what = f"cards of {', '.join(unverified)} are read without proof"
        yield "unsaid", what, "no real output of the tool was at hand: compare with what is there"
    widths = {(card.name, card.width) for card in probe.cards if card.width}
    if len(widths) > len({name for name, _ in widths}):
        shown = ", ".join(f"x{width}" for width in sorted({width for _, width in widths}))
        yield "fault", f"equal cards have unequal PCIe links: {shown}", "reseat the narrow ones"


def _of_network(probe: Probe) -> Iterator[Told]:
    down: dict[str, list[str]] = {}
    for item in rails_of(probe.adapters):
        if item.down and not item.gbits:
            down.setdefault(", ".join(item.down), []).append(item.name)
    for reason, names in down.items():
        yield "fault", f"{hostlist.fold(names)}: {reason}", "look at cable and switch"


def _uneven(
    probes: Mapping[str, Probe], cards: Mapping[str, Cards]
) -> Iterator[tuple[Told, list[str]]]:
    """Yield nodes that have fewer cards than most nodes of the same make."""
    makes: dict[tuple[str, str, str, str], dict[int, list[str]]] = {}
    for host, probe in probes.items():
        kinds = tuple(item.accelerator for item in cards[host].devices)
        if len(kinds) == 1:
            count = cards[host].devices[0].count
            key = (probe.product, str(probe.sockets), str(probe.cores), kinds[0])
            makes.setdefault(key, {}).setdefault(count, []).append(host)
    for key, counts in makes.items():
        usual = max(counts, key=lambda count: (len(counts[count]), count))
        for count, hosts in counts.items():
            if count < usual:
                what = f"{count} {key[-1]}, where {len(counts[usual])} others of its make"
                todo = "a card is missing: repair it, or the node stays a class of its own"
                yield ("fault", f"{what} have {usual}", todo), hosts
