"""The launcher's side in the batch script: plan, map, steps.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import sys
from dataclasses import replace
from typing import Mapping, Sequence

from ..plan import Plan, dumps
from . import containers, private
from .carried import plan_here
from .carry import Carried, carry
from .devices import devices_of_job
from .entry import Words
from .fill import fill
from .job import Component, components, number
from .layout import Layout, Place, place_plan, place_unplanned
from .master import address, claim_port, wished_port
from .program import run
from .rank import Rank
from .srun import handed_down, steps, task_options, uneven_hosts
from .watch import watch

_ASK_S = 30.0
_NO_HET_STEPS = re.compile(r"SchedulerParameters\s*=.*\bdisable_hetjob_steps\b")
_FOR_RANKS = ("SN_PLAN", "SN_LAYOUT", "SN_MARK", "SN_CARRIED_FILE", "SN_WATCH")


def run_batch(environ: Mapping[str, str], words: Words) -> int:
    """Start all ranks of the job and wait for them; return the exit code."""
    parts = components(environ)
    plan = plan_here(environ, parts)
    places = _places(environ, parts, plan, words.per_node)
    with contextlib.ExitStack() as stack:
        layout = _meet(environ, places, words.per_node, stack)
        _try_to_fill(words.command, layout, plan)
        carried = stack.enter_context(carry(environ, parts))
        folder = stack.enter_context(private.temporary(environ))
        options = _options(words, parts, layout, folder)
        lists = [name for group in plan.groups for name in group.visible_env] if plan else []
        python, where = sys.executable, "on every node"
        if containers.is_contained(words.options, environ):
            python, where = "python3", "in the image"
            names = dict.fromkeys((*_FOR_RANKS, *lists))
            more = containers.pyxis_options(names, [carried.visible], environ)
            options = [[*given, *more] for given in options]
        rank = [python, "-I", "-S", carried.path, "--rank", "--", *words.command]
        started = steps(parts, options, rank, len(parts) > 1 and _steps_apart(environ))
        hint = f"no rank started: {python}, 3.8 or newer, and {carried.path} must be {where}"
        return watch(started, _environment(environ, lists, layout, plan, carried), hint)


def _places(
    environ: Mapping[str, str], parts: Sequence[Component], plan: Plan | None, per_node: bool
) -> tuple[Place, ...]:
    if plan is not None:
        return place_plan(plan, parts)
    if not per_node and all(part.asked for part in parts):
        return place_unplanned(parts, {})
    devices = devices_of_job(environ.get("SLURM_JOB_ID", ""), environ)
    if per_node:
        # The one task of a node starts a process for each device, whoever asked for tasks.
        parts = [replace(part, asked=False) for part in parts]
    return place_unplanned(parts, devices)


def _meet(
    environ: Mapping[str, str],
    places: tuple[Place, ...],
    per_node: bool,
    stack: contextlib.ExitStack,
) -> Layout:
    """Return the rank map with the place where the ranks meet; its port is ours meanwhile."""
    master = address(places[0].node, environ)
    port = wished_port(environ)
    if not port:
        folder = private.directory(environ, "ports")
        claim = claim_port(master, number(environ, "SLURM_JOB_ID"), folder)
        port = stack.enter_context(claim)
    return Layout(places, master, port, per_node)


def _try_to_fill(command: Sequence[str], layout: Layout, plan: Plan | None) -> None:
    """Say once what each rank would have to say."""
    for place in {place.group: place for place in layout.places}.values():
        fill(command, Rank(layout, place, 0, plan), place.count, lambda name, _: name)


def _options(
    words: Words, parts: Sequence[Component], layout: Layout, folder: str
) -> list[list[str]]:
    """Return srun's options for each component; host files are written into the folder."""
    found = []
    for index, part in enumerate(parts):
        text, path = uneven_hosts(part, layout), ""
        if text is not None:
            path = private.write(folder, f"hosts.{index}", text)
        found.append([*task_options(part, layout, path), *words.options])
    return found


def _environment(
    environ: Mapping[str, str],
    lists: Sequence[str],
    layout: Layout,
    plan: Plan | None,
    carried: Carried,
) -> dict[str, str]:
    """Return the environment of srun, and so of the ranks."""
    child = handed_down(environ, lists, bool(environ.get("SLURM_HET_SIZE")))
    child["SN_LAYOUT"] = layout.dumps()
    child["SN_MARK"] = secrets.token_hex(8)
    if plan is not None:
        child["SN_PLAN"] = dumps(plan)
    if carried.is_sent:
        child["SN_CARRIED_FILE"] = carried.path
    return child


def _steps_apart(environ: Mapping[str, str]) -> bool:
    """Say whether this site refuses one step over several components."""
    return bool(_NO_HET_STEPS.search(run(["scontrol", "show", "config"], _ASK_S, environ)[1]))
