"""From a command line to a job: plan, place, compose, hand to sbatch."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from .. import hostlist
from ..errors import UsageError
from ..inventory import Inventory
from ..placement import Ask, Choice, View
from ..plan import Plan, dumps
from ..planner import Expected, expected_error
from ..slurm import JobId, SlurmClient, reservation_note
from ..slurm import options as sbatch
from .ask import DEFAULT, ask_at
from .bounds import named_hosts
from .carry import launcher_lines, plan_lines
from .commandline import CommandLine
from .compose import Component, Request, compose
from .emitted import told
from .merge import merge
from .pin import pinned
from .prepared import Prepared
from .script import Script, read_script, unread_lines, with_lines
from .search import find_choice, room_for
from .settings import Settings, of_component, option_word
from .site import Site, look
from .sources import planning_settings, sbatch_settings
from .unsaid import unsaid

MARK = "sn-submit"
"""Stands in the comment of each job, so that a job_submit plugin knows whose it is."""


def prepare(
    line: CommandLine,
    env: Mapping[str, str],
    inventory: Inventory,
    client: SlurmClient | None,
    tag: str = "",
    script: Script | None = None,
) -> Prepared:
    """Return the job for a command line; without a client nobody is asked.

    The script is read where it is not given.
    Raises ``PlanError`` if nothing fits, ``UsageError`` if the user's own options
    contradict the plan.
    """
    script = script or read_script(line.script, line.own.get("wrap"))
    parts = sbatch_settings(line, env, script)
    folder = Path(parts[0].values.get("chdir", ""))
    asked = planning_settings(line, env, script, inventory.policy.defaults, folder)
    _refuse(parts)
    site = look(inventory, client, parts)
    for words in line.components if site.release else ():
        sbatch.values(words, site.release)  # Refuses what this release does not know.
    _check_array(site, parts[0])
    ask = _asked(site, asked, parts, script)
    choice, notes = find_choice(site, ask, asked, parts)
    if asked.origins["framework"] == DEFAULT:
        asked.values["framework"] = choice.plan.framework
    notes = (*_notes(site, asked, parts), *ask.notes, *unread_lines(script), *notes)
    choice, more = told(_in_users_order(choice, ask, len(parts)))
    more = (*more, *unsaid(script, line.arguments, choice.plan))
    mark = f"{MARK}:{tag}" if tag else MARK
    request = _request(site, choice, parts, mark)
    if "pin" in line.own:
        named = {host for given in parts for host in named_hosts(given)}
        request = _pinned(request, choice, room_for(site, parts).view, named)
    carried = "carry" in line.own or inventory.slurm.carry_launcher
    filled, environment = _with_plan(script, choice.plan, carried, parts[0])
    return Prepared(
        choice=choice,
        request=request,
        options=_options(request, line, parts),
        script=filled,
        environment=environment,
        arguments=line.arguments,
        asked=asked,
        given=parts,
        tag=mark,
        notes=(*notes, *more),
        expected=_expected(inventory, choice.plan),
    )


def _asked(site: Site, asked: Settings, parts: Sequence[Settings], script: Script) -> Ask:
    """Return what is asked for; an error names the lines of the script that are not read."""
    try:
        return ask_at(site, asked, parts)
    except UsageError as error:
        raise UsageError("\n".join([str(error), *unread_lines(script)])) from error


def _expected(inventory: Inventory, plan: Plan) -> Expected | None:
    return expected_error(plan, inventory.calibration.errors) if plan.predicted else None


def _check_array(site: Site, given: Settings) -> None:
    """Refuse an index that Slurm does not take; MaxArraySize limits indexes, not their number."""
    limit = site.config.get("MaxArraySize", "")
    indexes = re.sub(r"[%:][0-9]+", "", given.values.get("array", ""))
    highest = max(map(int, re.findall(r"[0-9]{1,12}", indexes)), default=0)
    if limit.isdecimal() and highest >= int(limit):
        raise UsageError(
            f"{given.said('array')}: index {highest} is not below this site's MaxArraySize {limit}"
        )


def _notes(site: Site, asked: Settings, parts: Sequence[Settings]) -> Iterator[str]:
    yield from site.view.notes
    wanted = {name for given in parts for name in given.values.get("reservation", "").split(",")}
    for name in sorted(wanted & site.reservations.keys()):
        yield from filter(None, [reservation_note(site.reservations[name])])
    if site.release is None:
        yield "nobody was asked: all nodes count as free, and Slurm's own defaults as unset"
    if "lora-rank" in asked.values and asked.values.get("train") != "lora":
        yield f"{asked.said('lora-rank')} counts with --train lora only"


def _request(site: Site, choice: Choice, parts: Sequence[Settings], mark: str) -> Request:
    """Return what sbatch is asked for, less what the user or the site decides."""
    request = compose(choice, site.blocks, apart=len(parts) > 1)
    ours = [
        tuple(
            (name, value)
            for name, value in component
            if not site.decides(name, dict(component)["partition"])
        )
        for component in request.components
    ]
    request = merge(replace(request, components=tuple(ours)), parts, choice.slots, site)
    marked = (
        _marked(component, of_component(parts, index), mark)
        for index, component in enumerate(request.components)
    )
    return replace(request, components=tuple(marked))


def _refuse(parts: Sequence[Settings]) -> None:
    for given in parts:
        if "quiet" in given.values:
            raise UsageError(f"{given.said('quiet')}: it would hide the job's id")


def _in_users_order(choice: Choice, ask: Ask, components: int) -> Choice:
    """Return the choice with its groups bound to the components that the user wrote.

    The plan keeps its own order of ranks.
    """
    if components == 1:
        return choice
    kinds = [kind for kind, _ in ask.cards]
    groups = tuple(
        replace(group, component=kinds.index(group.name)) for group in choice.plan.groups
    )
    slots = tuple(sorted(choice.slots, key=lambda slot: kinds.index(slot.group.name)))
    return replace(choice, plan=replace(choice.plan, groups=groups), slots=slots)


def _marked(component: Component, given: Settings, mark: str) -> Component:
    said = given.values.get("comment")
    return (*component, ("comment", f"{said} {mark}" if said else mark))


def _pinned(request: Request, choice: Choice, view: View, named: Set[str]) -> Request:
    """Return the request with its nodes by name."""
    lists = [pinned(slot, view, named) for slot in choice.slots]
    if len(request.components) == 1:
        lists = [hostlist.fold(host for text in lists for host in hostlist.expand(text))]
    pairs = zip(request.components, lists, strict=True)
    components = tuple((*part, ("nodelist", hosts)) for part, hosts in pairs)
    return replace(
        request, components=components, why=f"{request.why}; pinned to {' : '.join(lists)}"
    )


def _with_plan(
    script: Script, plan: Plan, carried: bool, given: Settings
) -> tuple[Script, dict[str, str]]:
    """Return the script with the plan, or the environment that takes it to another language.

    Raises ``UsageError`` where neither can be.
    """
    text = dumps(plan)
    if script.is_shell:
        return with_lines(script, [*plan_lines(text), *(launcher_lines() if carried else ())]), {}
    first = script.text.split("\n", 1)[0]
    if carried:
        raise UsageError(
            f"{script.origin}: sn-launch travels in a shell script, this one is {first!r:.60}: "
            "wrap it in one: #!/bin/sh, then the program"
        )
    exported = given.values.get("export", "ALL").upper().split(",")
    lost = "export-file" if "export-file" in given.values else "export"
    if lost in given.values and ("ALL" not in exported or lost == "export-file"):
        raise UsageError(
            f"{given.said(lost)} keeps the plan from {script.origin}, which is no shell "
            "script: let ALL be exported, or wrap it in one: #!/bin/sh, then the program"
        )
    return script, {"SN_PLAN": text}


def _options(request: Request, line: CommandLine, parts: Sequence[Settings]) -> tuple[str, ...]:
    """Return the user's options and ours; every component restates both."""
    words: list[str] = []
    for index, component in enumerate(request.components):
        words += [":"] if index else []
        words += of_component(line.components, index)
        if index and len(parts) == 1:
            # sbatch gives the script's own lines to every component; the command shows it.
            words += _restated(parts[0], {name for name, _ in component})
        words += [option_word(name, value) for name, value in component]
    return tuple(words)


def _restated(given: Settings, ours: set[str]) -> list[str]:
    return [
        option_word(name, value)
        for name, value in given.values.items()
        if given.origins[name].startswith("#SBATCH") and name not in ours
    ]


def submit(prepared: Prepared, client: SlurmClient) -> JobId:
    """Submit a prepared job."""
    with _file(prepared) as arguments:
        return _with(prepared, client).submit(arguments, tag=prepared.tag)


def test_only(prepared: Prepared, client: SlurmClient) -> str:
    """Return what Slurm says of a job that it does not take: when and where it could run."""
    with _file(prepared) as arguments:
        return client.test_only(arguments)


def wait_for(prepared: Prepared, client: SlurmClient, submitted: Callable[[JobId], None]) -> int:
    """Submit a prepared job, say so, and return the job's exit code once it has ended."""
    with _file(prepared) as arguments:
        return _with(prepared, client).submit_and_wait(
            arguments, tag=prepared.tag, submitted=submitted
        )


def _with(prepared: Prepared, client: SlurmClient) -> SlurmClient:
    """Return the client whose submissions get the job's own variables."""
    return client.passing(prepared.environment) if prepared.environment else client


@contextmanager
def _file(prepared: Prepared) -> Iterator[list[str]]:
    """Give the words of sbatch for a job whose script lies in a file for so long.

    The file has the script's own name, so that the job is called after it; sbatch copies it.
    """
    folder = Path(tempfile.mkdtemp(prefix="sn-submit."))
    try:
        path = folder / prepared.script.name
        path.write_text(prepared.script.text, encoding="utf-8", errors="surrogateescape")
        path.chmod(0o600)
        yield [*prepared.options, str(path), *prepared.arguments]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
