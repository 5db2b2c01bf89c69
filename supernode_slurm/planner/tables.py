"""The meshes of one kind of device as arrays, for searches over combinations of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .crossings import Crossings, Part
from .memory import held_of
from .mesh import MeshCost
from .parts import cut_of, least_layers

Values = NDArray[np.float64]

MIDDLE, FIRST, LAST = (False, False), (True, False), (False, True)
"""Whether a stage is the first and the last of its pipeline."""


@dataclass(frozen=True, slots=True)
class Table:
    """The meshes of one kind of device, a row each; seconds are of one micro-batch.

    A stage is over when its gradients are summed. What traffic nothing hides is counted by the
    micro-batch as well, so that a stage with n layers is over after ``micro_batches x (fixed +
    end_s + n x end_layer_s)`` at least.
    """

    pp: Values
    virtual: Values
    cut: Values
    """How a mesh cuts a layer: equal numbers, equal cuts."""
    dp: Values
    layer_s: Values
    end_layer_s: Values
    end_s: Values
    inner_s: Values
    """A way between two of its stages."""
    way_s: Values
    """A way to another mesh, as its own network cards allow."""
    staged_s: Values
    """The same through host memory."""
    start_s: Values
    """Of a way that leads on from it."""
    first_s: Values
    """Of the first stage, besides."""
    first_end_s: Values
    """The same with its traffic."""
    last_s: Values
    last_end_s: Values
    room: Values
    """Most layers of its stages, were they the last of the pipeline; none where one has no room."""
    rooms: Values
    """Most layers of as many stages at the end of a pipeline as the column says."""
    first_rooms: Values
    """What less a stage holds that is the first of so many."""
    last_room: Values
    """What less the last stage holds."""

    def taken(self, rows: NDArray[np.intp]) -> Table:
        """Return some of the rows."""
        return Table(*(getattr(self, name)[rows] for name in Table.__slots__))


def table_of(parts: Sequence[Part], links: Crossings, limit_bytes: float, layers: int) -> Table:
    """Return meshes of one kind, whose memory is limited, in pipelines of so many layers."""
    # Parts that differ in their virtual stages alone have one cost.
    alone = {id(part.cost): part for part in parts}
    numbers = {key: place for place, key in enumerate(alone)}
    which = np.array([numbers[id(part.cost)] for part in parts], np.intp)
    columns = np.array([_column(part, links) for part in alone.values()])[which].T
    pp, cut, dp, count, layer_s, first_s, last_s, *ways = columns
    many = _many([part.cost for part in alone.values()], which)
    one, two, first, last = (
        many.least_syncs_s(held, ends, count) / count
        for held, ends in ((1, MIDDLE), (2, MIDDLE), (1, FIRST), (1, LAST))
    )
    sizes, place = np.unique([part.virtual for part in parts], return_inverse=True)
    virtual = sizes[place].astype(np.float64)
    kinds = [replace(parts[0], virtual=int(size)) for size in sizes]
    shown, start_s = (
        np.array([getattr(kind, name) for kind in kinds])[place] for name in ("shown", "start_s")
    )
    inner_s, way_s, staged_s = shown * np.array(ways)
    model, left = links.workload.model, np.arange(1.0, layers + 1)
    # A longer pipeline holds more chunks: a stage of another mesh is there at least.
    length = np.maximum(left, pp[:, None] + 1)
    held = held_of(count[:, None], length, left, virtual[:, None])
    most = []
    for ends in (MIDDLE, FIRST, LAST):
        least = np.array([least_layers(model, int(size), ends[0]) for size in sizes])[place]
        room = np.minimum(many.rooms(ends, held, limit_bytes), layers)
        # Where one stage has no room, all of them together have none.
        most.append(np.where(room < least[:, None], -1e9, room))
    before = np.zeros((len(parts), 1))
    rooms = np.concatenate([before, np.cumsum(most[0], axis=1)], axis=1)
    return Table(
        pp=pp,
        virtual=virtual,
        cut=cut,
        dp=dp,
        layer_s=layer_s,
        end_layer_s=layer_s + (two - one),
        end_s=one - (two - one),
        inner_s=inner_s + start_s,
        way_s=way_s,
        staged_s=staged_s,
        start_s=start_s,
        first_s=first_s,
        first_end_s=first_s + first - one,
        last_s=last_s,
        last_end_s=last_s + last - one,
        room=rooms[np.arange(len(parts)), pp.astype(np.intp)],
        rooms=rooms,
        first_rooms=np.concatenate([before, most[0] - most[1]], axis=1),
        last_room=(most[0] - most[2])[:, 0],
    )


def _column(part: Part, links: Crossings) -> tuple[float, ...]:
    """Return what a part has however many virtual stages."""
    return (
        part.pp,
        cut_of(part),
        part.dp,
        links.workload.global_batch / (part.dp * part.cost.shape.micro_batch),
        part.layer_s,
        part.cost.embedding.time_s,
        part.cost.head.time_s,
        links.moved_s(part),
        links.way_s(part, False),
        links.way_s(part, True),
    )


def _many(costs: Sequence[MeshCost], which: NDArray[np.intp]) -> MeshCost:
    """Return one cost whose numbers are arrays: of each of these as often as it is named."""
    memory = type(costs[0].memory)
    columns = [
        np.array([getattr(cost.memory, name) for cost in costs], float)[which, None]
        for name in memory.__slots__
    ]
    rows = np.array([cost.row for cost in costs], np.intp)[which]
    return replace(costs[0], memory=memory(*columns), row=rows)
