"""``sn apply``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import hostlist
from ..errors import ConfigError, Problem, SupernodeError, UsageError, Where
from . import common, room
from .guard import tell

if TYPE_CHECKING:
    from ..apply import Candidate, Generation, Loader, Outcome, Plan, Session, Target

_BEFORE = 0
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the admin agrees to beforehand, and the form of the answer."""

    yes: bool
    touch_jobs: bool
    accept_warnings: bool
    as_json: bool


@click.command(
    epilog="""\b
Examples:
  sn apply -i site.yaml --dry-run      what would change, and what it needs
  sn apply -i site.yaml                show it, ask, install, prove
  sn apply --rollback                  back to what was installed before"""
)
@common.inventory_option
@common.release_option
@click.option(
    "--conf-dir",
    type=click.Path(path_type=Path),
    help="Directory of slurm.conf [default: that of SLURM_CONF, else of the running Slurm].",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; exit code 5 if there is a change.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--touch-jobs", is_flag=True, help="With --yes: even on nodes with running jobs.")
@click.option("--accept-warnings", is_flag=True, help="Install what the twin only warns of.")
@click.option("--restart", metavar="COMMAND", default="", help="What restarts slurmctld here.")
@click.option("--no-controller", is_flag=True, help="Write the files, and ask no slurmctld.")
@click.option(
    "--wait", type=click.IntRange(0), default=0, metavar="SECONDS", help="For another apply."
)
@click.option(
    "--watch",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long nodes are watched for being drained.",
)
@click.option("--list", "listing", is_flag=True, help="List what was installed, and end.")
@click.option(
    "--rollback",
    type=click.IntRange(0),
    is_flag=False,
    flag_value=_BEFORE,
    metavar="[N]",
    help="Install what was installed before, or number N of --list.",
)
@click.option(
    "--groups",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the inventory's groups for ClusterShell to this file, too.",
)
@common.json_option
def command(
    inventory_path: Path | None,
    release: str | None,
    conf_dir: Path | None,
    dry_run: bool,
    yes: bool,
    touch_jobs: bool,
    accept_warnings: bool,
    restart: str,
    no_controller: bool,
    wait: float,
    watch: float,
    listing: bool,
    rollback: int | None,
    groups: Path | None,
    as_json: bool,
) -> int:
    """Install an inventory's configuration, and prove that Slurm runs it.

    The files are tried on a private slurmctld, written so that a crash leaves the old or
    the new ones, and read by the running slurmctld. If it dies, or its topology, its cards
    or its nodes are not as meant, the old files come back. Nothing changed: nothing is done.
    """
    from ..apply import Disk, Session, account, check_open, find_directory, locked, read_target

    target = read_target(find_directory(conf_dir, os.environ, _running_config))
    loader = None if no_controller else _loader(target, restart, watch)
    who = os.environ.get("SUDO_USER") or account(os.geteuid())
    session = Session(target, loader, Disk(), who)
    if listing:
        return _list(session, as_json)
    wanted = _Wanted(yes, touch_jobs, accept_warnings, as_json)
    if rollback is None:
        path = room.inventory_path(inventory_path)
        candidate = _candidate(path, release)
        if groups is not None and not dry_run:
            _write_groups(path, groups)
    elif groups is not None:
        raise UsageError("--groups writes the inventory's groups, and --rollback takes none")
    else:
        candidate = session.earlier(rollback or None)
    if dry_run:
        return _dry_run(session, candidate, wanted)
    if not yes and not sys.stdin.isatty():
        raise UsageError("standard input is no terminal to ask on: give --yes or --dry-run")
    check_open(target)
    Disk().make_directory(target.store)
    with locked(target.store, who, wait):
        return _apply(session, candidate, wanted)


def _running_config() -> Mapping[str, str]:
    from ..slurm import CliClient

    return CliClient(os.environ).config()


def _loader(target: Target, restart: str, watch_s: float) -> Loader:
    from ..apply import Loader, Patience
    from ..slurm import CliClient, CliController

    env = {**os.environ, "SLURM_CONF": str(target.main)}
    return Loader(
        lambda: CliClient(env),
        CliController(env),
        tuple(shlex.split(restart)),
        Patience(watch_s=watch_s),
    )


def _candidate(path: Path, release: str | None) -> Candidate:
    from ..apply import check_trusted, from_inventory
    from ..inventory import load

    check_trusted(path, os.geteuid())
    inventory = load(path)
    return from_inventory(path, inventory, _release_name(release or inventory.release))


def _release_name(wanted: str) -> str:
    """Return the release to write for: that of the slurmctld here, or else of Slurm's programs.

    slurmctld tells it without a slurm.conf, which may include files that are to come.
    """
    from ..errors import SlurmNotFound
    from ..twin import installed_release

    if wanted != "auto":
        return wanted
    try:
        return installed_release()
    except SlurmNotFound:
        return common.release_name(None, wanted)


def _write_groups(path: Path, groups: Path) -> None:
    from ..inventory import load
    from ..slurmconf.groups import write_groups

    if write_groups(load(path), groups):
        tell("note", f"wrote {groups}")


def _dry_run(session: Session, candidate: Candidate, wanted: _Wanted) -> int:
    unfinished = session.unfinished()
    if unfinished:
        tell("warning", f"{unfinished}; sn apply without --dry-run repairs it first")
    plan = session.plan(candidate)
    _show(plan, session, wanted)
    if wanted.as_json:
        _print(plan, "dry-run", None, session)
    return 0 if plan.is_empty and not unfinished else 5


def _apply(session: Session, candidate: Candidate, wanted: _Wanted) -> int:
    from ..apply import WAITS

    repair = session.repair(candidate.files)
    for note in repair.notes:
        tell("note", note)
    if repair.waits:
        tell("note", _AFTER_RESTART)
        return 0
    plan = session.plan(candidate)
    _show(plan, session, wanted)
    if plan.is_empty:
        session.confirm()
        if wanted.as_json:
            _print(plan, "nothing", None, session)
        return 0
    _agree(plan, wanted)
    outcome = session.install(plan)
    if wanted.as_json:
        _print(plan, outcome.state, outcome, session)
    elif outcome.state == WAITS:
        click.echo(f"written as generation {outcome.generation}; {_AFTER_RESTART}")
    else:
        done = "installed and proven" if outcome.state == "applied" else "written, not proven,"
        click.echo(f"{done} as generation {outcome.generation}")
    return 0


_AFTER_RESTART = "now `systemctl restart slurmctld`, then `sn apply` again, which proves it"


def _agree(plan: Plan, wanted: _Wanted) -> None:
    """Ask whether to go on; raise an error where the answer is no, or nobody may say yes."""
    if plan.complaints and not wanted.accept_warnings:
        raise ConfigError(
            [Problem(Where("twin"), line, "--accept-warnings") for line in plan.complaints]
        )
    if wanted.yes:
        if plan.jobs and not wanted.touch_jobs:
            ids = ", ".join(str(job.id) for job in plan.jobs[:_SHOWN])
            raise SupernodeError(
                f"{len(plan.jobs)} running jobs are on nodes that change or go ({ids}):"
                " wait for them, or give --touch-jobs"
            )
        return
    if not click.confirm("Install this?", err=True):
        raise SupernodeError("nothing was changed")


def _show(plan: Plan, session: Session, wanted: _Wanted) -> None:
    """Print what a plan changes, for people."""
    for note in plan.candidate.notes:
        tell("warning", note)
    for line in plan.complaints:
        tell("warning", line)
    if wanted.as_json:
        return
    if plan.is_empty:
        known = ", and slurmctld runs what it says" if session.is_proving else ""
        click.echo(f"{session.target.directory}: nothing to change{known}")
        return
    click.echo(plan.change.diff, nl=False)
    click.echo("\n".join(_summary(plan, session)))


def _summary(plan: Plan, session: Session) -> Iterator[str]:
    change = plan.change
    for item in change.files:
        yield f"{item.name}: {item.kind}"
    for line in plan.stale:
        yield f"not what slurmctld runs: {line}"
    if session.is_proving:
        yield f"slurmctld needs: {plan.needs}"
    yield from (f"  {reason}" for reason in change.reasons)
    for word, hosts in (
        ("new", change.added), ("gone", change.removed), ("changed", change.altered)
    ):  # fmt: skip
        if hosts:
            yield f"nodes {word}: {hostlist.fold(hosts)}"
    if change.touched and session.is_proving:
        ids = " ".join(str(job.id) for job in plan.jobs)
        yield f"running jobs on nodes that change or go: {ids or 'none'}"
    if plan.mode is not None and plan.mode.in_foreground:
        yield f"slurmctld runs in the foreground (pid {plan.mode.pid}): a bad file would end it"
    yield from (f"- {step}" for step in session.steps(plan))


def _print(plan: Plan, state: str, outcome: Outcome | None, session: Session) -> None:
    change = plan.change
    common.print_json(
        {
            "state": state,
            "generation": outcome.generation if outcome else None,
            "directory": str(session.target.directory),
            "files": {item.name: item.kind for item in change.files},
            "needs": plan.needs,
            "reasons": list(change.reasons),
            "not_loaded": list(plan.stale),
            "nodes": {
                "new": list(change.added),
                "gone": list(change.removed),
                "changed": list(change.altered),
                "restart_slurmd": list(change.slurmds),
            },
            "jobs": [str(job.id) for job in plan.jobs],
            "complaints": list(plan.complaints),
            "steps": list(session.steps(plan)),
            "diff": change.diff,
        }
    )


def _list(session: Session, as_json: bool) -> int:
    current = session.history.current(session.target.installed)
    found = session.history.generations()
    if as_json:
        common.print_json([_record(item, item == current) for item in found])
        return 0
    if not found:
        click.echo(f"{session.target.directory}: sn apply has installed nothing yet")
        return 0
    rows = (
        (
            f"{item.number}{'*' if item == current else ''}",
            item.origin.when,
            item.origin.who,
            item.origin.release,
            item.origin.inventory[:12],
            item.state,
            item.origin.what,
        )
        for item in found
    )
    names = ("number", "date", "by", "Slurm", "inventory", "state", "from")
    common.print_table(names, rows)
    return 0


def _record(item: Generation, is_installed: bool) -> dict[str, object]:
    return {
        "number": item.number,
        "when": item.origin.when,
        "who": item.origin.who,
        "release": item.origin.release,
        "inventory_sha256": item.origin.inventory,
        "from": item.origin.what,
        "state": item.state,
        "installed": is_installed,
        "files": dict(item.hashes),
    }
