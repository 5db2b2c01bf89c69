"""A job, ready for sbatch, and where each of its values came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..placement import Choice
from ..planner import Expected
from .ask import DEFAULT
from .compose import Request
from .script import Script
from .settings import Settings, of_component

_ORIGINS = {
    "comment": "sn-submit's mark",
    "cpus-per-task": "the devices' share of a node's CPUs",
    "mem": "the devices' share of a node's memory",
    "nodelist": "--pin",
}


class Value(NamedTuple):
    """One value of a job with its origin."""

    kind: str
    """``asked`` of the planner, ``given`` to sbatch, or ``filled`` in by us."""
    component: int | None
    """Of a heterogeneous job; None for all, or for an ordinary job."""
    option: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job, ready for sbatch."""

    choice: Choice
    request: Request
    options: tuple[str, ...]
    """All of sbatch's options, components separated by ``:``; ``--wrap`` has become the script."""
    script: Script
    """With the plan in it, where it is one of the shell."""
    environment: dict[str, str]
    """What sbatch must pass on to a script of another language."""
    arguments: tuple[str, ...]
    asked: Settings
    """Planning options."""
    given: tuple[Settings, ...]
    """sbatch's options that the user set, wherever, for each component."""
    tag: str
    """Text in the job's comment that no other job has."""
    notes: tuple[str, ...]
    expected: Expected | None = None
    """How far such predictions were off; None where nothing is predicted."""

    @property
    def argv(self) -> list[str]:
        """Return the command, with the script's name where its file will stand."""
        return ["sbatch", "--parsable", *self.options, self.script.name, *self.arguments]

    def sets(self, option: str) -> bool:
        """Return whether the user set an option of sbatch, wherever."""
        return any(option in given.values for given in self.given)

    def values(self) -> list[Value]:
        """Return every value of the job with its origin: asked, given, filled in."""
        asked, planned = self.asked, bool(self.choice.plan.pipelines)
        found = [
            Value("asked", None, name, value, asked.origins[name])
            for name, value in asked.values.items()
            if planned or asked.origins[name] != DEFAULT
        ]
        for index, given in enumerate(self.given):
            part = index if len(self.given) > 1 else None
            found += [
                Value("given", part, name, value, given.origins[name])
                for name, value in given.values.items()
            ]
        return [*found, *self._filled()]

    def _filled(self) -> Iterator[Value]:
        several = len(self.request.components) > 1
        for index, component in enumerate(self.request.components):
            given = of_component(self.given, index).values
            for name, value in component:
                if given.get(name) != value:
                    origin = _ORIGINS.get(name, "the plan")
                    yield Value("filled", index if several else None, name, value, origin)
