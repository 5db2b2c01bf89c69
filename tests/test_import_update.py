"""An inventory is edited in place: what sources measure changes, what a person wrote stays."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm import hostlist
from supernode_slurm.data import data_dir
from supernode_slurm.discovery.refresh import Options, Updated, update
from supernode_slurm.inventory import Inventory, NodeClass, load, loads
from supernode_slurm.slurm import CliClient
from supernode_slurm.slurmconf import RELEASES, Release, generate, write

INVENTORIES = sorted((Path(str(data_dir("topology_conf"))) / "inventories").glob("*.yaml"))
DAY = date(2026, 8, 22)


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def updated(text: str, *sources: Path | str, complete: bool = False, day: date = DAY) -> Updated:
    options = Options(day, {}, complete)
    return update(text, "site.yaml", [str(item) for item in sources], options, nobody)


def again_and_again(text: str, *sources: Path, complete: bool = False) -> Updated:
    """Return an update that a second one of the same sources adds nothing to."""
    found = updated(text, *sources, complete=complete)
    loads(found.new)
    twice = updated(found.new, *sources, complete=complete)
    assert twice.new == found.new
    assert twice.changes == ()
    return found


def lines(found: Updated) -> list[str]:
    """Return the lines that are others, with their sign."""
    before, after = found.old.splitlines(), found.new.splitlines()
    diff = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    return [line for line in diff if line[0] in "+-"]


def node_of(room: Inventory, host: str) -> NodeClass:
    return next(nodes for nodes in room.node_classes if host in nodes.hosts)


def inventory(stem: str) -> str:
    return next(path for path in INVENTORIES if path.stem == stem).read_text(encoding="utf-8")


# Nothing changed


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "the-site-s"])
@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_nothing_changed_is_the_same_bytes(
    path: Path, release: str, is_ours: bool, tmp_path: Path
) -> None:
    room = load(path)
    files_of(room, RELEASES[release], tmp_path)
    if not is_ours:
        for file in tmp_path.iterdir():
            kept = [x for x in file.read_text().splitlines(True) if not x.startswith("#")]
            file.write_text("".join(kept))
    for eol in ("\n", "\r\n"):
        text = path.read_text(encoding="utf-8").replace("\n", eol)
        found = updated(text, tmp_path)
        assert found.new == text
        assert found.changes == ()


def files_of(room: Inventory, release: Release, folder: Path) -> None:
    write(generate(room, release), folder)
    conf = f"ClusterName={room.cluster}\nInclude supernode.conf\n"
    (folder / "slurm.conf").write_text(conf, encoding="utf-8")


def test_files_of_an_older_inventory_are_no_evidence(tmp_path: Path) -> None:
    text = inventory("lab")
    files_of(loads(text), RELEASES["24.11"], tmp_path)
    newer = text.replace("memory: 250 GiB", "memory: 240 GiB").replace("n[01-08]", "n[01-09]")
    newer = newer.replace('sw2: ["n[05-08]"', 'sw2: ["n[05-09]"')
    assert updated(newer, tmp_path).new == newer
    moved = text.replace('sw1: ["n[01-04]"', 'sw1: ["n[01-03]"')
    moved = moved.replace("n[05-08]", "n[04-08]").replace("h100-pcie: 2", "h100-pcie: 1")
    assert updated(moved, tmp_path).new == moved


# What machines are


SITE = """\
# 机房 A, written by hand
version: 1
cluster: site
fabrics:
  - {name: ib, kind: fat-tree, switches: {leaf1: ["sn[1-3]"], leaf2: [p], top: ["leaf[1-2]"]}}
racks:
  - {name: "r[1-3]", hosts: "h{n}-[01-04]", power: 60 kW}
supernodes:
  # three of one delivery
  - name: sn[1-3]    # the class
    interconnect: {kind: switch, bandwidth: 450 GB/s}   # measured in May
    nodes: {hosts: "h{n}-[01-04]",   devices: {h100-sxm: 8},
            sockets: 2, cores: 48, memory: 1900 GiB}
pools:
- name: p
  nodes:
    hosts: a[01-08]  # the old ones
    devices:
      a100-sxm-80g: 8
    sockets: 2
    cores: 64
    memory: 1000 GiB
partitions:
  main: {supernodes: [sn1, sn2, sn3], pools: [p], default: true}
policy: {price: {h100-sxm: 30 CNY/h}}
"""


@dataclass(frozen=True)
class Machine:
    """A node as it is."""

    cards: str
    count: int
    cores: int
    memory_gib: int
    features: tuple[str, ...] = ()

    def line(self, hosts: Sequence[str]) -> str:
        text = f"NodeName={hostlist.fold(hosts)} Sockets=2 CoresPerSocket={self.cores}"
        text += f" RealMemory={self.memory_gib * 1024}"
        text += f" Gres=gpu:{self.cards}:{self.count}" if self.count else ""
        return text + (f" Feature={','.join(self.features)}" if self.features else "")


H100, A100 = Machine("h100", 8, 48, 1900), Machine("a100", 8, 64, 1000)
HOSTS = {f"h{n}-0{i}": H100 for n in (1, 2, 3) for i in (1, 2, 3, 4)}
HOSTS |= {f"a0{i}": A100 for i in range(1, 9)}
LEAVES = {host: "leaf1" if host[0] == "h" else "leaf2" for host in HOSTS}


def slurm_conf(
    folder: Path, hosts: dict[str, Machine], leaves: dict[str, str] | None = None
) -> Path:
    """Write what a site with these machines has, all of them in one partition."""
    kinds: dict[Machine, list[str]] = {}
    for host, machine in hosts.items():
        kinds.setdefault(machine, []).append(host)
    text = ["ClusterName=site", "GresTypes=gpu"]
    text += ["TopologyPlugin=topology/tree"] if leaves else []
    text += [machine.line(mine) for machine, mine in kinds.items()]
    text += [f"PartitionName=main Nodes={hostlist.fold(hosts)} Default=YES", ""]
    (folder / "slurm.conf").write_text("\n".join(text))
    if leaves:
        under: dict[str, list[str]] = {}
        for host in hosts:
            under.setdefault(leaves[host], []).append(host)
        tree = [f"SwitchName={name} Nodes={hostlist.fold(mine)}" for name, mine in under.items()]
        tree += [f"SwitchName=top Switches={hostlist.fold(under)}", ""]
        (folder / "topology.conf").write_text("\n".join(tree))
    return folder


def test_a_node_that_lost_a_card_leaves_its_class(tmp_path: Path) -> None:
    changed = {**HOSTS, "h2-03": replace(H100, count=7), "a05": replace(A100, count=7)}
    found = again_and_again(SITE, slurm_conf(tmp_path, changed))
    assert lines(found) == [
        "-  - name: sn[1-3]    # the class",
        "+  - name: sn[1,3]    # the class",
        "+  # sn import 2026-08-22: sn2 differs from its class",
        "+  - name: sn2",
        "+    interconnect: {kind: switch, bandwidth: 450 GB/s}",
        "+    nodes:",
        '+      - hosts: "h2-[01-02,04]"',
        "+        devices: {h100-sxm: 8}",
        "+        sockets: 2",
        "+        cores: 48",
        "+        memory: 1900 GiB",
        "+      # sn import 2026-08-22: h2-03: devices 8 h100-sxm -> 7 h100-sxm",
        "+      - hosts: h2-03",
        "+        devices: {h100-sxm: 7}",
        "+        sockets: 2",
        "+        cores: 48",
        "+        memory: 1900 GiB",
        "-    hosts: a[01-08]  # the old ones",
        "-    devices:",
        "-      a100-sxm-80g: 8",
        "-    sockets: 2",
        "-    cores: 64",
        "-    memory: 1000 GiB",
        "+    - hosts: a[01-04,06-08]  # the old ones",
        "+      devices:",
        "+        a100-sxm-80g: 8",
        "+      sockets: 2",
        "+      cores: 64",
        "+      memory: 1000 GiB",
        "+    # sn import 2026-08-22: a05: devices 8 a100-sxm-80g -> 7 a100-sxm-80g",
        "+    - hosts: a05",
        "+      devices: {a100-sxm-80g: 7}",
        "+      sockets: 2",
        "+      cores: 64",
        "+      memory: 1000 GiB",
    ]
    assert [str(change) for change in found.changes] == [
        "hosts.h2-03.devices: 8 h100-sxm -> 7 h100-sxm (slurm.conf:4)",
        "hosts.a05.devices: 8 a100-sxm-80g -> 7 a100-sxm-80g (slurm.conf:6)",
    ]
    healed = again_and_again(found.new, slurm_conf(tmp_path, HOSTS))
    assert lines(updated(SITE, tmp_path)) == []
    assert "sn import" not in healed.new
    assert "name: sn[1-3]    # the class" in healed.new
    assert "hosts: a[01-08]  # the old ones" in healed.new


def test_what_all_nodes_of_a_class_are_changes_in_place(tmp_path: Path) -> None:
    more = replace(H100, memory_gib=2000, features=("new",))
    changed = {host: more if host[0] == "h" else kind for host, kind in HOSTS.items()}
    found = again_and_again(SITE, slurm_conf(tmp_path, changed))
    assert lines(found) == [
        "-            sockets: 2, cores: 48, memory: 1900 GiB}",
        "+            sockets: 2, cores: 48, memory: 2000 GiB, features: [new]}",
    ]


def test_a_vanished_node_is_marked_and_loses_its_mark_when_it_is_back(tmp_path: Path) -> None:
    left = {host: kind for host, kind in HOSTS.items() if host not in ("a03", "h1-02")}
    found = again_and_again(SITE, slurm_conf(tmp_path, left))
    assert lines(found) == ["+absent:", '+  - {hosts: "a03,h1-02", since: "2026-08-22"}']
    del left["a04"]
    later = updated(found.new, slurm_conf(tmp_path, left), day=date(2026, 9, 1))
    assert later.new.endswith('  - {hosts: a04, since: "2026-09-01"}\n')
    left["a03"] = A100
    back = updated(later.new, slurm_conf(tmp_path, left), day=date(2026, 9, 2))
    marks = ['{hosts: "h1-02", since: "2026-08-22"}', '{hosts: a04, since: "2026-09-01"}']
    assert back.new.endswith("".join(["absent:\n", *(f"  - {mark}\n" for mark in marks)]))
    assert [str(change) for change in back.changes] == ["hosts.a03.absent: no more (slurm.conf:4)"]
    assert again_and_again(back.new, slurm_conf(tmp_path, HOSTS)).new == SITE


def test_new_nodes_join_what_they_fit(tmp_path: Path) -> None:
    more = {f"h{n}-05": H100 for n in (1, 2, 3)} | {"a09": A100, "a10": A100}
    found = again_and_again(SITE, slurm_conf(tmp_path, {**HOSTS, **more}))
    assert (
        lines(found)
        == [
            '-  - {name: "r[1-3]", hosts: "h{n}-[01-04]", power: 60 kW}',
            '+  - {name: r1, hosts: "h1-[01-05]", power: 60 kW}',
        ]
        or '"h{n}-[01-05]"' in found.new
    )
    room = loads(found.new)
    assert [len(item.hosts) for item in room.supernodes] == [5, 5, 5]
    assert room.domain("p").hosts == tuple(f"a{i:02d}" for i in range(1, 11))
    assert set(room.partition("main").hosts) == {*HOSTS, *more}
    assert {rack.name: rack.hosts[-1] for rack in room.racks} == {
        "r1": "h1-05", "r2": "h2-05", "r3": "h3-05",
    }  # fmt: skip


def test_a_supernode_of_new_nodes_joins_its_class(tmp_path: Path) -> None:
    more = {f"h4-0{i}": H100 for i in range(1, 5)}
    leaves = {**LEAVES, **dict.fromkeys(more, "leaf1")}
    found = again_and_again(SITE, slurm_conf(tmp_path, {**HOSTS, **more}, leaves))
    room = loads(found.new)
    assert room.domain("sn4").hosts == tuple(more)
    assert {rack.name for rack in room.racks} == {"r1", "r2", "r3", "r4"}
    assert lines(found) == [
        "-  - {name: ib, kind: fat-tree, switches: "
        '{leaf1: ["sn[1-3]"], leaf2: [p], top: ["leaf[1-2]"]}}',
        "+  - {name: ib, kind: fat-tree, switches: "
        '{leaf1: ["sn[1-4]"], leaf2: [p], top: ["leaf[1-2]"]}}',
        '-  - {name: "r[1-3]", hosts: "h{n}-[01-04]", power: 60 kW}',
        '+  - {name: "r[1-4]", hosts: "h{n}-[01-04]", power: 60 kW}',
        "-  - name: sn[1-3]    # the class",
        "+  - name: sn[1-4]    # the class",
        "-  main: {supernodes: [sn1, sn2, sn3], pools: [p], default: true}",
        "+  main: {supernodes: [sn1, sn2, sn3, sn4], pools: [p], default: true}",
    ]


def test_nodes_of_a_new_kind_become_a_pool(tmp_path: Path) -> None:
    more = dict.fromkeys(("m1", "m2"), Machine("l40s", 4, 32, 500))
    found = again_and_again(SITE, slurm_conf(tmp_path, {**HOSTS, **more}))
    room = loads(found.new)
    assert room.domain("pool-l40s").hosts == ("m1", "m2")
    assert "# sn import 2026-08-22: new: m[1-2]" in found.new
    assert room.partition("main").members[-1] == "pool-l40s"


def test_a_node_under_another_switch_is_moved_there(tmp_path: Path) -> None:
    leaves = {**LEAVES, "a07": "leaf1", "a08": "leaf3"}
    found = again_and_again(SITE, slurm_conf(tmp_path, HOSTS, leaves))
    assert (
        'switches: {leaf1: ["sn[1-3]", a07], leaf2: ["a[01-06]"], top: ["leaf[1-3]"], leaf3: [a08]}'
        in found.new
    )
    assert loads(found.new).fabrics[0].hosts == set(HOSTS)
    healed = again_and_again(found.new, slurm_conf(tmp_path, HOSTS, LEAVES))
    room = loads(healed.new)
    assert [switch.name for switch in room.fabrics[0].switches] == ["leaf1", "leaf2", "top"]


def test_what_a_person_wrote_is_told_and_stays(tmp_path: Path) -> None:
    conf = slurm_conf(tmp_path, HOSTS) / "slurm.conf"
    conf.write_text(conf.read_text().replace("Default=YES", "MaxTime=1:00:00 PriorityTier=3"))
    found = updated(SITE, tmp_path)
    assert found.new == SITE
    assert [problem.what for problem in found.problems] == [
        "max_time of partition main: no limit here, 1:00:00 in Slurm",
        "partition main is the default here, no default in Slurm",
        "PriorityTier of partition main: none here, 3 in Slurm",
    ]


def test_a_partition_holds_what_slurm_s_holds(tmp_path: Path) -> None:
    conf = slurm_conf(tmp_path, HOSTS) / "slurm.conf"
    conf.write_text(
        conf.read_text()
        .replace("h3-[01-04]", "h3-01")
        .replace("NodeName=h3-01", "NodeName=h3-[01-04]")
    )
    text = conf.read_text().splitlines()
    text = [x.replace("h3-01 ", "h3-[01-04] ") if x.startswith("NodeName") else x for x in text]
    conf.write_text("\n".join(text) + "\n")
    found = again_and_again(SITE, tmp_path)
    assert lines(found) == [
        "-  main: {supernodes: [sn1, sn2, sn3], pools: [p], default: true}",
        "+  main: {supernodes: [sn1, sn2], pools: [p], default: true, hosts: [h3-01]}",
    ]


# Any room, any change


CARDS = ("h100", "a100")
STYLES = (
    "    nodes: {{hosts: '{hosts}', devices: {{{card}: {count}}}, sockets: 2, cores: {cores},"
    " memory: {memory} GiB}}\n",
    "    nodes:  # of {hosts}\n      hosts: {hosts!r}\n      # cards\n      devices: {{{card}:"
    " {count}}}\n      sockets: 2\n      cores: {cores}   # each\n      memory: {memory} GiB\n",
    '    nodes:\n    - hosts: "{hosts}"\n      devices:\n        {card}: {count}  # 卡\n'
    '      sockets: 2\n      cores: {cores}\n      memory: "{memory} GiB"\n',
)
NAMES = {"h100": "h100-sxm", "a100": "a100-sxm-80g"}


@st.composite
def sites(draw: st.DrawFn) -> tuple[str, dict[str, Machine]]:
    """Return an inventory in the styles that people write, and its machines."""
    hosts: dict[str, Machine] = {}
    held: dict[str, list[str]] = {}
    sections = []
    for kind in ("supernodes", "pools"):
        sections.append(f"{kind}:\n")
        for index in range(draw(st.integers(1, 2))):
            card = draw(st.sampled_from(CARDS))
            machine = Machine(card, 8, draw(st.sampled_from((32, 48))), 1000)
            size, count = draw(st.integers(2, 6)), draw(st.integers(1, 3))
            stem = f"{kind[0]}{index}x"
            style = draw(st.sampled_from(STYLES))
            if kind == "supernodes":
                name = f"c{index}s[1-{count}]" if count > 1 else f"c{index}s1"
                pattern = f"{stem}{{n}}-[01-0{size}]" if count > 1 else f"{stem}1-[01-0{size}]"
                names = [f"{stem}{n}-0{i}" for n in range(1, count + 1) for i in range(1, size + 1)]
                link = draw(st.sampled_from(("switch", "ring")))
                head = f"  - name: {name}\n    interconnect: {{kind: {link}, bandwidth: 9 GB/s}}\n"
            else:
                name, pattern = f"p{index}", f"{stem}[1-{size}]"
                names = [f"{stem}{i}" for i in range(1, size + 1)]
                head = f"  - name: {name}  # a pool\n"
            held.setdefault(kind, []).append(name)
            hosts |= dict.fromkeys(names, machine)
            sections.append(
                head
                + style.format(
                    hosts=pattern,
                    card=NAMES[card],
                    count=8,
                    cores=machine.cores,
                    memory=machine.memory_gib,
                )
            )
    text = "# 机房\nversion: 1\ncluster: site\n" + "".join(sections)
    lists = "".join(f"    {kind}: {names}\n" for kind, names in held.items())
    text += f"partitions:\n  main:\n{lists}    default: true\n"
    text = text.replace("\n", draw(st.sampled_from(("\n", "\r\n"))))
    return text, hosts


@st.composite
def changes(draw: st.DrawFn, hosts: dict[str, Machine]) -> dict[str, Machine]:
    """Return machines of which some changed, some are gone, and some are new."""
    found = dict(hosts)
    for host in draw(st.lists(st.sampled_from(sorted(hosts)), max_size=5, unique=True)):
        choice = draw(st.integers(0, 4))
        if choice == 0:
            del found[host]
        elif choice == 1:
            found[host] = replace(found[host], count=draw(st.integers(1, 7)))
        elif choice == 2:
            found[host] = replace(found[host], memory_gib=draw(st.sampled_from((900, 1500))))
        elif choice == 3:
            found[host] = replace(found[host], features=("f1",))
        else:
            found[host] = replace(
                found[host], cards="h100" if found[host].cards == "a100" else "a100"
            )
    for stem in draw(st.lists(st.sampled_from(("p0x", "new", "s0x1-0")), max_size=2, unique=True)):
        kinds = [kind for host, kind in hosts.items() if host.startswith(stem)] or [A100]
        found |= {f"{stem}{n}": kinds[0] for n in (7, 8)}
    return found or dict(hosts)


def is_machine(nodes: NodeClass, machine: Machine) -> bool:
    cards = {item.accelerator: item.count for item in nodes.devices}
    return (cards, nodes.cores, nodes.memory_mib, nodes.features) == (
        {NAMES[machine.cards]: machine.count},
        machine.cores,
        machine.memory_gib * 1024,
        machine.features,
    )


@settings(max_examples=60)
@given(sites(), st.data())
def test_any_change_of_any_site_is_written_once_and_for_all(
    site: tuple[str, dict[str, Machine]], data: st.DataObject
) -> None:
    text, hosts = site
    with tempfile.TemporaryDirectory() as folder:
        same = updated(text, slurm_conf(Path(folder), hosts))
        assert (same.new, same.changes) == (text, ())
        changed = data.draw(changes(hosts))
        found = again_and_again(text, slurm_conf(Path(folder), changed))
        room = loads(found.new)
        known = {host: nodes for nodes in room.node_classes for host in nodes.hosts}
        refused = " ".join(problem.what for problem in found.problems)
        for host, machine in changed.items():
            if host in known:
                assert is_machine(known[host], machine), host
            else:
                assert host not in hosts
                assert host in refused
        absent = {host for item in room.upkeep.absent for host in item.hosts}
        assert absent == hosts.keys() - changed.keys()
        for line in text.splitlines():
            if "卡" not in line:  # which goes with its kind of card
                assert line.partition("#")[2] in found.new
        assert {host for item in room.partitions for host in item.hosts} >= hosts.keys()
        healed = again_and_again(found.new, slurm_conf(Path(folder), {**changed, **hosts}))
        room = loads(healed.new)
        known = {host: nodes for nodes in room.node_classes for host in nodes.hosts}
        assert all(is_machine(known[host], machine) for host, machine in hosts.items())
        assert room.upkeep.absent == ()
        before = loads(text)
        for item in before.domains:
            assert set(item.hosts) <= set(room.domain(item.name).hosts)


@pytest.mark.parametrize("release", ["22.05", "26.05"])
@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_each_example_takes_a_change_and_heals(path: Path, release: str, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    room = loads(text)
    files_of(room, RELEASES[release], tmp_path)
    for file in tmp_path.iterdir():
        kept = [line for line in file.read_text().splitlines(True) if not line.startswith("#")]
        file.write_text("".join(kept))
    nodes = tmp_path / "supernode-nodes.conf"
    before = nodes.read_text()
    for domain in room.domains:
        host = domain.hosts[len(domain.hosts) // 2]
        nodes.write_text(_with_memory(before, host, 123 * 1024))
        found = again_and_again(text, tmp_path)
        changed = loads(found.new)
        assert node_of(changed, host).memory_mib == 123 * 1024
        others = {h: n for n in changed.node_classes for h in n.hosts if h != host}
        assert all(
            others[h].memory_mib == n.memory_mib
            for n in room.node_classes
            for h in n.hosts
            if h != host
        )
        assert [str(change.path) for change in found.changes] == [f"hosts.{host}.memory"]
        nodes.write_text(before)
        healed = loads(again_and_again(found.new, tmp_path).new)
        assert {d.name: set(d.hosts) for d in healed.domains} == {
            d.name: set(d.hosts) for d in room.domains
        }
        assert sum(len(d.nodes) for d in healed.domains) == sum(len(d.nodes) for d in room.domains)
        if "ring" in text or "torus" in text:
            assert [d.hosts for d in healed.domains] == [d.hosts for d in room.domains]


def _with_memory(text: str, host: str, mib: int) -> str:
    """Return NodeName lines in which one host has another memory."""
    found = []
    for line in text.splitlines():
        name, *rest = line.split()
        hosts = hostlist.expand(name.partition("=")[2])
        if host in hosts:
            own = [word for word in rest if not word.startswith("RealMemory=")]
            found.append(" ".join([f"NodeName={host}", *own, f"RealMemory={mib}"]))
            hosts.remove(host)
        if hosts:
            found.append(" ".join([f"NodeName={hostlist.fold(hosts, sort=False)}", *rest]))
    return "\n".join(found) + "\n"
