"""A sampler whose global order does not depend on how ranks share each global batch.

Python 3.8, standard library only.
"""

from __future__ import annotations

import itertools
from typing import Iterable, Iterator, Mapping, Sequence, TypeVar

from .exchange import SumOverRanks, gather
from .heartbeat import Heart
from .micro import cut_by_length, own_steps
from .order import Order
from .share import Share, check_shares

Batch = TypeVar("Batch")
_ENDS = ("drop", "pad")


class ShareSampler:
    """Hands out this rank's samples of each global batch, micro-step by micro-step.

    Give it to torch's DataLoader as ``batch_sampler``: it yields lists of indices. A global
    batch is the next ``share.global_batch`` places of an order that depends on the seed, the
    epoch and the length alone; a rank takes a contiguous part of it. Steps are counted over
    all epochs. Loaders fetch ahead, so that what was handed out is not what was trained on:
    the loop tells by ``finish_step`` that a step is done.
    """

    def __init__(
        self,
        length: int,
        share: Share,
        seed: int = 0,
        shuffle: bool = True,
        last: str = "drop",
        equal_steps: bool = False,
        lengths: Sequence[int] | None = None,
    ) -> None:
        """Take a data set of ``length`` samples.

        What makes no whole global batch at the end of an epoch is left out (``last="drop"``)
        or filled up with the first samples of the epoch (``"pad"``). With ``equal_steps`` all
        ranks take the same number of micro-steps. ``lengths`` are the tokens of each sample:
        each global batch is then cut so that tokens, not samples, are in proportion to the
        shares. Raises ``ValueError`` for what cannot be.
        """
        if last not in _ENDS:
            raise ValueError(f"last is {last!r}; give one of {', '.join(_ENDS)}")
        if not share.shares:
            raise ValueError("the samples of the other replicas are not known; see Share.shares")
        if length < (1 if last == "pad" else share.global_batch):
            raise ValueError(
                f"{length} samples make no global batch of {share.global_batch}; take a smaller "
                "one, or last='pad'"
            )
        if lengths is not None and len(lengths) != length:
            raise ValueError(f"{len(lengths)} lengths for {length} samples; give one for each")
        self._length, self._share, self._lengths = length, share, lengths
        self._seed, self._shuffle = seed, shuffle
        self._pads, self._equal_steps = last == "pad", equal_steps
        self._changes = [(0, share.shares)]
        self._step = self._handed = self._epoch = self._consumed = 0
        self._sizes: dict[int, tuple[int, ...]] = {}
        self._heart = Heart()
        self._heart.step(0)

    @property
    def epoch(self) -> int:
        """Return the epoch of the next step."""
        return self._epoch

    @property
    def step(self) -> int:
        """Return how many steps are finished."""
        return self._step

    @property
    def consumed(self) -> int:
        """Return how many samples of this epoch the finished steps took, on all ranks."""
        return self._consumed

    @property
    def shares(self) -> tuple[int, ...]:
        """Return the samples of each replica in the first step that is not finished."""
        return self._shares_at(self._step)

    @property
    def steps_left(self) -> int:
        """Return how many steps of this epoch are not finished."""
        return self._steps_from(self._consumed)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the micro-batches of the rest of the epoch, from the first step not finished.

        Empty micro-steps are left out: loaders cannot collate them.
        """
        order = Order(self._length, self._seed, self._epoch) if self._shuffle else None
        first, place = self._step, self._consumed
        for step in range(first, first + self.steps_left):
            self._handed = step + 1
            start, self._sizes[step] = self._cut(self._shares_at(step), order, place)
            for size in filter(None, self._sizes[step]):
                yield [self._sample(order, at) for at in range(start, start + size)]
                start += size
            place += self._share.global_batch

    def __len__(self) -> int:
        """Return the number of micro-batches of the rest of the epoch.

        Raises ``TypeError`` where samples have lengths: then it is not known before.
        """
        if self._lengths is not None:
            raise TypeError("with lengths the number of micro-batches is not known before")
        end = self._step + self.steps_left
        edges = [min(max(start, self._step), end) for start, _ in self._changes[1:]]
        counts = [sum(map(bool, self._own(shares))) for _, shares in self._changes]
        spans = zip([self._step, *edges], [*edges, end], counts)
        return sum((last - first) * count for first, last, count in spans)

    def steps(self, loader: Iterable[Batch]) -> Iterator[list[Batch | None]]:
        """Yield the micro-batches of each step of the rest of the epoch, as the loader makes them.

        None stands for an empty micro-step: where every micro-step communicates, a rank takes
        part in it with any sample and a loss of zero. Raises ``RuntimeError`` if a step was
        not finished, or if the loader does not follow this sampler.
        """
        batches = iter(loader)
        for step in range(self._step, self._step + self.steps_left):
            if step != self._step:
                raise RuntimeError(f"step {self._step} is not finished: call finish_step()")
            found = list(itertools.islice(batches, 1))
            sizes = self._sizes.get(step, ())
            wanted = sum(map(bool, sizes))
            found += itertools.islice(batches, max(wanted - 1, 0))
            if not wanted or len(found) != wanted:
                raise RuntimeError(
                    "the loader does not follow this sampler: give it as batch_sampler"
                )
            made = iter(found)
            yield [next(made) if size else None for size in sizes]

    def finish_step(self) -> None:
        """Count the first step that is not finished as done: its samples are consumed.

        Raises ``RuntimeError`` if it was not handed out.
        """
        if self._step >= self._handed:
            raise RuntimeError(f"step {self._step} was not handed out: iterate over the sampler")
        self._sizes.pop(self._step, None)
        self._step += 1
        self._consumed += self._share.global_batch
        self._heart.step(self._step)
        self._next_epoch_if_done()

    def first_open_step(self, sum_over_ranks: SumOverRanks) -> int:
        """Return the first step that no rank has handed out, the same on every rank."""
        share = self._share
        handed = gather([float(self._handed)], share.rank, share.world_size, sum_over_ranks)
        return int(max(values[0] for values in handed))

    def set_shares(self, shares: Sequence[int], from_step: int) -> None:
        """Cut each global batch by these shares, from a step on that all ranks agree on.

        Raises ``ValueError`` if this rank has handed out that step, and for shares that do
        not sum to the global batch.
        """
        checked = check_shares(shares, len(self._share.shares), self._share.global_batch)
        if from_step < self._handed:
            raise ValueError(
                f"step {from_step} is handed out; the first open step here is {self._handed}: "
                "take first_open_step() of all ranks"
            )
        kept = [change for change in self._changes if change[0] < from_step]
        self._changes = [*kept, (from_step, checked)]

    def state_dict(self) -> dict[str, int]:
        """Return what a restart needs, whatever its ranks and shares: plain numbers."""
        return {
            "seed": self._seed,
            "shuffle": int(self._shuffle),
            "length": self._length,
            "epoch": self._epoch,
            "consumed": self._consumed,
            "step": self._step,
        }

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on where another sampler was; its seed counts, the shares stay this one's.

        The global batch may differ. Raises ``ValueError`` for another data set's state.
        """
        if state["length"] != self._length:
            raise ValueError(
                f"the state is of a data set of {state['length']} samples, this one has "
                f"{self._length}; start without it"
            )
        shares = self._changes[-1][1]
        self._seed, self._shuffle = state["seed"], bool(state["shuffle"])
        self._epoch, self._consumed = state["epoch"], state["consumed"]
        self._step = self._handed = state["step"]
        self._changes = [(0, shares)]
        self._heart.step(self._step)
        self._next_epoch_if_done()

    def _next_epoch_if_done(self) -> None:
        if not self.steps_left:
            self._epoch += 1
            self._consumed = 0

    def _steps_from(self, place: int) -> int:
        left = max(0, self._length - place)
        whole, rest = divmod(left, self._share.global_batch)
        return whole + (self._pads and rest > 0)

    def _sample(self, order: Order | None, place: int) -> int:
        place %= self._length
        return place if order is None else order[place]

    def _shares_at(self, step: int) -> tuple[int, ...]:
        return next(shares for start, shares in reversed(self._changes) if start <= step)

    def _cut(
        self, shares: tuple[int, ...], order: Order | None, place: int
    ) -> tuple[int, tuple[int, ...]]:
        """Return the place where this rank's part of a global batch begins, and its sizes."""
        if self._lengths is not None:
            places = range(place, place + self._share.global_batch)
            lengths = [self._lengths[self._sample(order, at)] for at in places]
            shares = cut_by_length(lengths, shares)
        return place + sum(shares[: self._share.replica]), self._own(shares)

    def _own(self, shares: Sequence[int]) -> tuple[int, ...]:
        share = self._share
        sizes = share.micro_batches or (share.micro_batch,) * len(shares)
        return own_steps(shares, sizes, self._equal_steps, share.replica)
