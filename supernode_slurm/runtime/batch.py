"""The launcher's side in the batch script: plan, map, steps, and who died first.

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
from .job import Component, components, number, step_name
from .layout import Layout, Place, place_plan, place_unplanned
from .master import address, claim_port, wished_port
from .program import run
from .rank import Rank
from .srun import Step, handed_down, steps, task_options, uneven_hosts
from .watch import watch

_ASK_S = 30.0
_NO_HET_STEPS = re.compile(r"SchedulerParameters\s*=.*\bdisable_hetjob_steps\b")


def run_batch(environ: Mapping[str, str], words: Words) -> int:
    """Start all ranks of the job and wait for them; return the exit code."""
    parts = components(environ)
    plan = plan_here(environ, parts)
    places = _places(environ, parts, plan, words.per_node)
    master = address(places[0].node, environ)
    with contextlib.ExitStack() as stack:
        port = wished_port(environ)
        if not port:
            folder = private.directory(environ, "ports")
            claim = claim_port(master, number(environ, "SLURM_JOB_ID"), folder)
            port = stack.enter_context(claim)
        layout = Layout(places, master, port, words.per_node)
        _try_to_fill(words.command, layout, plan)
        carried = stack.enter_context(carry(environ, parts))
        lists = [name for group in plan.groups for name in group.visible_env] if plan else []
        child = handed_down(environ, lists, len(parts) > 1)
        child["SN_LAYOUT"] = layout.dumps()
        if plan is not None:
            child["SN_PLAN"] = dumps(plan)
        child["SN_MARK"] = secrets.token_hex(8)
        if carried.is_sent:
            child["SN_CARRIED_FILE"] = carried.path
        started = _steps(environ, words, parts, layout, carried, lists)
        return watch(started, child, _hint(started[0], carried))


def _hint(step: Step, carried: Carried) -> str:
    python = step.argv[step.argv.index("-I") - 1]
    where = "in the image" if python == "python3" else "on every node"
    return f"no rank started: {python} (3.8 or newer) must be {where}, and see {carried.path}"


def _places(
    environ: Mapping[str, str], parts: Sequence[Component], plan: Plan | None, per_node: bool
) -> tuple[Place, ...]:
    if plan is not None:
        return place_plan(plan, parts)
    if per_node or not all(part.asked for part in parts):
        devices = devices_of_job(environ.get("SLURM_JOB_ID", ""), environ)
        if per_node:
            # The one task of a node starts a process for each device, whoever asked for tasks.
            parts = [replace(part, asked=False) for part in parts]
        return place_unplanned(parts, devices)
    return place_unplanned(parts, {})


def _try_to_fill(command: Sequence[str], layout: Layout, plan: Plan | None) -> None:
    """Say once what each rank would have to say."""
    for place in {place.group: place for place in layout.places}.values():
        fill(command, Rank(layout, place, 0, plan), place.count, lambda name, _: name)


def _steps(
    environ: Mapping[str, str],
    words: Words,
    parts: Sequence[Component],
    layout: Layout,
    carried: Carried,
    lists: Sequence[str],
) -> list[Step]:
    python, more = sys.executable, list(words.options)
    if containers.is_contained(words.options, environ):
        python = "python3"
        names = ["SN_PLAN", "SN_LAYOUT", "SN_MARK", "SN_CARRIED_FILE", "SN_WATCH", *lists]
        more += containers.pyxis_options(dict.fromkeys(names), [carried.visible], environ)
    rank = [python, "-I", "-S", carried.path, "--rank", "--", *words.command]
    options = []
    for index, part in enumerate(parts):
        text, path = uneven_hosts(part, layout), ""
        if text is not None:
            folder = private.directory(environ, step_name(environ))
            path = private.write(folder, f"hosts.{index}", text)
        options.append([*task_options(part, layout, path), *more])
    return steps(parts, options, rank, len(parts) > 1 and _steps_apart(environ))


def _steps_apart(environ: Mapping[str, str]) -> bool:
    """Say whether this site refuses one step over several components."""
    return bool(_NO_HET_STEPS.search(run(["scontrol", "show", "config"], _ASK_S, environ)[1]))
