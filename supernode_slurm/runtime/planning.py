"""The plan that the job carries, or one made inside the allocation.

Python 3.8, standard library only.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Mapping, Sequence

from ..plan import Plan, dealt, devices, loads
from .job import Component
from .layout import kinds_of, place_plan
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
    if plan.pipelines and not plan.groups:
        raise LaunchError(f"{origin} is a plan without devices; submit the job again")
    return plan


def plan_here(
    environ: Mapping[str, str], parts: Sequence[Component], speaks: bool = True
) -> Plan | None:
    """Return the plan for this allocation: the job's own where it fits, else a new one.

    A job that is placed and not planned has none, or one without pipelines, whose groups
    only tell the kinds of its nodes. Raises ``LaunchError`` where a plan was promised and
    cannot be had.
    """
    plan, unfit = read_plan(environ), None
    if plan is not None:
        unfit = _misfit(plan, parts)
        if unfit is None:
            return plan
    sn = None if environ.get("SN_REPLAN") == "0" else _find_sn(environ)
    if sn is None:
        if plan is not None and plan.pipelines and unfit is not None:
            raise unfit
        if plan is None and speaks and environ.get("SN_REPLAN") != "0":
            say("warning", "placed, not planned: the job has no plan, and there is no 'sn' here")
        return plan
    if speaks and unfit is not None:
        say("warning", f"{unfit}: planned anew".replace("; submit it again", ""))
    made = _ask(sn, environ, speaks)
    if made.pipelines:
        place_plan(made, parts)
    return made


def tell_made(plan: Plan | None, environ: Mapping[str, str]) -> None:
    """Say what a plan promises that was made here, and not when the job was submitted."""
    if plan is None or plan.predicted is None or plan == read_plan(environ):
        return
    shares = dealt(plan)
    on = f"{devices(plan)}, {shares}" if shares else devices(plan)
    say("note", f"planned for {on}: {plan.predicted.step_time_s:.3g} s a step")


def _misfit(plan: Plan, parts: Sequence[Component]) -> LaunchError | None:
    """Return why a plan is none for these nodes."""
    if plan.pipelines:
        try:
            place_plan(plan, parts)
        except LaunchError as error:
            return error
        return None
    kinds = kinds_of(parts, plan.groups)
    unknown = [node for part in parts for node in part.tasks if node not in kinds]
    if unknown:
        return LaunchError(f"the plan does not know {','.join(unknown)}; submit it again")
    return None


def _find_sn(environ: Mapping[str, str]) -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), "sn")
    if os.access(beside, os.X_OK):
        return beside
    return shutil.which("sn", path=environ.get("PATH", os.defpath))


def _ask(sn: str, environ: Mapping[str, str], speaks: bool) -> Plan:
    code, text, said = run([sn, "plan", "--here"], _PLAN_S, environ, stderr_passes=speaks)
    if code:
        raise LaunchError(
            f"'{sn} plan --here' found no plan for this allocation"
            f"{': ' + said if said else ''} (exit code {code}); mend what it said, or set "
            "SN_REPLAN=0 to start the ranks without planning",
            code if code in _PASSED_ON else BROKEN,
        )
    return _parse(text, f"'{sn} plan --here'")
