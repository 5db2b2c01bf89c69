"""Which of several kinds of cards a job runs on: one of them, all together, or some of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Generic, Protocol, TypeVar

from ..errors import PlanError
from ..plan import Plan
from ..planner import KEEP

STRATEGIES = ("auto", "grouped", "mixed", "dynamic", "hierarchical")
"""``auto`` takes the fastest of the others; what follows measured times is asked for by name."""
TOGETHER = ("mixed", "hierarchical")
"""What ``auto`` tries on several kinds at once."""


class Planned(Protocol):
    """What has a plan."""

    @property
    def plan(self) -> Plan:
        """Return the plan."""


Found = TypeVar("Found", bound=Planned)


@dataclass(frozen=True, slots=True)
class Way:
    """A strategy, and which of the groups asked for it takes."""

    strategy: str
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """A way that was planned, and how fast it is predicted."""

    strategy: str
    groups: tuple[str, ...]
    step_s: float | None
    why: str = ""
    """Why there is no plan."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A group that is left out, and the time of a step with it and without."""

    group: str
    with_s: float | None
    without_s: float
    why: str = ""
    """Why there is no plan with it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The strategy that was taken, and what the others would reach.

    Rates are samples per second at the global batch asked for.
    """

    asked: str
    taken: str
    groups: tuple[str, ...]
    """Those that the job runs on."""
    step_s: float
    samples_s: float
    alone: tuple[Tried, ...]
    """Each group asked for without the others."""
    sum_alone_samples_s: float
    """All groups at once, each with a job of its own."""
    best_alone_samples_s: float | None
    bound_samples_s: float | None
    """All groups together if they lost nothing; None where that is not known of one."""
    dropped: tuple[Dropped, ...]
    tried: tuple[Tried, ...]
    together: bool
    """All groups have a plan in one job."""


@dataclass(slots=True)
class Contest(Generic[Found]):
    """The ways to run a job on several groups, each planned at most once."""

    asked: str
    names: Sequence[str]
    batch: int
    planned: Callable[[Way, float, int], list[Found]]
    """Return so many plans of a way, best first; those that take a time or longer, without loading
    of data, need not be found. Raise ``PlanError``."""
    rank: Callable[[Found], tuple[bool, float, float]]
    """Less is better: whether its memory is tight, the time of a step, and what it works."""
    ideals: Sequence[float | None]
    """Samples per second of each group if it lost nothing."""
    margin: Callable[[Found], float]
    """How much slower a plan may be predicted that may be as fast: 0.04 for 4 %."""
    whole: bool = False
    """The job takes all groups, whatever is faster."""
    apart: bool = False
    """No place has room for all groups in one job."""
    _results: dict[Way, list[Found]] = field(default_factory=dict)
    _reasons: dict[Way, str] = field(default_factory=dict)

    def run(self) -> tuple[list[Found], Compared]:
        """Return the plans of the way that is taken, best first, and how it compares.

        Raises ``PlanError`` where the strategy asked for has no plan.
        """
        everything = tuple(range(len(self.names)))
        alone = [Way("grouped", (index,)) for index in everything]
        ways = alone if self.asked == "grouped" else [Way(self.asked, everything)]
        if self.asked == "auto":
            ways = [Way(name, everything) for name in TOGETHER]
            ways += [] if self.whole else alone
        for way in [*ways, Way("mixed", everything), *alone]:
            self._plan(way)
        if self.asked == "auto" and not self.whole:
            ways = [*ways, *self._parts(ways)]
        known = [way for way in ways if way in self._results]
        if not known:
            raise self._error(everything)
        best = min(known, key=lambda way: self.rank(self._results[way][0]))
        found = self.planned(best, math.inf, KEEP) if best in alone else self._results[best]
        if not self.whole:
            self._plan_fewer(best)
        return found, self._compared(best, alone)

    def _plan(self, way: Way, below_s: float = math.inf) -> None:
        if way in self._results or way in self._reasons:
            return
        # A group alone is there to compare with: one plan says how fast it is.
        keep = 1 if len(way.groups) == 1 else KEEP
        try:
            self._results[way] = self.planned(way, below_s, keep)
        except PlanError as error:
            self._reasons[way] = str(error)

    def _plan_again(self, way: Way, below_s: float = math.inf) -> None:
        """Plan a way that may be slower than what was found before it."""
        self._reasons.pop(way, None)
        self._plan(way, below_s)

    def _parts(self, known: Sequence[Way]) -> list[Way]:
        """Return the ways over some of the groups that could be faster than those known."""
        sizes = range(len(self.names) - 1, 1, -1)
        parts = [part for size in sizes for part in combinations(range(len(self.names)), size)]
        tried = list(known)
        found = []
        for part in sorted(parts, key=lambda part: -(self._ideal(part) or 0.0)):
            ranks = [self.rank(self._results[way][0]) for way in tried if way in self._results]
            ideal = self._ideal(part)
            # No plan of a part is faster than its cards would be without any loss.
            if ideal and any(not rank[0] and rank[2] <= self.batch / ideal for rank in ranks):
                continue
            for name in TOGETHER:
                way = Way(name, part)
                self._plan(way, min((rank[2] for rank in ranks if not rank[0]), default=math.inf))
                tried.append(way)
                found.append(way)
        return found

    def _plan_fewer(self, best: Way) -> None:
        """Plan what may be as fast as the best on some of its groups, and leaves out the rest."""
        found = self._results[best][0]
        limit_s = self.rank(found)[2] * (1 + self.margin(found))
        for size in range(len(best.groups) - 1, 1, -1):
            for part in combinations(best.groups, size):
                ideal = self._ideal(part)
                if ideal and self.batch / ideal >= limit_s:
                    continue
                for name in TOGETHER:
                    self._plan_again(Way(name, part), limit_s)

    def _ideal(self, groups: Sequence[int]) -> float | None:
        rates = [self.ideals[index] for index in groups]
        return None if None in rates else sum(rate or 0.0 for rate in rates)

    def _error(self, everything: tuple[int, ...]) -> PlanError:
        """Return why there is no plan, and the nearest that there is."""
        if self.asked == "grouped":
            why = "\n".join(dict.fromkeys(self._reasons.values()))
        elif self.asked in ("auto", "mixed"):
            why = self._reasons[Way("mixed", everything)]
            if self.asked == "auto" and self.apart and not self.whole:
                why = "\n".join(dict.fromkeys(self._reasons.values()))
        else:
            why = f"--strategy {self.asked}: {self._reasons[Way(self.asked, everything)]}"
        together = [Way(name, everything) for name in TOGETHER]
        for way in together:
            self._plan(way)
        near = [way for way in together if way in self._results][:1]
        if not near and not self.whole:
            self._parts(list(self._results))
            near = list(self._results)
        if not near:
            return PlanError(why)
        way = min(near, key=lambda way: self.rank(self._results[way][0]))
        return PlanError(
            f"{why}; nearest that works: --strategy {way.strategy} on {self._words(way)}, "
            f"{self._step_s(way):.2f} s a step"
        )

    def _compared(self, best: Way, alone: Sequence[Way]) -> Compared:
        singles = tuple(map(self._tried, alone))
        rates = [self.batch / item.step_s for item in singles if item.step_s]
        step_s = self._step_s(best)
        return Compared(
            asked=self.asked,
            taken=best.strategy,
            groups=tuple(self.names[index] for index in best.groups),
            step_s=step_s,
            samples_s=self.batch / step_s,
            alone=singles,
            sum_alone_samples_s=sum(rates),
            best_alone_samples_s=max(rates, default=None),
            bound_samples_s=self._bound(alone),
            dropped=self._dropped(best),
            tried=tuple(self._tried(way) for way in (*self._results, *self._reasons)),
            together=any(len(way.groups) == len(self.names) for way in self._results),
        )

    def _bound(self, alone: Sequence[Way]) -> float | None:
        """Return what all groups would reach without any loss.

        Where the equations do not say it of a group, its own best plan's computation does.
        """
        rates = []
        for ideal, way in zip(self.ideals, alone, strict=True):
            rate = ideal
            if rate is None and way in self._results:
                found = self._results[way][0].plan.predicted
                rate = self.batch / found.breakdown_s["compute"] if found else None
            if rate is None:
                return None
            rates.append(rate)
        return sum(rates)

    def _dropped(self, best: Way) -> tuple[Dropped, ...]:
        """Return the groups that are left out; each is planned with those that are not."""
        found = []
        for index, name in enumerate(self.names):
            if index in best.groups:
                continue
            groups = tuple(sorted((*best.groups, index)))
            ways = [Way(strategy, groups) for strategy in TOGETHER]
            for way in ways:
                self._plan_again(way)
            times = [self._step_s(way) for way in ways if way in self._results]
            why = "" if times else self._reasons[ways[0]]
            found.append(Dropped(name, min(times, default=None), self._step_s(best), why))
        return tuple(found)

    def _tried(self, way: Way) -> Tried:
        groups = tuple(self.names[index] for index in way.groups)
        if way in self._reasons:
            return Tried(way.strategy, groups, None, self._reasons[way])
        return Tried(way.strategy, groups, self._step_s(way))

    def _step_s(self, way: Way) -> float:
        found = self._results[way][0].plan.predicted
        return found.step_time_s if found else 0.0

    def _words(self, way: Way) -> str:
        return " + ".join(self.names[index] for index in way.groups)


def strategy_words(found: Compared) -> list[str]:
    """Return which strategy was taken and why, what was left out, and the rates, in words."""
    said = []
    if found.asked == "auto":
        said.append(f"auto: {_taken(found)}; {_against(found)}")
    said += [
        f"{item.group} dropped: {item.without_s:.2f} s without it, "
        + (f"{item.with_s:.2f} s with it" if item.with_s else f"no plan with it: {_flat(item.why)}")
        for item in found.dropped
    ]
    return [*said, _rates(found)]


def _taken(found: Compared) -> str:
    part = bool(found.dropped)
    on = f" on {' + '.join(found.groups)}" if part else ""
    return f"{found.taken}{on}: {found.step_s:.2f} s a step"


def _against(found: Compared) -> str:
    """Return the best of the others: of one group, or of several where one was taken."""
    single = found.taken == "grouped"
    others = [
        item.step_s
        for item in found.tried
        if item.step_s is not None and (item.strategy == "grouped") != single
    ]
    name = "several groups" if single else "the best group alone"
    return f"{name} {min(others):.2f} s" if others else f"{name}: no plan"


def _rates(found: Compared) -> str:
    """Return the throughput against the groups alone, the best of them, and the bound."""
    words = [f"{found.samples_s:.4g} samples/s"]
    if found.sum_alone_samples_s:
        share = found.samples_s / found.sum_alone_samples_s
        words.append(f"{share:.0%} of all groups alone ({found.sum_alone_samples_s:.4g})")
    if found.best_alone_samples_s:
        gain = found.samples_s / found.best_alone_samples_s - 1
        words.append(f"{gain:+.0%} against the best of them")
    if found.bound_samples_s:
        share = found.samples_s / found.bound_samples_s
        words.append(f"{share:.0%} of the bound ({found.bound_samples_s:.4g})")
    return f"{words[0]}: {', '.join(words[1:])}" if words[1:] else words[0]


def _flat(text: str) -> str:
    return "; ".join(text.split("\n"))
