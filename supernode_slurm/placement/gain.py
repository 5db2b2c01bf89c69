"""What a supernode is worth to one job: its plan against the one of ordinary nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..catalogue import Accelerator
from ..errors import PlanError
from ..inventory import Inventory, Supernode
from ..plan import Mesh, Plan
from ..planner import Capabilities, Offer, Workload, plan_uniform
from .slots import POOL, Slot


@dataclass(frozen=True, slots=True)
class Gain:
    """How much faster a job is in its supernode than elsewhere."""

    share: float
    """0.38 for 38 % less time a step elsewhere would need: t(elsewhere) / t(here) - 1."""
    elsewhere: str
    """Where else, in words."""
    here: Mesh
    there: Mesh

    def __str__(self) -> str:
        inside, outside = mesh_words(self.here), mesh_words(self.there)
        why = f"{inside} inside the domain"
        if inside != outside:
            why += f", {outside} there"
        return f"{self.share:+.0%} against {self.elsewhere}: {why}"


def in_supernode(inventory: Inventory, slots: Sequence[Slot]) -> bool:
    """Return whether a job of one group lies in supernodes."""
    return len(slots) == 1 and isinstance(inventory.domain(slots[0].domains[0]), Supernode)


def against(plan: Plan, other: Plan, elsewhere: str) -> Gain | None:
    """Return the gain of a plan over another one; None where one of them predicts nothing."""
    if plan.predicted is None or other.predicted is None:
        return None
    share = other.predicted.step_time_s / plan.predicted.step_time_s - 1
    return Gain(share, elsewhere, plan.pipelines[0].meshes[0], other.pipelines[0].meshes[0])


def as_pool(slot: Slot, card: Accelerator, workload: Workload, able: Capabilities) -> Plan | None:
    """Return the best plan on the same nodes if the scale-up fabric ended at each node.

    Within a node the cards keep their own links. None if there is no such plan: then only
    the supernode holds the job.
    """
    if not slot.offer.network_gbs and slot.group.nodes > 1:
        return None
    try:
        return plan_uniform(workload, ordinary_offer(slot.offer, card), able, keep=1)[0]
    except PlanError:
        return None


def ordinary_offer(offer: Offer, card: Accelerator) -> Offer:
    """Return the same nodes as if the scale-up fabric ended at each of them."""
    link = card.scale_up_gbs or offer.scale_up_gbs
    link = min(link, offer.scale_up_gbs)
    own = replace(offer, accelerator=card, interconnect=POOL)
    return replace(own, domain_nodes=1, scale_up_gbs=link)


def mesh_words(mesh: Mesh) -> str:
    """Return how a mesh cuts the model, CP and EP where it has them."""
    more = "".join(
        f"{name}={size} " for name, size in (("CP", mesh.cp), ("EP", mesh.ep)) if size > 1
    )
    return f"TP={mesh.tp} {more}PP={mesh.pp} DP={mesh.dp}"
