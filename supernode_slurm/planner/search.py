"""The fastest of all legal layouts on devices of one kind, found with exact pruning.

A layout's bound is its step if layers could be divided and nothing but layers and tables cost
time. Layouts are costed in rising order of their bounds; the search ends where no bound is below
the times already found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .bounds import rising_parts
from .build import case_of, cut_of
from .case import Case, Cut, Numbers, numbers
from .constants import constants_of
from .costs import GIB, Costs, costs_of, limit_gib
from .folds import most_chunks, share, unfolded
from .layer import Layers, layers_of
from .memory import memory_of
from .refine import Pipelines, refined
from .space import Space, space_of
from .stacks import stack_of
from .stages import Loads, Most, Split, best_split, endless, even_split
from .step import hop_s
from .workload import RECOMPUTE, Capabilities, Layout, Offer, Workload

CHUNK = 1 << 14
"""Layouts that are costed at once: large enough for numpy, small enough for the caches."""

FIRST, FEW = 1 << 11, 1 << 9
"""Layouts that are costed first; in most searches no other can be among the best, or the best."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Layouts in rising order of their step time, and what they cost."""

    layouts: tuple[Layout, ...]
    costs: Costs | None


@dataclass(frozen=True, slots=True)
class _Found:
    """The fastest layouts so far: the row of the space, layers of the stages, unfolded sizes."""

    times: Numbers
    places: NDArray[np.int64]

    def limit(self, keep: int) -> float:
        """Return the step time from which on a layout is not among the best."""
        return float(self.times[keep - 1]) if self.times.size >= keep else np.inf


@dataclass(frozen=True, slots=True)
class _Rows:
    """Unfolded layouts, the rows of the space that they come from, and their bounds."""

    space: Space
    index: NDArray[np.intp]
    bounds: Numbers


class Search:
    """All legal layouts of a workload on an offer, and their costs."""

    def __init__(self, workload: Workload, offer: Offer, able: Capabilities) -> None:
        self.workload, self.offer, self.able = workload, offer, able
        self.constants = constants = constants_of(offer)
        self.space = space_of(workload, offer, able)
        self.least_gib: float | None = None
        """The least memory that any layout needed that was costed; None if all of them fit."""
        self.costed = 0
        stack = stack_of(workload.framework)
        self._flash = numbers(float(stack.flash))
        self._overlap = numbers(float(stack.overlap))
        blank = cut_of(Layout(1, 1, 1, (1,)), stack)
        self._frame = case_of(workload, offer, blank, stack, constants)
        self._limit = limit_gib(workload, offer) * GIB
        self.peak = float(self._frame.rates.peak) * offer.devices
        """Operations per second of all devices."""

    def best(self, keep: int) -> Ranked:
        """Return the fastest layouts that fit, at most ``keep``.

        Of layouts that differ in their virtual stages alone, or in how many layers are
        recomputed, it is the fastest one.
        """
        if not self.space.size:
            return Ranked((), None)
        found, bounds = _Found(np.zeros(0), np.zeros((0, 6), np.int64)), self.bounds()
        first = FEW if keep == 1 else FIRST
        for part in rising_parts(bounds, first, CHUNK):
            index = part[bounds[part] < found.limit(keep)]
            if not index.size:
                break
            space, rows = unfolded(self.space.taken(index), self.workload, self.able)
            closer = self._bounds_of(space)
            for few in rising_parts(closer, first, CHUNK):
                some = few[closer[few] < found.limit(keep)]
                if not some.size:
                    break
                known = _Rows(space.taken(some), index[rows[some]], closer[some])
                found = self._with(found, known, keep)
        return self._written(found.places)

    def _with(self, found: _Found, rows: _Rows, keep: int) -> _Found:
        """Return the fastest layouts, these among them."""
        space, index = rows.space, rows.index
        time, split, fits = self._cost(space)
        self.costed += index.size
        good = np.flatnonzero(split.legal & fits)
        if self.able.uneven_stages:
            which = np.concatenate([found.places[:, 0], index[good]])
            known = np.concatenate([found.times, time[good]])
            first = self._fastest(which, known, keep)
            limit = float(known[first[-1]]) if first.size >= keep else np.inf
            some = good[rows.bounds[good] < limit]
            time, split = self._refined(space, some, (time, split), limit)
        sizes = (space.columns["recompute_layers"], space.columns["virtual"])
        new = np.column_stack([index, split.first, split.second, split.last, *sizes])[good]
        times = np.concatenate([found.times, time[good]])
        places = np.vstack([found.places, new.astype(np.int64)])
        fastest = self._fastest(places[:, 0], times, keep)
        return _Found(times[fastest], places[fastest])

    def _fastest(self, index: NDArray[np.int64], times: Numbers, keep: int) -> NDArray[np.intp]:
        """Return where the fastest of these layouts stand, none twice but for virtual stages."""
        columns = [column for name, column in self.space.columns.items() if name != "virtual"]
        found: dict[tuple[int, ...], int] = {}
        for place in np.argsort(times, kind="stable"):
            if len(found) == keep:
                break
            found.setdefault(tuple(int(column[index[place]]) for column in columns), int(place))
        return np.array(list(found.values()), np.intp)

    def bounds(self) -> Numbers:
        """Return for each layout of the space a step time that no split of it beats."""
        shape, which = self._shapes()
        case = self._case(shape, self._even(shape))
        layers = layers_of(case, self.constants)
        parts = []
        for start in range(0, self.space.size, CHUNK):
            some = np.arange(start, min(start + CHUNK, self.space.size))
            space = self.space.taken(some)
            parts.append(self._bound(space, layers.taken(which[some], shape.size)))
        return np.concatenate(parts)

    def _bounds_of(self, space: Space) -> Numbers:
        """Return the bounds of unfolded layouts."""
        case = self._case(space, self._even(space))
        return self._bound(space, layers_of(case, self.constants))

    def cases(self, rows: int) -> list[Case]:
        """Return so many rows spread over the space, evenly split, as the equations take them."""
        places = np.linspace(0, self.space.size - 1, rows).astype(np.intp)
        spaces = [self.space.taken(places[at : at + CHUNK]) for at in range(0, rows, CHUNK)]
        return [self._case(space, self._even(space)) for space in spaces]

    def _shapes(self) -> tuple[Space, NDArray[np.intp]]:
        """Return the layouts that differ in what a layer costs, and which of them each one has."""
        columns = self.space.columns
        key = np.zeros(self.space.size, np.int64)
        for name in ("tp", "cp", "ep", "etp", "micro_batch", "recompute"):
            column = columns[name]
            key = key * (int(column.max()) + 1) + column
        key = key * 2 + (columns["virtual"] > 1)
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        return self.space.taken(first), which

    def _bound(self, space: Space, layers: Layers) -> Numbers:
        case = self._case(space, self._even(space))
        loads = self._loads(case, layers)
        count = case.dims.global_batch / (case.cut.dp * case.cut.micro_batch)
        mean = loads.mean_s
        # Of many numbers of virtual stages the least has the least transfers, the most the
        # smallest bubble.
        most = most_chunks(space, self.workload, self.able)
        return np.asarray(count * mean + (loads.whole_s - mean) / most)

    def _even(self, space: Space) -> Split:
        """Return a split that costs layers right, whatever their number."""
        return even_split(
            self.workload.model.layers, space.columns["pp"].astype(np.float64), np.ones(())
        )

    def _cost(self, space: Space) -> tuple[Numbers, Split, NDArray[np.bool_]]:
        """Return each layout's step time, its best split, and whether that fits."""
        case = self._case(space, self._even(space))
        layers = layers_of(case, self.constants)
        loads = self._loads(case, layers)
        split = self._split(space, loads, endless(loads))
        fits = self._fits(space, split)
        if self.able.uneven_stages and not fits.all():
            split = self._lean(space, loads, split, fits)
            fits = self._fits(space, split)
        final = self._case(space, split)
        costs = costs_of(final, self.constants, layers)
        time = np.where(split.legal, costs.step.time_s, np.inf)
        return time, split, fits

    def _refined(
        self, space: Space, index: NDArray[np.intp], found: tuple[Numbers, Split], limit: float
    ) -> tuple[Numbers, Split]:
        """Return step times and splits, with better splits of those layouts that have one."""
        time, split = found
        columns = space.columns
        free = (columns["virtual"] == 1) | self.able.uneven_virtual
        index = index[(columns["pp"] > 1)[index] & free[index]]
        some = split.taken(index)
        case = self._case(space.taken(index), some)
        layers = layers_of(case, self.constants)
        known = Pipelines(case, layers, self._loads(case, layers), some, time[index])
        better = refined(known, self.constants, limit, self._limit)
        time = time.copy()
        time[index] = better[0]
        return time, split.put(index, better[1])

    def _split(self, space: Space, loads: Loads, most: Most) -> Split:
        """Return the best split that the framework can run."""
        even = even_split(loads.total, loads.pp, loads.least)
        if not self.able.uneven_stages:
            return even
        split = best_split(loads, most)
        if self.able.uneven_virtual:
            return split
        chunked = space.columns["virtual"] > 1
        return Split(
            np.where(chunked, even.first, split.first),
            np.where(chunked, even.second, split.second),
            np.where(chunked, even.last, split.last),
            np.where(chunked, even.legal, split.legal),
        )

    def _lean(self, space: Space, loads: Loads, split: Split, fits: NDArray[np.bool_]) -> Split:
        """Return the splits, where one does not fit the best that does.

        Memory grows by the same for each layer of a stage, so two splits say how many it holds.
        """
        more = Split(split.first + 1, split.second + 1, split.last + 1, split.legal)
        need = memory_of(self._case(space, split), self.constants).stages
        grown = memory_of(self._case(space, more), self.constants).stages
        room = self._limit - need
        each = np.maximum(grown - need, 1.0)
        held = (split.first, split.second, split.last)
        limits = [
            np.maximum(np.floor(stage + free / step + 1e-9), 0.0)
            for stage, free, step in zip(held, room, each, strict=True)
        ]
        top = float(self.workload.model.layers)
        most = Most(*(np.where(fits, top, np.minimum(limit, top)) for limit in limits))
        again = self._split(space, loads, most)
        use = ~fits & again.legal
        return Split(
            np.where(use, again.first, split.first),
            np.where(use, again.second, split.second),
            np.where(use, again.last, split.last),
            split.legal,
        )

    def _fits(self, space: Space, split: Split) -> NDArray[np.bool_]:
        peak = memory_of(self._case(space, split), self.constants).peak
        peak = np.where(split.legal, peak, np.inf)
        if peak.min() > self._limit:
            least = float(peak.min()) / GIB
            self.least_gib = min(least, self.least_gib or least)
        return np.asarray(peak <= self._limit)

    def _loads(self, case: Case, layers: Layers) -> Loads:
        """Return the seconds of the parts of each pipeline."""
        dims, cut = case.dims, case.cut
        hop = hop_s(case, self.constants)
        shape = cut.tp.shape
        mtp = dims.mtp * (layers.experts.time_s + layers.head.time_s)
        one, two = np.where(cut.pp > 1, hop, 0.0), np.where(cut.pp > 1, 2 * hop, 0.0)
        mixture = self.workload.model.mixture
        dense = len(mixture.dense_layers) if mixture else self.workload.model.layers
        alone = np.where(cut.pp == 1, layers.head.time_s + mtp, 0.0)
        return Loads(
            total=self.workload.model.layers,
            dense=np.full(shape, float(dense)),
            dense_s=np.broadcast_to(layers.dense.time_s, shape),
            layer_s=np.broadcast_to(layers.experts.time_s, shape),
            first_s=layers.embedding.time_s + one + alone,
            last_s=np.where(cut.pp > 1, layers.head.time_s + mtp + one, 0.0),
            middle_s=two,
            pp=cut.pp,
            least=np.maximum(cut.virtual, 1.0),
        )

    def _case(self, space: Space, split: Split) -> Case:
        return replace(self._frame, cut=self._cut(space, split))

    def _cut(self, space: Space, split: Split) -> Cut:
        columns = {name: column.astype(np.float64) for name, column in space.columns.items()}
        recompute = columns.pop("recompute")
        columns.pop("recompute_layers", None)
        return Cut(
            **columns,
            sequence_parallel=(columns["tp"] > 1).astype(np.float64),
            selective=(recompute == RECOMPUTE.index("selective")).astype(np.float64),
            full=share(space, self.workload, self.able),
            flash=self._flash,
            overlap=self._overlap,
            first=split.first,
            second=split.second,
            last=split.last,
        )

    def _written(self, places: NDArray[np.int64]) -> Ranked:
        """Return the layouts at these places of the space, with these layers."""
        if not places.size:
            return Ranked((), None)
        columns = self.space.taken(places[:, 0]).columns
        again, virtual = places[:, 4].astype(np.int32), places[:, 5].astype(np.int32)
        space = Space({**columns, "recompute_layers": again, "virtual": virtual})
        first, second, last = (places[:, column].astype(np.float64) for column in (1, 2, 3))
        split = Split(first, second, last, np.ones(first.shape, np.bool_))
        costs = costs_of(self._case(space, split), self.constants)
        total = self.workload.model.layers
        layers = [
            _layers(total, int(pp), (int(row[1]), int(row[3])))
            for pp, row in zip(space.columns["pp"], places, strict=True)
        ]
        return Ranked(tuple(_layout(space, row, held) for row, held in enumerate(layers)), costs)


def _layout(space: Space, row: int, layers: tuple[int, ...]) -> Layout:
    size = {name: int(column[row]) for name, column in space.columns.items()}
    return Layout(
        tp=size["tp"],
        dp=size["dp"],
        micro_batch=size["micro_batch"],
        layers=layers,
        recompute=RECOMPUTE[size["recompute"]],
        recompute_layers=size["recompute_layers"],
        zero=size["zero"],
        sequence_parallel=size["tp"] > 1,
        virtual_stages=size["virtual"],
        cp=size["cp"],
        ep=size["ep"],
        etp=size["etp"],
        shard=size["shard"],
    )


def _layers(total: int, stages: int, ends: tuple[int, int]) -> tuple[int, ...]:
    """Return the layers of all stages: those between the ends differ by one at most."""
    first, last = ends
    if stages == 1:
        return (total,)
    if stages == 2:
        return (first, last)
    each, more = divmod(total - first - last, stages - 2)
    # Late stages hold fewer micro-batches.
    fewer = stages - 2 - more
    return (first, *(each + (stage >= fewer) for stage in range(stages - 2)), last)
