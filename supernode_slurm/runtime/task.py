"""One task of a step: find its rank, prepare its environment, start its program.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
from typing import Mapping

from ..plan import Plan
from . import private, record
from .carried import plan_once_per_node, read_plan
from .entry import Words
from .fill import fill
from .job import components, number, step_name
from .keeper import End, become, keep
from .layout import Layout, check_tasks, loads, place_plan, place_unplanned
from .master import address, candidates, is_free, wished_port
from .problem import USAGE, LaunchError, cause, pass_on, say
from .rank import Rank, find_rank, for_container, node_processes, seen_devices, variables

_OURS = ("SN_LAYOUT", "SN_MARK", "SN_CARRIED", "SN_CARRIED_FILE")
"""Between the two sides of the launcher alone."""


def run_task(environ: Mapping[str, str], words: Words) -> int:
    """Start this task's program; return only where it cannot be started."""
    mark = environ.get("SN_MARK", "") if words.is_rank else ""
    if mark and environ.get("SLURM_PROCID") == "0":
        pass_on(record.encode(mark, {"kind": "step", "step": environ["SLURM_STEP_ID"]}))
    if words.is_rank:
        layout, plan = loads(environ.get("SN_LAYOUT", "")), read_plan(environ)
    else:
        layout, plan = _by_hand(environ, words)
    rank = find_rank(environ, layout, plan)
    _check_port(rank)
    found = variables(environ, rank)
    if not words.is_rank and not layout.per_node:
        _warn_of_hidden_devices({**environ, **found}, rank)
    folder = _Folder(environ)
    command = fill(words.command, rank, node_processes(environ, rank), folder.write)
    child = {name: text for name, text in environ.items() if name not in _OURS}
    child = {**child, **for_container(command, found), **found}
    if environ.get("SN_WATCH") == "0" or os.isatty(2):
        become(command, child)
    keep(command, child, lambda end: _finish(end, rank, environ, mark))


def _by_hand(environ: Mapping[str, str], words: Words) -> tuple[Layout, Plan | None]:
    """Return the rank map of a step that somebody else started."""
    if words.options:
        raise LaunchError("--srun is for the batch script: this task is already in a step", USAGE)
    parts = components(environ)
    plan = plan_once_per_node(environ, parts)
    places = place_plan(plan, parts) if plan is not None else place_unplanned(parts, {})
    check_tasks(places, parts, words.per_node)
    master = address(places[0].node, environ)
    job, step = number(environ, "SLURM_JOB_ID"), number(environ, "SLURM_STEP_ID")
    port = wished_port(environ) or next(candidates(job, step))
    return Layout(places, master, port, words.per_node), plan


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


class _Folder:
    """Where this step's files lie on this node; made for the first of them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def write(self, name: str, text: str) -> str:
        if os.path.basename(name) != name:
            raise LaunchError(f"the plan's file {name!r} has no plain name; submit the job again")
        folder = private.directory(self._environ, step_name(self._environ))
        return private.write(folder, name, text)


def _finish(end: End, rank: Rank, environ: Mapping[str, str], mark: str) -> None:
    """Report a bad end; the last task of the node clears up."""
    if not end.is_good and mark:
        _report(end, rank, mark)
    elif not end.is_good and not end.told:
        say(
            "error",
            "\n".join([f"{_who(rank)} ended with {cause(end.code, end.signal)}", *_shown(end)]),
        )
    count = 1 if rank.layout.per_node else rank.place.count
    private.leave(environ, step_name(environ), str(rank.local), count)
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
    for line in () if end.told else end.lines:
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
