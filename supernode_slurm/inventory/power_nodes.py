"""What nodes draw, and sums of power with what is missing of them.

Nothing is rounded and nothing has a margin. What nobody has said is named beside each sum,
which is then a lower bound, and never counted as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..catalogue import CONFIDENCE, find_accelerator
from .model import Inventory, NodeClass
from .upkeep import Rack

HOST, CARDS, NODE = "power of the host without cards", "power of {}", "power of the node"
"""What may be missing of a sum."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What nobody has said, and of which hosts."""

    what: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sum of power: its known part in watts, and what is missing of it."""

    w: float | None
    """None where nothing is known."""
    missing: tuple[Missing, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Return whether all of it is known."""
        return self.w is not None and not self.missing


@dataclass(frozen=True, slots=True)
class NodeDraw:
    """The power of each of some equal nodes, in watts."""

    most: Drawn
    idle: Drawn
    host_w: float | None
    """Without the cards, None where it does not follow from what is known."""
    cards_w: float | None
    """Of all its cards, under their cap if they have one; None where a card's is unknown."""


def headroom(drawn_w: float | None, limit_w: float | None) -> float | None:
    """Return what is left of a limit, None where one of both is unknown."""
    return None if drawn_w is None or limit_w is None else limit_w - drawn_w


def is_over(drawn_w: float | None, limit_w: float | None) -> bool:
    """Return whether a known draw exceeds a known limit, by more than the error of a sum."""
    left = headroom(drawn_w, limit_w)
    return left is not None and left < 0 and not math.isclose(left, 0.0, abs_tol=1e-3)


def total(parts: Iterable[Drawn]) -> Drawn:
    """Return a sum; of what is missing in several parts, the hosts together."""
    known: list[float] = []
    missing: dict[str, dict[str, None]] = {}
    for part in parts:
        if part.w is not None:
            known.append(part.w)
        for item in part.missing:
            missing.setdefault(item.what, {}).update(dict.fromkeys(item.hosts))
    lacks = tuple(Missing(what, tuple(hosts)) for what, hosts in missing.items())
    return Drawn(math.fsum(known) if known else None, lacks)


def node_draw(
    inventory: Inventory, nodes: NodeClass, hosts: tuple[str, ...], cap_w: float | None = None
) -> NodeDraw:
    """Return the power of each of some nodes of a class, its cards under a cap.

    The most of a node is that of the inventory, else its host and its cards' TDP, else that
    of the cards or the host alone, with what is missing named.
    """
    said = nodes.power
    full, capped = 0.0, 0.0
    unknown = []
    for item in nodes.devices:
        card = inventory.accelerator(item.accelerator)
        if card.card_tdp_w is None:
            unknown.append(Missing(CARDS.format(card.id), hosts))
            continue
        count = item.count / card.devices_per_card
        full += count * card.card_tdp_w
        capped += count * min(card.card_tdp_w, cap_w or math.inf)
    host_w = said.host_w
    if host_w is None and said.most_w is not None and not unknown and said.most_w > full:
        host_w = said.most_w - full
    if said.most_w is not None:
        # Without the TDP of its cards, nobody knows what a cap takes off.
        most = Drawn(said.most_w - (full - capped if said.most_w >= full else 0.0))
    elif host_w is None and unknown and full == 0.0:
        most = Drawn(None, (Missing(NODE, hosts),))
    else:
        lacks = unknown if host_w is not None else [*unknown, Missing(HOST, hosts)]
        most = Drawn((host_w or 0.0) + capped, tuple(lacks))
    idle = Drawn(said.idle_w, () if said.idle_w is not None else (Missing(NODE, hosts),))
    return NodeDraw(most, idle, host_w, None if unknown else capped)


def is_unsure(inventory: Inventory, key: str) -> bool:
    """Return whether the TDP of a card is the catalogue's and not read in a document or press."""
    card = inventory.accelerator(key)
    own = card.card_tdp_w != find_accelerator(card.id).card_tdp_w
    return card.card_tdp_w is not None and not own and card.confidence_in("tdp") in CONFIDENCE[2:]


Places = Mapping[str, tuple[str, NodeClass]]
"""The supernode or pool, and the class, of each host."""


def places(inventory: Inventory) -> Places:
    """Return where each host of the inventory belongs."""
    return {
        host: (domain.name, nodes)
        for domain in inventory.domains
        for nodes in domain.nodes
        for host in nodes.hosts
    }


def in_rack(known: Places, rack: Rack) -> list[tuple[str, NodeClass, tuple[str, ...]]]:
    """Return the domain, the class and the hosts of the nodes that stand in a rack."""
    found: dict[tuple[str, int], tuple[NodeClass, list[str]]] = {}
    for host in rack.hosts:
        if host in known:
            domain, nodes = known[host]
            found.setdefault((domain, id(nodes)), (nodes, []))[1].append(host)
    return [(domain, nodes, tuple(hosts)) for (domain, _), (nodes, hosts) in found.items()]
