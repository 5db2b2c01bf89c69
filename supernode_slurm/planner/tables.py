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
    micro_batches: Values
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
    costs = [part.cost for part in parts]
    many = _many(costs)
    pp = np.array([part.pp for part in parts], float)
    width = np.array([part.dp * part.cost.shape.micro_batch for part in parts], float)
    count = links.workload.global_batch / width
    layer_s, first_s, last_s, inner_s, way_s, staged_s, start_s = np.array(
        [
            (
                part.layer_s,
                part.cost.embedding.time_s,
                part.cost.head.time_s,
                links.inner_s(part),
                links.way_s(part, False),
                links.way_s(part, True),
                part.start_s,
            )
            for part in parts
        ]
    ).T
    one, two, first, last = (
        many.least_syncs_s(held, ends, count) / count
        for held, ends in ((1, MIDDLE), (2, MIDDLE), (1, FIRST), (1, LAST))
    )
    virtual = np.array([part.virtual for part in parts], float)
    left = np.arange(1.0, layers + 1)
    # A longer pipeline holds more chunks: each has a stage of another mesh at least.
    length = np.maximum(left, pp[:, None] + 1)
    held = held_of(count[:, None], length, left, virtual[:, None])
    most, most_first, most_last = (
        np.minimum(many.rooms(ends, held, limit_bytes), layers) for ends in (MIDDLE, FIRST, LAST)
    )
    # Where one stage has no room, all of them together have none.
    model = links.workload.model
    for room, ends in ((most, MIDDLE), (most_first, FIRST), (most_last, LAST)):
        least = np.array([least_layers(model, part.virtual, ends[0]) for part in parts])
        room[room < least[:, None]] = -1e9
    rooms = np.concatenate([np.zeros((len(parts), 1)), np.cumsum(most, axis=1)], axis=1)
    return Table(
        pp=pp,
        virtual=virtual,
        cut=np.array([cut_of(part) for part in parts], float),
        dp=np.array([part.dp for part in parts], float),
        micro_batches=count,
        layer_s=layer_s,
        end_layer_s=layer_s + (two - one),
        end_s=one - (two - one),
        inner_s=inner_s,
        way_s=way_s,
        staged_s=staged_s,
        start_s=start_s,
        first_s=first_s,
        first_end_s=first_s + first - one,
        last_s=last_s,
        last_end_s=last_s + last - one,
        room=rooms[np.arange(len(parts)), pp.astype(np.intp)],
        rooms=rooms,
        first_rooms=np.concatenate([np.zeros((len(parts), 1)), most - most_first], axis=1),
        last_room=(most - most_last)[:, 0],
    )


def _many(costs: Sequence[MeshCost]) -> MeshCost:
    """Return one cost whose numbers are arrays."""
    memory = type(costs[0].memory)
    columns = [
        np.array([getattr(cost.memory, name) for cost in costs], float)[:, None]
        for name in memory.__slots__
    ]
    return replace(
        costs[0], memory=memory(*columns), row=np.array([cost.row for cost in costs], np.intp)
    )
