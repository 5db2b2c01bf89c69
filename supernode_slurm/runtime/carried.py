"""The plan that the job carries, or one made inside the allocation.

Python 3.8, standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import Mapping, Sequence

from ..plan import Plan, dumps, loads
from . import private
from .job import Component, step_name
from .layout import place_plan
from .problem import BROKEN, LaunchError, say
from .program import run

_PLAN_S = 300.0
_PASSED_ON = (2, 3, 4)
"""Exit codes of sn: usage, no plan or placement, inventory or configuration invalid."""


def read_plan(environ: Mapping[str, str]) -> Plan | None:
    """Return the plan in SN_PLAN, or in the file that SN_PLAN_FILE names; None for none."""
    text, origin = environ.get("SN_PLAN", ""), "SN_PLAN"
    if not text and environ.get("SN_PLAN_FILE"):
        origin = environ["SN_PLAN_FILE"]
        try:
            with open(origin, encoding="utf-8") as stream:
                text = stream.read()
        except (OSError, ValueError) as error:
            raise LaunchError(f"cannot read the plan: {error}") from error
    return _parse(text, origin) if text else None


def _parse(text: str, origin: str) -> Plan:
    try:
        plan = loads(text)
    except ValueError as error:
        raise LaunchError(
            f"{origin} is not a plan that this sn-launch can read: {error}; submit the job with "
            "the sn-submit of the same version"
        ) from error
    if not plan.groups:
        raise LaunchError(f"{origin} is a plan without devices; submit the job again")
    return plan


def plan_here(
    environ: Mapping[str, str], parts: Sequence[Component], speaks: bool = True
) -> Plan | None:
    """Return the plan for this allocation: the job's own where it fits, else a new one.

    None where the job is placed and not planned. Raises ``LaunchError`` where a plan was
    promised and cannot be had.
    """
    plan, unfit = read_plan(environ), None
    if plan is not None:
        try:
            place_plan(plan, parts)
            return plan
        except LaunchError as error:
            unfit = error
    sn = None if environ.get("SN_REPLAN") == "0" else _find_sn(environ)
    if sn is None:
        if unfit is not None:
            raise unfit
        if speaks and environ.get("SN_REPLAN") != "0":
            say("warning", "placed, not planned: the job has no plan, and there is no 'sn' here")
        return None
    if speaks and unfit is not None:
        say("warning", f"{unfit}: planned anew".replace("; submit it again", ""))
    made = _ask(sn, environ)
    place_plan(made, parts)
    return made


def plan_once_per_node(environ: Mapping[str, str], parts: Sequence[Component]) -> Plan | None:
    """Return the plan for a step that was started by hand: one task of each node makes it."""
    if environ.get("SN_REPLAN") == "0" or _fits(read_plan(environ), parts):
        return plan_here(environ, parts)
    folder = private.directory(environ, step_name(environ))
    if environ.get("SLURM_LOCALID", "0") == "0":
        return _leave_for_others(environ, parts, folder)
    return _await_first(os.path.join(folder, "plan"))


def _fits(plan: Plan | None, parts: Sequence[Component]) -> bool:
    try:
        return plan is not None and bool(place_plan(plan, parts))
    except LaunchError:
        return False


def _leave_for_others(
    environ: Mapping[str, str], parts: Sequence[Component], folder: str
) -> Plan | None:
    try:
        plan = plan_here(environ, parts, speaks=environ.get("SLURM_PROCID", "0") == "0")
    except LaunchError as error:
        private.write(folder, "plan", json.dumps({"code": error.exit_code}))
        raise
    private.write(folder, "plan", json.dumps({"plan": dumps(plan) if plan else ""}))
    return plan


def _await_first(path: str) -> Plan | None:
    deadline = time.monotonic() + _PLAN_S + 30
    while True:
        try:
            with open(path, encoding="utf-8") as stream:
                found = json.load(stream)
            break
        except FileNotFoundError:
            pass
        if time.monotonic() > deadline:
            raise LaunchError(f"the first task of this node left no plan in {path}")
        time.sleep(0.1)
    if "code" in found:
        raise SystemExit(found["code"])
    return _parse(found["plan"], path) if found["plan"] else None


def _find_sn(environ: Mapping[str, str]) -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), "sn")
    if os.access(beside, os.X_OK):
        return beside
    return shutil.which("sn", path=environ.get("PATH", os.defpath))


def _ask(sn: str, environ: Mapping[str, str]) -> Plan:
    code, text, said = run([sn, "plan", "--here"], _PLAN_S, environ, stderr_passes=True)
    if code:
        raise LaunchError(
            f"'{sn} plan --here' found no plan for this allocation"
            f"{': ' + said if said else ''} (exit code {code}); mend what it said, or set "
            "SN_REPLAN=0 to start the ranks without planning",
            code if code in _PASSED_ON else BROKEN,
        )
    return _parse(text, f"'{sn} plan --here'")
