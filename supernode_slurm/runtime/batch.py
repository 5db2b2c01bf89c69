"""The launcher's side in the batch script: plan, map, steps.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import Iterable, Mapping, Sequence

from ..plan import Plan, dumps
from . import containers, private
from .carry import Carried, carry
from .entry import Words
from .fill import fill, warn_of_no_plan
from .job import Component, components, number, without_lost
from .layout import Layout, make_places
from .master import address, candidates, claim_port, free_ports, is_our_address, wished_port
from .planning import plan_here, tell_made
from .program import run
from .rank import Rank
from .srun import beside, check_streams, handed_down, steps, task_options, uneven_hosts
from .watch import watch

_ASK_S = 30.0
_NO_HET_STEPS = re.compile(r"SchedulerParameters\s*=.*\bdisable_hetjob_steps\b")
_FOR_RANKS = ("SN_PLAN", "SN_LAYOUT", "SN_MARK", "SN_CARRIED_FILE", "SN_WATCH", "SN_PATIENCE")


def run_batch(environ: Mapping[str, str], words: Words) -> int:
    """Start all ranks of the job and wait for them; return the exit code."""
    check_streams(environ)
    parts = without_lost(environ, components(environ))
    plan = plan_here(environ, parts)
    tell_made(plan, environ)
    places = make_places(environ, parts, plan, words.per_node)
    _try_to_fill(words.command, Layout(places, "", 0, words.per_node), plan)
    with contextlib.ExitStack() as stack:
        carried = stack.enter_context(carry(environ, parts))
        master = address(places[0].node, environ)
        port = wished_port(environ)
        if not port:
            ports = _ports(environ, parts, places[0].node, master, carried)
            port = stack.enter_context(claim_port(ports))
        layout = Layout(places, master, port, words.per_node)
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


def _ports(
    environ: Mapping[str, str],
    parts: Sequence[Component],
    node: str,
    master: str,
    carried: Carried,
) -> Iterable[int]:
    """Return ports that are free where rank 0 runs; the job's own where nobody can look."""
    job = number(environ, "SLURM_JOB_ID")
    if is_our_address(master):
        return free_ports(job)
    argv = ask_ports(parts, node, carried.path, job)
    shown = run(argv, _ASK_S, handed_down(environ, (), len(parts) > 1))[1]
    return [int(word) for word in shown.split() if word.isdecimal()] or candidates(job)


def ask_ports(parts: Sequence[Component], node: str, launcher: str, job: int) -> list[str]:
    """Return the step that prints free ports of a node, beside whatever else runs there."""
    group = next(index for index, part in enumerate(parts) if node in part.tasks)
    argv = [*beside(parts, group), f"--nodelist={node}"]
    return [*argv, sys.executable, "-I", "-S", launcher, "--free-ports", str(job)]


def _try_to_fill(command: Sequence[str], layout: Layout, plan: Plan | None) -> None:
    """Say once what each rank would have to say."""
    warn_of_no_plan(command, plan)
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
    child["SN_MARK"] = os.urandom(8).hex()
    if plan is not None:
        child["SN_PLAN"] = dumps(plan)
    if carried.is_sent:
        child["SN_CARRIED_FILE"] = carried.path
    return child


def _steps_apart(environ: Mapping[str, str]) -> bool:
    """Say whether this site refuses one step over several components."""
    return bool(_NO_HET_STEPS.search(run(["scontrol", "show", "config"], _ASK_S, environ)[1]))
