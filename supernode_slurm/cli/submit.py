"""``sn-submit``: plan, place and submit a job."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .guard import guarded, tell

if TYPE_CHECKING:
    from ..slurm import JobId
    from ..submission.submit import Prepared

USAGE = "sn-submit [OPTIONS] [SBATCH OPTIONS] SCRIPT [ARGS...]"


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``sn-submit`` and leave with its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    sys.exit(guarded(lambda: run(words)))


def run(argv: list[str]) -> int:
    """Answer a command line."""
    if argv[:1] in (["-h"], ["--help"]):
        print(help_text())
        return 0
    if not argv and sys.stdin.isatty():
        print(help_text(), file=sys.stderr)
        return 2
    if argv[:1] in (["-V"], ["--version"]):
        from .. import __version__

        print(f"sn-submit, version {__version__}")
        return 0
    return submit_job(argv)


def submit_job(argv: list[str]) -> int:
    """Plan and place what a command line asks for; submit it unless it is a dry run."""
    from ..inventory import load
    from ..slurm import CliClient
    from ..submission.commandline import parse
    from ..submission.submit import prepare, submit
    from .common import inventory_path

    line = parse(argv)
    if "help" in line.given:
        print(help_text())
        return 0
    given = line.own.get("inventory")
    inventory = load(inventory_path(Path(given) if given else None))
    client = None if "dry-run" in line.own else CliClient(os.environ)
    prepared = prepare(line, os.environ, inventory, client)
    for note in prepared.notes:
        tell("note", note)
    job = submit(prepared, client) if client else None
    if "json" in line.own:
        _print_json(prepared, job)
    elif job is None:
        _print_dry_run(prepared)
    elif "parsable" in line.given:
        print(str(job))
    else:
        _print_job(prepared, job)
    return 0


def help_text() -> str:
    """Return the text of ``--help``."""
    from ..submission.options import OWN

    lines = [
        f"Usage: {USAGE}",
        "",
        "  Plan a training job, place it, and submit it with sbatch.",
        "",
        "  Options of sbatch pass through; what you leave open is filled: partition, nodes,",
        "  tasks, gres, CPUs, constraint. The planning options may stand on '#SN' lines of the",
        "  script and in SN_* variables; the command line is the strongest.",
        "",
        "Options:",
    ]
    for option in OWN:
        name = f"--{option.name} {option.metavar}".strip()
        lines.append(f"  {name:<28} {option.help}")
    return "\n".join(lines)


def _print_json(prepared: Prepared, job: JobId | None) -> None:
    import json

    from ..plan import dumps
    from .common import print_json

    print_json(
        {
            "job": None if job is None else str(job),
            "argv": prepared.argv,
            "script": prepared.script.text,
            "placement": prepared.request.why,
            "origins": {**prepared.given.origins, **prepared.asked.origins},
            "plan": json.loads(dumps(prepared.choice.plan)),
        }
    )


def _print_dry_run(prepared: Prepared) -> None:
    print(f"plan       {summary(prepared)}")
    print(f"placement  {prepared.request.why}")
    for settings in (prepared.asked, prepared.given):
        for name, value in settings.values.items():
            shown = f"--{name} {value}".rstrip()
            print(f"asked      {shown} ({settings.origins[name]})")
    print(f"command    {shlex.join(prepared.argv)}")
    print("script")
    print(prepared.script.text, end="")


def _print_job(prepared: Prepared, job: JobId) -> None:
    partitions = dict.fromkeys(slot.partition for slot in prepared.choice.slots)
    print(f"Submitted batch job {job.number} on partition {', '.join(partitions)}")
    tell("plan", summary(prepared))
    tell("placement", prepared.request.why)


def summary(prepared: Prepared) -> str:
    """Return the plan in one line."""
    plan = prepared.choice.plan
    if not plan.pipelines or plan.predicted is None:
        return "placed, not planned: no model was named"
    parts = []
    for pipeline in plan.pipelines:
        for mesh in pipeline.meshes:
            group = plan.groups[mesh.group]
            parts.append(
                f"{group.devices} {group.name}: TP={mesh.tp} PP={mesh.pp} DP={mesh.dp} "
                f"micro-batch {mesh.micro_batch}, {pipeline.samples} of {plan.global_batch} samples"
            )
    found = plan.predicted
    return (
        f"{plan.model} on {'; '.join(parts)}; predicted {found.step_time_s:.2f} s a step, "
        f"MFU {found.mfu:.0%}"
    )
