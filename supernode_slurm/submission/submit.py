"""From a command line to a job: plan, place, compose, hand to sbatch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .. import hostlist, units
from ..errors import UsageError
from ..inventory import Inventory
from ..placement import Choice, Room, choose, inventory_view, live_view, remarks
from ..plan import dumps
from ..slurm import JobId, SlurmClient
from ..slurmconf import assumed_release, block_partitions, find_release
from .ask import make_ask
from .commandline import CommandLine, sbatch_settings, settings
from .compose import Request, compose
from .merge import merge
from .script import Script, read_script, unread_lines, with_plan
from .settings import Settings

REFUSED = {
    "quiet": "it would hide the job's id",
    "test-only": "not supported yet: --dry-run shows the job, plain sbatch tests it",
    "wait": "not supported yet: wait for the job's id that --parsable prints",
}
"""Options of sbatch that do not pass through, and why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job, ready for sbatch."""

    choice: Choice
    request: Request
    options: tuple[str, ...]
    """All of sbatch's options, components separated by ``:``; ``--wrap`` has become the script."""
    script: Script
    """With the plan in it."""
    arguments: tuple[str, ...]
    asked: Settings
    """Planning options."""
    given: Settings
    """sbatch's options that the user set, wherever."""
    notes: tuple[str, ...]

    @property
    def argv(self) -> list[str]:
        """Return the command, with the script's name where its file will stand."""
        return ["sbatch", "--parsable", *self.options, self.script.name, *self.arguments]


def prepare(
    line: CommandLine, env: Mapping[str, str], inventory: Inventory, client: SlurmClient | None
) -> Prepared:
    """Return the job for a command line; without a client nobody is asked.

    Raises ``PlanError`` if nothing fits, ``UsageError`` if the user's own options
    contradict the plan.
    """
    script = read_script(line.script, line.own.get("wrap"))
    asked = settings(line, env, script)
    given = sbatch_settings(line, env, script)
    for name, reason in REFUSED.items():
        if name in given.values:
            raise UsageError(f"{given.said(name)}: {reason}")
    ask = make_ask(inventory, asked.values, given)
    view = live_view(inventory, client.nodes()) if client else inventory_view(inventory)
    view = view.without(_excluded(given))
    release = find_release(client.release()) if client else assumed_release(inventory.release)
    room = Room(inventory, view, block_partitions(inventory, release))
    choice = choose(room, ask)[0]
    request = compose(choice, room.blocks)
    request = merge(request, given, choice.slots)
    _check_time(inventory, choice, given)
    return Prepared(
        choice=choice,
        request=request,
        options=_options(request, line.sbatch),
        script=Script(script.name, with_plan(script, dumps(choice.plan)), script.origin),
        arguments=line.arguments,
        asked=asked,
        given=given,
        notes=(*view.notes, *ask.notes, *unread_lines(script), *remarks(ask, choice)),
    )


def _excluded(given: Settings) -> list[str]:
    text = given.values.get("exclude", "")
    try:
        return hostlist.expand(text) if text and "/" not in text else []
    except ValueError as error:
        raise UsageError(f"{given.said('exclude')}: {error}") from error


def _check_time(inventory: Inventory, choice: Choice, given: Settings) -> None:
    """Refuse a time limit that the partition does not give: the job would wait for ever."""
    asked = given.values.get("time")
    for name in {slot.partition for slot in choice.slots} if asked else ():
        most = inventory.partition(name).max_time
        try:
            too_long = most and units.minutes(str(asked)) > units.minutes(most)
        except ValueError as error:
            raise UsageError(f"{given.said('time')}: {error}") from error
        if too_long:
            raise UsageError(
                f"{given.said('time')} is more than partition {name}'s "
                f"max_time {most}; ask for less, or for another partition"
            )


def _options(request: Request, user: tuple[str, ...]) -> tuple[str, ...]:
    """Return the user's options and ours; every component restates both."""
    words: list[str] = []
    for index, component in enumerate(request.components):
        words += [":"] if index else []
        words += user
        words += [f"--{name}={value}" if value else f"--{name}" for name, value in component]
    return tuple(words)


def submit(prepared: Prepared, client: SlurmClient) -> JobId:
    """Submit a prepared job.

    The script goes through a file of its own name, so that the job is called after it;
    sbatch copies it.
    """
    folder = Path(tempfile.mkdtemp(prefix="sn-submit."))
    try:
        path = folder / prepared.script.name
        path.write_text(prepared.script.text, encoding="utf-8", errors="surrogateescape")
        path.chmod(0o600)
        return client.submit([*prepared.options, str(path), *prepared.arguments])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
