"""``sn-submit``: plan, place and submit a job."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from .guard import guarded, tell

if TYPE_CHECKING:
    from ..plan import Predicted
    from ..slurm import JobId, SlurmClient
    from ..submission.prepared import Prepared

USAGE = "sn-submit [OPTIONS] [SBATCH OPTIONS] SCRIPT [ARGS...]"


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``sn-submit`` and leave with its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    sys.exit(guarded(lambda: run(words)))


def run(argv: list[str]) -> int:
    """Answer a command line."""
    if argv[:1] in (["-h"], ["--help"]):
        return _answer("help")
    if not argv and sys.stdin.isatty():
        print(help_text(), file=sys.stderr)
        return 2
    if argv[:1] in (["-V"], ["--version"]):
        return _answer("version")
    return submit_job(argv)


def submit_job(argv: list[str]) -> int:
    """Plan and place what a command line asks for; submit it unless it is a dry run."""
    import secrets

    from ..slurm import CliClient, one_cluster
    from ..submission.commandline import argument_notes, located, parse
    from ..submission.script import read_script
    from ..submission.submit import prepare
    from .room import site_inventory

    line = parse(argv)
    if line.asks:
        return _answer(line.asks)
    line = located(line, os.environ.get("PATH", ""))
    script = read_script(line.script, line.own.get("wrap"))
    notes = argument_notes(line, script)
    cluster = one_cluster(line.components, script.text, os.environ)
    given = line.own.get("inventory")
    client = None
    if "dry-run" not in line.own:
        keep = list(os.environ) if "keep-slurm-env" in line.own else ()
        client = CliClient(os.environ, keep=keep, cluster=cluster)
    inventory = site_inventory(Path(given) if given else None, client)
    prepared = prepare(line, os.environ, inventory, client, secrets.token_hex(4), script)
    if client is not None and prepared.sets("verbose"):
        _tell_environment(client.scrubbed)
    for note in (*notes, *prepared.notes):
        tell("note", note)
    for warning in _tight(prepared):
        tell("warning", warning)
    if client is None:
        if "json" in line.own:
            _print_json(prepared, None)
        else:
            _print_dry_run(prepared)
        return 0
    return _hand_over(prepared, client, "json" in line.own)


def _hand_over(prepared: Prepared, client: SlurmClient, as_json: bool) -> int:
    """Give a job to Slurm, or only ask about it; return the exit code."""
    from ..submission.submit import submit, test_only, wait_for

    def show(job: JobId) -> None:
        _print_job(prepared, job, as_json)

    if prepared.sets("test-only"):
        said = test_only(prepared, client)
        if as_json:
            _print_json(prepared, None, said)
        else:
            print(said)
        return 0
    if prepared.sets("wait"):
        return wait_for(prepared, client, show)
    show(submit(prepared, client))
    return 0


def _answer(option: str) -> int:
    """Answer an option with which sbatch would print something and leave."""
    if option == "help":
        print(help_text())
    elif option == "usage":
        print(f"Usage: {USAGE}")
    elif option == "version":
        from .. import __version__

        print(f"sn-submit, version {__version__}")
    else:
        raise UsageError(f"--{option} is for sbatch alone: run `sbatch --{option}=...`")
    return 0


def _tell_environment(scrubbed: Sequence[str]) -> None:
    """Say which variables change the job, and which are kept from it (``--verbose``)."""
    if scrubbed:
        tell("note", f"not passed on, of an enclosing job: {', '.join(scrubbed)}")
    taken = sorted(name for name in os.environ if name.startswith("SBATCH_"))
    if taken:
        tell("note", f"sbatch reads {', '.join(taken)}")


def help_text() -> str:
    """Return the text of ``--help``."""
    from ..submission.options import OWN

    lines = [
        f"Usage: {USAGE}",
        "",
        "  Plan a training job, place it, and submit it with sbatch.",
        "",
        "  Options of sbatch pass through; what you leave open is filled: partition, nodes,",
        "  tasks, gres, CPUs, memory, constraint, network settings. The planning options may",
        "  stand on '#SN' lines of the script and in SN_* variables; the command line is the",
        "  strongest.",
        "",
        "Options:",
    ]
    for option in OWN:
        name = f"--{option.name} {option.metavar}".strip()
        lines.append(f"  {name:<28} {option.help}")
    return "\n".join(lines)


def _print_job(prepared: Prepared, job: JobId, as_json: bool) -> None:
    if as_json:
        _print_json(prepared, job)
    elif prepared.sets("parsable"):
        print(str(job))
    else:
        partitions = dict.fromkeys(slot.partition for slot in prepared.choice.slots)
        on = f" on cluster {job.cluster}" if job.cluster else ""
        print(f"Submitted batch job {job.number} on partition {', '.join(partitions)}{on}")
        tell("plan", summary(prepared))
        tell("placement", prepared.request.why)
    sys.stdout.flush()


def _print_json(prepared: Prepared, job: JobId | None, estimate: str | None = None) -> None:
    import json
    from dataclasses import asdict

    from ..plan import dumps

    shown = {
        "job": None if job is None else str(job),
        "argv": prepared.argv,
        "script": prepared.script.text,
        "environment": prepared.environment,
        "placement": prepared.request.why,
        "values": [value._asdict() for value in prepared.values()],
        "notes": [*prepared.notes, *_tight(prepared)],
        "usable_gib": _usable_gib(prepared),
        "expected_error": prepared.expected and asdict(prepared.expected),
        "strategy": prepared.choice.compared and asdict(prepared.choice.compared),
        "estimate": estimate,
        "plan": json.loads(dumps(prepared.choice.plan)),
    }
    print(json.dumps(shown, indent=2, ensure_ascii=False))


def _print_dry_run(prepared: Prepared) -> None:
    from ..submission.settings import option_word

    print(f"plan       {summary(prepared)}")
    print(f"placement  {prepared.request.why}")
    for value in prepared.values():
        part = f" [component {value.component}]" if value.component is not None else ""
        option = option_word(value.option, value.value)
        print(f"{value.kind:<9}  {option}{part} ({value.origin})")
    for name, text in prepared.environment.items():
        print(f"variable   {name}={shlex.quote(text)}")
    print(f"command    {shlex.join(prepared.argv)}")
    print("script")
    print(prepared.script.text, end="")


def summary(prepared: Prepared) -> str:
    """Return the plan in one line."""
    from ..placement import mesh_words
    from ..plan import dealt

    plan = prepared.choice.plan
    if not plan.pipelines or plan.predicted is None:
        return "placed, not planned"
    parts, shares = [], dealt(plan)
    for pipeline in plan.pipelines:
        for mesh in pipeline.meshes:
            group = plan.groups[mesh.group]
            sizes = [f"{mesh_words(mesh)} micro-batch {mesh.micro_batch}"]
            if pipeline.virtual_stages > 1:
                sizes.append(f"VPP {pipeline.virtual_stages}")
            if mesh.recompute != "none":
                some = f" of {mesh.recompute_layers} layers" if mesh.recompute_layers else ""
                sizes.append(f"{mesh.recompute} recomputation{some}")
            if not shares:
                sizes.append(f"{pipeline.samples} of {plan.global_batch} samples")
            parts.append(f"{group.devices} {group.name}: {', '.join(sizes)}")
    parts += [shares] if shares else []
    trained = f"{plan.model} (LoRA)" if plan.training == "lora" else plan.model
    return f"{trained} on {'; '.join(parts)}; predicted {_figures(prepared, plan.predicted)}"


def _figures(prepared: Prepared, found: Predicted) -> str:
    """Return the time of a step with its error, and the memory of a device of what it gets."""
    error = prepared.expected
    off = f"+-{error.share:.0%}" if error and error.share else "error unknown"
    if error and error.share and not error.runs:
        off += ", no such run was compared"
    mark = "!" if _tight(prepared) else ""
    usable = dict.fromkeys(f"{gib:.0f}" for gib in _usable_gib(prepared))
    memory = f"{'+'.join(f'{gib:.0f}' for gib in found.memory_gib)}/{'+'.join(usable)} GiB"
    return f"{found.step_time_s:.2f} s a step ({off}), MFU {found.mfu:.0%}, {mark}{memory}"


def _usable_gib(prepared: Prepared) -> list[float]:
    """Return the memory of a device that training gets, for each group."""
    from ..planner import usable_gib

    planned = prepared.choice.plan.predicted is not None
    return [round(usable_gib(slot.offer), 1) for slot in prepared.choice.slots if planned]


def _tight(prepared: Prepared) -> list[str]:
    """Return a warning of a plan that leaves little memory, in the words of ``sn plan``."""
    from ..planner import SPARE, is_tight

    found = prepared.choice.plan.predicted
    if found is None or not is_tight(found, _usable_gib(prepared)):
        return []
    return [f"tight: less than {SPARE:.0%} of the memory that training gets is left"]
