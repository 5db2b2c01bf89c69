"""Shares that follow the measured speed of each replica.

Python 3.8, standard library only.
"""

from __future__ import annotations

import statistics

from .exchange import SumOverRanks, gather
from .heartbeat import Heart
from .micro import balanced_shares
from .share import Share

_LEAST, _MOST = 1e-50, 1e50
"""Seconds per unit of work outside of these were not measured."""
_SLOW, _ROUNDS = 1.5, 3
"""How many times as long as others a replica takes for its share of the plan to be called slow,
and in how many exchanges in a row."""


class Balance:
    """Keeps the shares of all replicas, and changes them where measured times ask for it.

    Every rank computes the same answer from the same exchanged numbers. A replica is as fast
    as the slowest of its ranks. The sn-launch beside a rank sees whether that is much slower
    than the plan has it, whatever its share is now.
    """

    def __init__(
        self,
        share: Share,
        sum_over_ranks: SumOverRanks,
        every: int = 5,
        least_gain: float = 0.03,
    ) -> None:
        """Begin with the shares of the plan.

        Times are exchanged, and shares may change, each ``every`` steps; they do if the
        slowest replica is predicted to become faster by more than ``least_gain`` of its time.
        Raises ``ValueError`` for what cannot be.
        """
        if not share.shares:
            raise ValueError("the samples of the other replicas are not known; see Share.shares")
        if every < 1 or not least_gain >= 0:
            raise ValueError(f"every is {every}, least_gain {least_gain}; give >= 1 and >= 0")
        self._share, self._sum = share, sum_over_ranks
        self._every, self._least_gain = every, least_gain
        self._shares = share.shares
        self._steps = 0
        self._measured: list[float] = []
        self._costs = [0.0] * len(share.shares)
        self._heart, self._slow_rounds, self._is_slowest = Heart(), 0, False

    @property
    def shares(self) -> tuple[int, ...]:
        """Return the shares that were decided on last."""
        return self._shares

    @property
    def costs(self) -> tuple[float, ...]:
        """Return the seconds per unit of work of each replica, 0 where none was measured."""
        return tuple(self._costs)

    def rebalance(self, step_seconds: float, work: float) -> tuple[int, ...] | None:
        """Note a step of this rank; return new shares where they are worth a change.

        ``step_seconds`` is the time of this rank's own work, without waiting for others, and
        ``work`` what it did in that time: its samples, or its tokens where samples differ, in
        the same unit on all ranks. A time or work that is no positive number is no
        measurement. Every rank calls this after every step. The new shares have the least
        time of the slowest replica at the median cost of the last steps; a replica without a
        measurement keeps its last cost, and nothing changes before each has one.
        """
        self._note(step_seconds, work)
        self._steps += 1
        if self._steps % self._every:
            return None
        self._exchange()
        if not all(self._costs):
            return None
        self._note_slowness()
        found = balanced_shares(self._share.global_batch, self._costs)
        if self._slowest(self._shares) <= self._slowest(found) * (1 + self._least_gain):
            return None
        self._shares = found
        return found

    def _note(self, seconds: float, work: float) -> None:
        seconds, work = float(seconds), float(work)
        if work > 0 and _LEAST < seconds / work < _MOST:
            self._measured.append(seconds / work)

    def _exchange(self) -> None:
        """Update the costs from the medians of all ranks."""
        share = self._share
        cost = statistics.median(self._measured) if self._measured else 0.0
        self._measured.clear()
        mine = [cost, share.replica + 1.0]
        found = [0.0] * len(self._costs)
        rows = gather(mine, share.rank, share.world_size, self._sum)
        for cost, place in rows:
            replica = int(place) - 1
            if replica >= 0 and cost < _MOST:
                found[replica] = max(found[replica], cost)
        self._costs = [new or old for new, old in zip(found, self._costs)]
        self._is_slowest = rows[share.rank][0] == found[share.replica] > 0

    def _note_slowness(self) -> None:
        """Tell where this rank holds its replica, and that the others, up.

        A plan's shares are whole: those of the others may be one sample too small.
        """
        shares, mine = self._share.shares, self._share.replica
        times = [cost * samples for cost, samples in zip(self._costs, shares)]
        most = [time + cost for time, cost in zip(times, self._costs)]
        own = times.pop(mine)
        del most[mine]
        slow = bool(most) and self._is_slowest and own > _SLOW * statistics.median(most)
        self._slow_rounds = self._slow_rounds + 1 if slow else 0
        if self._slow_rounds == _ROUNDS:
            self._heart.slow(round(100 * own / statistics.median(times)))
        elif not slow:
            self._heart.slow(0)

    def _slowest(self, shares: tuple[int, ...]) -> float:
        return max(cost * samples for cost, samples in zip(self._costs, shares))
