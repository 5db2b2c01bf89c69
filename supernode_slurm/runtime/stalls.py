"""Which ranks hold the others up: what is told of the ranks that hang, never begin, or are slow.

Ranks tell when they begin, and when they stand still. A step ends together on all of them, so
that one that hangs makes all stand still: the others in an exchange that it has not begun.

Python 3.8, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable

from ..plan import Plan
from .heartbeat import Beat, period
from .layout import Layout
from .problem import say

_NAMED = 4
"""Ranks that are named in one message."""


@dataclass(frozen=True)
class _Still:
    """A rank that stands still."""

    beat: Beat
    since: float

    @property
    def waits(self) -> bool:
        """Whether it waits in an exchange."""
        return self.beat.entered > self.beat.left

    @property
    def place(self) -> tuple[int, int]:
        """How far it is: in exchanges, which all ranks make alike, then in steps."""
        return self.beat.entered + self.beat.left, self.beat.step


class Stalls:
    """Keeps what the ranks told of their progress, and says once what is wrong with it."""

    def __init__(self, layout: Layout, plan: Plan | None, patience_s: float) -> None:
        """Begin before the first rank has; with a patience of 0 nobody tells anything."""
        self._patience_s, self._grace_s = patience_s, 2 * period(patience_s)
        self._where = {
            number: _where(place.node, plan, place.group)
            for place in layout.places
            for number in range(place.first, place.first + place.count)
        }
        self._tasks = {
            place.first + local: range(place.first + local, place.first + local + width)
            for place in layout.places
            for width in (max(place.count, 1) if layout.per_node else 1,)
            for local in range(0, place.count, width)
        }
        self._per_node = layout.per_node
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._still: dict[int, _Still] = {}
        self._told: set[int] = set()
        self._told_all = False
        self._slow: dict[int, int] = {}
        self._told_slow: set[int] = set()
        self._complete_at: float | None = None
        self._judge_at: float | None = None

    @property
    def due(self) -> float | None:
        """Return when to judge, None for not before another record."""
        times = [time for time in (self._complete_at, self._judge_at) if time is not None]
        return min(times, default=None)

    def end(self, rank: int) -> None:
        """Note that a task has ended."""
        self._ended.update(self._tasks.get(rank, ()))

    def note(self, record: dict[str, Any], now: float) -> None:
        """Note what a rank told; ``now`` is the time of a steady clock."""
        rank, kind = record["rank"], record["kind"]
        if kind == "begun":
            if not self._begun:
                self._complete_at = now + self._patience_s
            self._begun.add(rank)
            self._free(rank, "has begun")
        elif kind == "moves":
            self._still.pop(rank, None)
            self._told_all = False
            self._free(rank, f"goes on after {record['after']} s")
        elif kind == "slow":
            self._slow[rank] = record["percent"]
        elif kind == "still":
            beat = Beat(*(record[name] for name in ("process", "step", "entered", "left")))
            self._still[rank] = _Still(beat, now - record["for"])
        if kind in ("still", "slow") and self._judge_at is None:
            self._judge_at = now + self._grace_s

    def judge(self, now: float) -> str:
        """Say what is new; return who holds all others up for good, nothing for nobody."""
        found = ""
        if self._complete_at is not None and now >= self._complete_at:
            self._complete_at = None
            found = self._name_missing()
        if self._judge_at is not None and now >= self._judge_at:
            self._judge_at = None
            found = self._name_hung(now) or found
            self._name_slow()
        return found

    def _name_missing(self) -> str:
        missing = [
            task
            for task, ranks in self._tasks.items()
            if not self._begun.union(self._ended).intersection(ranks)
        ]
        if not missing:
            return ""
        self._told.update(missing)
        names = _listed(self._task(task) for task in missing)
        say(
            "warning",
            f"{names} did not begin: no share() there {self._patience_s:g} s after the first of "
            f"{_ranks(len(self._begun))}",
        )
        return names

    def _name_hung(self, now: float) -> str:
        still = {rank: item for rank, item in self._still.items() if rank not in self._ended}
        furthest = max((item.place for item in still.values()), default=(0, 0))
        behind = [r for r, item in still.items() if not item.waits and item.place < furthest]
        new = sorted(set(behind) - self._told)
        if new:
            self._told.update(new)
            said = (f"{self._name(rank)} {_shown(still[rank], now)}" for rank in new)
            others = len(still) - len(behind)
            wait = f"{_ranks(others)} {'waits' if others == 1 else 'wait'}"
            say("warning", f"{_listed(said)}; {wait} for {'it' if len(new) == 1 else 'them'}")
            return _listed(self._name(rank) for rank in new)
        moved = any(item.beat.has_moved for item in still.values())
        if moved and not behind and still.keys() >= self._begun - self._ended:
            self._name_none(still, now)
        return ""

    def _name_none(self, still: dict[int, _Still], now: float) -> None:
        """Say that all stand still alike."""
        if self._told_all:
            return
        self._told_all = True
        rank, item = min(still.items(), key=lambda pair: pair[1].since)
        waits = all(other.waits for other in still.values())
        where = (
            "all in the same exchange: is the network broken?"
            if waits
            else "none waits in an exchange; each is in its own work, or in a collective of its "
            "framework"
        )
        say("warning", f"all ranks stand still; {self._name(rank)} {_shown(item, now)}: {where}")

    def _name_slow(self) -> None:
        new = {rank: percent for rank, percent in self._slow.items() if percent}
        self._slow.clear()
        said = [
            f"{self._name(rank)} takes {percent / 100:.1f} times as long"
            for rank, percent in sorted(new.items())
            if rank not in self._told_slow
        ]
        self._told_slow.update(new)
        if said:
            say("warning", f"{_listed(said)} for its share of the plan as others for theirs")

    def _free(self, rank: int, what: str) -> None:
        """Take back what was said of a rank."""
        for task, ranks in self._tasks.items() if self._told else ():
            if rank in ranks and {rank, task} & self._told:
                self._told -= {rank, task}
                say("note", f"{self._name(rank)} {what}")

    def _name(self, rank: int) -> str:
        return f"rank {rank}{self._where.get(rank, '')}"

    def _task(self, task: int) -> str:
        return f"the task{self._where[task]}" if self._per_node else self._name(task)


def _where(node: str, plan: Plan | None, group: int) -> str:
    known = plan is not None and 0 <= group < len(plan.groups)
    return f" on {node}{f' ({plan.groups[group].accelerator})' if plan and known else ''}"


def _shown(item: _Still, now: float) -> str:
    step = f" in step {item.beat.step}" if item.beat.step >= 0 else ""
    return f"stands still{step} for {now - item.since:.0f} s (process {item.beat.process})"


def _listed(texts: Iterable[str]) -> str:
    found = list(texts)
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more


def _ranks(count: int) -> str:
    return f"{count} rank{'' if count == 1 else 's'}"
