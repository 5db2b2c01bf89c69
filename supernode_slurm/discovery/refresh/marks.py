"""Hosts that are away or back, the versions of what runs on hosts, and Slurm's release."""

from __future__ import annotations

from collections.abc import Iterable

from ... import hostlist
from ..live import SOURCE
from ..slurm_conf import RELEASE
from .changes import Log, of_hosts
from .names import joined
from .sheet import Sheet, drop, put
from .spans import Item, new
from .told import Told


def away_now(sheet: Sheet, told: Told) -> frozenset[str]:
    """Return the hosts that are absent by the inventory, or by what sources say."""
    marked = {host for item in sheet.inventory.upkeep.absent for host in item.hosts}
    back = marked & (told.seen.keys() - told.silent - told.gone)
    return frozenset((marked | told.gone) - back)


def write_absent(sheet: Sheet, told: Told, away: frozenset[str], log: Log) -> None:
    """Mark hosts that are away, since today, and take the marks of those that are back."""
    marked = {host for item in sheet.inventory.upkeep.absent for host in item.hosts}
    back = [host for host in told.seen if host in marked and host not in away]
    ours = (host for domain in sheet.inventory.domains for host in domain.hosts)
    gone = [host for host in ours if host in away and host not in marked]
    if back:
        origin = (place for host in back for place in told.seen[host].origin)
        log.changed(of_hosts(back, "absent"), "marked", None, origin)
    if gone:
        _mark(sheet, gone)
        log.changed(of_hosts(gone, "absent"), None, f"since {sheet.day}", ())
    if back:
        _unmark(sheet, back)


def _mark(sheet: Sheet, gone: list[str]) -> None:
    listed = sheet.list_of("absent")
    same = next((item for item in listed if item.text("since") == sheet.day), None)
    if same is not None:
        put(same, "hosts", joined(hostlist.expand(same.text("hosts")), gone))
    else:
        listed.append(new({"hosts": hostlist.fold(gone), "since": sheet.day}))


def _unmark(sheet: Sheet, back: list[str]) -> None:
    listed = sheet.list_of("absent")
    for item in list(listed):
        names = hostlist.expand(item.text("hosts"))
        left = [host for host in names if host not in back]
        if not left:
            listed.remove(item)
        elif left != names:
            put(item, "hosts", hostlist.fold(left, sort=False))
    if not listed:
        drop(sheet.root, "absent")


def write_release(sheet: Sheet, told: Told, log: Log) -> None:
    """Write the release that runs, where the inventory names another one."""
    said = told.room.settings.get(RELEASE)
    old = sheet.inventory.slurm.release
    if said is None or said.where.file != SOURCE or old in ("auto", said.text):
        return
    slurm = sheet.root.at("slurm")
    if slurm is not None:
        put(slurm, "release", said.text)
        log.changed("slurm.release", old, said.text, [said.where])


def write_versions(sheet: Sheet, told: Told, known: Iterable[str], log: Log) -> None:
    """Write the versions that probes found; hosts that nobody asked keep what they had."""
    hosts = set(known)
    said: dict[str, dict[str, str]] = {}
    for item in told.imported.inventory.upkeep.installed:
        mine = {host: item.version for host in item.hosts if host in hosts}
        said.setdefault(item.component, {}).update(mine)
    for component, found in said.items():
        if found:
            _component(sheet, component, found, log, told)


def _component(sheet: Sheet, component: str, found: dict[str, str], log: Log, told: Told) -> None:
    root = sheet.root.at("versions")
    if root is None or not isinstance(root.value, dict):
        put(sheet.root, "versions", {})
        root = sheet.root.at("versions")
        if root is not None:
            root.fold = True
    if root is None or not isinstance(root.value, dict):
        return
    if component not in root.value:
        put(root, component, {})
        root.value[component].fold = True
    versions = root.value[component]
    if not isinstance(versions.value, dict):
        return
    before = {
        host: version
        for version in versions.value
        for host in hostlist.expand(versions.text(version))
    }
    moved: dict[tuple[str | None, str], list[str]] = {}
    for host, version in found.items():
        if before.get(host) != version:
            moved.setdefault((before.get(host), version), []).append(host)
    for (old, version), hosts in moved.items():
        if old is not None:
            _take(versions, old, hosts)
        there = versions.text(version)
        names = hostlist.expand(there) if there else []
        put(versions, version, joined(names, hosts) if names else hostlist.fold(hosts))
        origin = (place for host in hosts for place in told.seen[host].origin)
        log.changed(of_hosts(hosts, f"versions.{component}"), old, version, origin)


def _take(versions: Item, version: str, hosts: list[str]) -> None:
    left = [host for host in hostlist.expand(versions.text(version)) if host not in hosts]
    if left:
        put(versions, version, hostlist.fold(left, sort=False))
    else:
        drop(versions, version)
