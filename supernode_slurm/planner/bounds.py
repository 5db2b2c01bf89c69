"""Step times that a pipeline over several meshes cannot beat, and the search's order by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .tables import Table

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Loads:
    """Parts of pipelines, what the bound needs of them; rows of parts or one kind's parts."""

    layer_s: Values
    rate: Values
    """Layers per second of all stages, as their ends allow."""
    fixed_s: Values
    """What its stages take besides layers."""
    spent: Values
    """The same in layers."""
    first_s: Values
    first_spent: Values
    last_s: Values
    last_spent: Values
    room: Values
    """Layers that it holds at most."""

    def extremes(self, starts: NDArray[np.intp]) -> Loads:
        """Return for each run of parts one that is as good as the best of them in every respect.

        ``starts`` has where each run begins. Parts without room are not among them.
        """
        found = {}
        for name in Loads.__slots__:
            most = name in ("rate", "room")
            best = np.maximum if most else np.minimum
            values = np.where(self.room > 0, getattr(self, name), -np.inf if most else np.inf)
            found[name] = best.reduceat(values, starts)
        return Loads(**found)

    def some(self, chosen: NDArray[np.bool_]) -> Loads:
        """Return some of the sets."""
        return Loads(*(getattr(self, name)[:, chosen] for name in Loads.__slots__))

    def followed(self, other: Loads) -> Loads:
        """Return these parts and those."""
        return Loads(
            *(np.append(getattr(self, name), getattr(other, name)) for name in Loads.__slots__)
        )


def loads_of(table: Table) -> Loads:
    """Return the meshes of a kind in a pipeline with at least one other."""
    inside = table.pp - 1
    fixed_s = 2 * inside * table.inner_s + table.way_s
    return Loads(
        layer_s=table.layer_s,
        rate=table.pp / table.end_layer_s,
        fixed_s=fixed_s,
        spent=(fixed_s + table.pp * table.end_s) / table.end_layer_s,
        first_s=table.first_s,
        first_spent=table.first_end_s / table.end_layer_s,
        last_s=table.last_s,
        last_spent=table.last_end_s / table.end_layer_s,
        room=table.room,
    )


def taken(kinds: Sequence[Loads], rows: NDArray[np.intp]) -> Loads:
    """Return sets of one part per kind: ``rows`` has a row for each kind, a column for each set."""
    return Loads(
        *(
            np.stack([getattr(kind, name)[row] for kind, row in zip(kinds, rows, strict=True)])
            for name in Loads.__slots__
        )
    )


def bounds_s(loads: Loads, layers: int, micro_batches: Values) -> Values:
    """Return for each set of parts a step time that no split beats in any order.

    While the pipeline is full every stage ends at once, but for parts that hold no more layers;
    to fill it, the layers pass the fastest parts that have room.
    """
    layer_s, rates = loads.layer_s, loads.rate
    ends = loads.first_s.min(axis=0) + loads.last_s.min(axis=0)
    more = loads.first_spent.min(axis=0) + loads.last_spent.min(axis=0)
    # What the ends take is no layer: it finds time where there is no room for more of these.
    end_s = np.maximum(
        (layers + more + loads.spent.sum(axis=0)) / rates.sum(axis=0),
        _end_s(rates, loads.spent, loads.room, layers),
    )
    held = np.minimum(rates * end_s - loads.spent, loads.room)
    beyond = np.maximum(held.sum(axis=0) - layers, 0.0)
    dealt_s = (held * layer_s).sum(axis=0) - beyond * layer_s.max(axis=0)
    # To end later, so that faster parts hold more, costs more than the micro-batch saves.
    saved = (rates * (layer_s.max(axis=0) - layer_s)).sum(axis=0)
    bound = (saved <= micro_batches - 1) & (held >= 0).all(axis=0)
    filled_s = _filled_s(layer_s, loads.room, layers)
    filling = np.where(bound, np.maximum(dealt_s, filled_s), filled_s)
    found: Values = (micro_batches - 1) * end_s + filling + ends + loads.fixed_s.sum(axis=0)
    return found


def _end_s(
    rates: Values,
    spent: Values,
    rooms: Values,
    layers: int,
) -> Values:
    """Return the least common end of all parts, those that are full left out of the rest."""
    end_s = (layers + spent.sum(axis=0)) / rates.sum(axis=0)
    for _ in rates[1:]:
        full = rates * end_s - spent > rooms
        left = layers + np.where(full, -rooms, spent).sum(axis=0)
        rate = np.where(full, 0.0, rates).sum(axis=0)
        # Where all are full the rest has nowhere to go.
        later = np.where(rate > 0, left / np.where(rate > 0, rate, 1.0), end_s)
        end_s = np.maximum(end_s, later)
    return np.asarray(end_s)


def _filled_s(layer_s: Values, rooms: NDArray[np.float64], layers: int) -> Values:
    """Return the least time of one micro-batch through all layers."""
    order = np.argsort(layer_s, axis=0)
    times = np.take_along_axis(layer_s, order, axis=0)
    reached = np.cumsum(np.take_along_axis(rooms, order, axis=0), axis=0).clip(0, layers)
    held = np.diff(reached, axis=0, prepend=0.0)
    # What has no room at all is told elsewhere.
    found: Values = (held * times).sum(axis=0) + (layers - reached[-1]) * times[-1]
    return found


def rising_parts(values: Values, first: int, most: int) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of all values in rising order: ``first`` of them, then up to ``most``.

    Each part has eight times as many as the one before; no more is sorted than is taken.
    """
    rest, few = np.arange(values.size), min(first, max(most, 1))
    while rest.size:
        chosen, rest = rest, rest[:0]
        if chosen.size > few:
            parted = np.argpartition(values[chosen], few)
            chosen, rest = np.sort(chosen[parted[:few]]), chosen[parted[few:]]
        yield chosen[np.argsort(values[chosen], kind="stable")]
        few = min(few * 8, max(most, 1))
