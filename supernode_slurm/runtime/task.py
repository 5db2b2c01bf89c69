"""One task of a step: find its rank, prepare its environment, start its program.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import replace
from typing import Mapping

from ..hostlist import fold
from ..plan import Plan, dumps
from . import private, record
from .carry import search_path
from .entry import Words
from .fill import fill, warn_of_no_plan
from .heartbeat import Lookout, patience
from .job import components, hosts, number, per_node, step_name, whole_job
from .keeper import End, Meanwhile, become, keep
from .layout import Layout, check_step, check_tasks, loads, make_places
from .master import address, candidates, is_free, wished_port
from .planning import plan_here, read_plan
from .private import Folder
from .problem import USAGE, LaunchError, cause, pass_on, say
from .rank import Rank, find_rank, for_container, node_processes, seen_devices, variables

_OURS = ("SN_LAYOUT", "SN_MARK", "SN_CARRIED", "SN_CARRIED_BY", "SN_CARRIED_FILE")
"""Between the two sides of the launcher alone."""
_OF_ONE_PROCESS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""A launcher of a node's processes would take what it inherits of these for its own."""


def run_task(environ: Mapping[str, str], words: Words) -> int:
    """Start this task's program; return only where it cannot be started."""
    mark = environ.get("SN_MARK", "") if words.is_rank else ""
    if mark and environ.get("SLURM_PROCID") == "0":
        pass_on(record.encode(mark, {"kind": "step", "step": environ["SLURM_STEP_ID"]}))
    folder = Folder(environ, step_name(environ))
    try:
        rank = _find(environ, words, folder)
        files = _Files(folder)
        found = variables(environ, rank)
        command = fill(words.command, rank, node_processes(environ, rank), files.write)
    except (LaunchError, OSError, SystemExit):
        if mark:
            pass_on(record.encode(mark, {"kind": "refused"}))
        folder.leave(environ.get("SLURM_LOCALID", "0"), _tasks_here(environ))
        raise
    gone = {*_OURS, *(_OF_ONE_PROCESS if rank.layout.per_node else ())}
    child = {name: text for name, text in environ.items() if name not in gone}
    stays = environ.get("SN_WATCH") != "0" and not os.isatty(2)
    lookout = _lookout(environ, rank, folder) if mark and stays else None
    found.update(lookout.environment() if lookout is not None else {})
    child = {**child, **search_path(environ), **for_container(command, found), **found}
    if not stays:
        if not files.are_written:
            folder.leave(str(rank.local), _sharers(rank))
        become(command, child)

    def look() -> bytes:
        seen = [] if lookout is None else lookout.look(time.monotonic())
        return b"".join(record.encode(mark, item) for item in seen)

    def finish(end: End) -> None:
        if lookout is not None:
            lookout.clear()
        _finish(end, rank, environ, folder)

    keep(command, child, finish, Meanwhile(look, lookout.period_s) if lookout else None)


def _lookout(environ: Mapping[str, str], rank: Rank, folder: Folder) -> Lookout | None:
    """Return what looks how far this rank is, or those of a node's one task."""
    seconds = patience(environ)
    one = None if rank.layout.per_node else rank.number
    return Lookout(folder.wanted, seconds, one) if seconds else None


def _find(environ: Mapping[str, str], words: Words, folder: Folder) -> Rank:
    """Return who this task is, once its step is what the rank map says."""
    if words.is_rank:
        layout, plan = loads(environ.get("SN_LAYOUT", "")), read_plan(environ)
        check_step(layout, environ)
    else:
        layout, plan = _by_hand(environ, words, folder)
    rank = find_rank(environ, layout, plan)
    _check_port(rank)
    if not words.is_rank and not layout.per_node:
        _warn_of_hidden_devices({**environ, **variables(environ, rank)}, rank)
    return rank


def _tasks_here(environ: Mapping[str, str]) -> int:
    """Return how many tasks this step has on this node."""
    nodes = hosts(environ.get("SLURM_STEP_NODELIST", ""))
    tasks = per_node(nodes, environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    return tasks.get(environ.get("SLURMD_NODENAME", ""), 1)


def _by_hand(
    environ: Mapping[str, str], words: Words, folder: Folder
) -> tuple[Layout, Plan | None]:
    """Return the rank map of a step that somebody else started; one task of a node makes it."""
    if words.options:
        raise LaunchError("--srun is for the batch script: this task is already in a step", USAGE)

    refused: list[LaunchError] = []

    def make() -> str:
        try:
            layout, plan = _make(environ, words)
        except LaunchError as error:
            refused.append(error)
            return json.dumps({"code": error.exit_code})
        return json.dumps({"layout": layout.dumps(), "plan": dumps(plan) if plan else ""})

    made = json.loads(folder.once("map", make))
    if refused:
        raise refused[0]
    if "code" in made:
        raise SystemExit(made["code"])
    return loads(made["layout"]), read_plan({"SN_PLAN": made["plan"]})


def _make(environ: Mapping[str, str], words: Words) -> tuple[Layout, Plan | None]:
    speaks = environ.get("SLURM_NODEID", "0") == "0"
    parts, whole = components(environ), whole_job(environ)
    plan = plan_here(environ, whole, speaks)
    left_out = [node for one, all_ in zip(parts, whole) for node in all_.tasks if node not in
                one.tasks]  # fmt: skip
    if plan is not None and plan.pipelines and left_out:
        plan = replace(plan, pipelines=(), arguments=(), files={})
        if speaks:
            say(
                "warning",
                f"placed, not planned: this step leaves out {fold(left_out)}, and the plan is for "
                "the whole job; leave srun to sn-launch to train by it",
            )
    if speaks:
        warn_of_no_plan(words.command, plan)
    places = make_places(environ, parts, plan, words.per_node)
    check_tasks(places, parts, words.per_node)
    job, step = number(environ, "SLURM_JOB_ID"), number(environ, "SLURM_STEP_ID")
    port = wished_port(environ) or next(candidates(job, step))
    return Layout(places, address(places[0].node, environ), port, words.per_node), plan


def _check_port(rank: Rank) -> None:
    """Refuse a port that somebody else has, on the one node where that can be seen."""
    first = rank.node_rank == 0 and rank.local == 0
    if first and not is_free(rank.layout.port):
        raise LaunchError(
            f"port {rank.layout.port} of {rank.place.node} is taken by another process; start "
            "again, or set MASTER_PORT to a free one"
        )


def _warn_of_hidden_devices(environ: Mapping[str, str], rank: Rank) -> None:
    seen = seen_devices(environ, rank.group)
    if seen is not None and seen == rank.local and rank.node_rank == 0:
        say(
            "warning",
            f"tasks see {seen} devices each, and LOCAL_RANK runs to {rank.place.count - 1}: "
            "leave --gpus-per-task and --gpu-bind out, or use sn-launch without srun",
        )


class _Files:
    """The plan's files on this node."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self.are_written = folder, False

    def write(self, name: str, text: str) -> str:
        if os.path.basename(name) != name:
            raise LaunchError(f"the plan's file {name!r} has no plain name; submit the job again")
        self.are_written = True
        return private.write(self._folder.path, name, text)


def _sharers(rank: Rank) -> int:
    return 1 if rank.layout.per_node else rank.place.count


def _finish(end: End, rank: Rank, environ: Mapping[str, str], folder: Folder) -> None:
    """Report the end; the last task of the node clears up."""
    mark = environ.get("SN_MARK", "")
    if mark:
        _report(end, rank, mark)
    elif not end.is_good and not end.told:
        say(
            "error",
            "\n".join([f"{_who(rank)} ended with {cause(end.code, end.signal)}", *_shown(end)]),
        )
    folder.leave(str(rank.local), _sharers(rank))
    if end.told and environ.get("SN_CARRIED_FILE"):
        # The launcher will not get the time to do it.
        with contextlib.suppress(OSError):
            os.unlink(environ["SN_CARRIED_FILE"])


def _who(rank: Rank) -> str:
    kind = f" ({rank.group.accelerator})" if rank.group is not None else ""
    what = "the task" if rank.layout.per_node else f"rank {rank.number}"
    return f"{what} on {rank.place.node}{kind}"


def _shown(end: End) -> list[str]:
    return [f"    {line}" for line in end.lines]


def _report(end: End, rank: Rank, mark: str) -> None:
    key = rank.number
    for line in () if end.told or end.is_good else end.lines:
        pass_on(record.encode(mark, {"kind": "line", "rank": key}, line))
    pass_on(record.encode(
            mark,
            {
                "kind": "end", "rank": key, "code": end.code, "signal": end.signal,
                "at": end.at, "told": end.told,
            },
            _who(rank),
        ),
    )  # fmt: skip
