"""Whatever the room, its files keep the rules that slurmctld dies of or silently misreads."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm import hostlist
from supernode_slurm.inventory import Inventory, loads
from supernode_slurm.slurmconf import RELEASES, Generated, Release, generate

KINDS = ("switch", "clos", "full-mesh", "fat-tree", "ring", "torus")


@st.composite
def rooms(draw: st.DrawFn) -> Inventory:
    """Return a room of a few supernodes and pools on up to two fabrics."""
    names: list[str] = []
    ends: dict[str, tuple[str, str]] = {}
    sections = ["supernodes:"]
    for index in range(draw(st.integers(1, 3))):
        count, nodes = draw(st.integers(1, 5)), draw(st.integers(1, 20))
        first_last = {
            f"c{index}sn{n}": (f"c{index}n{n}-1", f"c{index}n{n}-{nodes}")
            for n in range(1, count + 1)
        }
        names += first_last
        ends |= first_last
        sections.append(
            f"  - name: c{index}sn[1-{count}]\n"
            f"    interconnect: {{kind: {draw(st.sampled_from(KINDS))}, bandwidth: 9 GB/s}}\n"
            f"    spares: {draw(st.integers(0, nodes - 1))}\n"
            f"    nodes: {{hosts: 'c{index}n{{n}}-[1-{nodes}]', devices: {{h100: 8}}, sockets: 2,"
            " cores: 8, memory: 9 GiB, cloud: " + draw(st.sampled_from(("true", "false"))) + "}"
        )
    pools = [f"p{index}" for index in range(draw(st.integers(0, 2)))]
    for section, hosts in (("pools", pools), ("foreign", ["f1"] * draw(st.integers(0, 1)))):
        sections += [f"{section}:"] if hosts else []
        for name in hosts:
            host = f"{name}-[1-{draw(st.integers(1, 9))}]"
            shape = f"nodes: {{hosts: '{host}', sockets: 1, cores: 4, memory: 9 GiB}}"
            sections.append(
                f"  - {{name: {name}, {shape if section == 'pools' else f'hosts: {host!r}'}}}"
            )
    fabrics = draw(st.integers(0, 2))
    sections += ["fabrics:"] if fabrics else []
    for number in range(fabrics):
        leaves = draw(st.integers(1, 3))
        mine = [name for i, name in enumerate([*names, *pools]) if i % fabrics == number]
        below = [(leaf, mine[leaf::leaves]) for leaf in range(leaves)]
        lines = [f"f{number}leaf{leaf}: {held}" for leaf, held in below if held]
        if lines:
            roots = [line.partition(":")[0] for line in lines]
            lines.append(f"f{number}spine: {roots}")
            switches = "".join(f"      {line}\n" for line in lines)
            sections.append(
                f"  - name: net{number}\n    kind: fat-tree\n"
                f"    rails: {{count: 8, bandwidth: 400 Gb/s}}\n    switches:\n{switches}"
            )
    if sections[-1] == "fabrics:":
        sections.pop()
    sections.append("partitions:")
    for number in range(draw(st.integers(1, 4))):
        held = draw(st.lists(st.sampled_from([*names, *pools]), min_size=1, unique=True))
        sn, rest = [n for n in held if n in names], [n for n in held if n in pools]
        sections.append(f"  part{number}: {{supernodes: {sn}, pools: {rest}}}")
    if draw(st.booleans()):
        held = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        hosts = sorted(
            {host for name in held for host in draw(st.sampled_from([ends[name], ends[name][:1]]))}
        )
        sections.append(f"  parts: {{hosts: {hosts}}}")
    return loads("version: 1\ncluster: c\n" + "\n".join(sections) + "\n")


@settings(max_examples=200)
@given(rooms(), st.sampled_from(list(RELEASES.values())))
def test_files_keep_the_rules(room: Inventory, release: Release) -> None:
    generated = generate(room, release)
    assert generated == generate(room, release)
    hosts = {host for domain in room.domains for host in domain.hosts}
    nodes = re.findall(r"^NodeName=(\S+)", generated.files["supernode-nodes.conf"], re.M)
    listed = [host for text in nodes for host in hostlist.expand(text)]
    assert sorted(listed) == sorted(hosts)
    assert not re.search(r"=(\s|$)", "".join(uncommented(t) for t in generated.files.values()))
    partitions = dict(
        re.findall(
            r"^PartitionName=(\S+) (.*)$", generated.files["supernode-partitions.conf"], re.M
        )
    )
    found = topologies(generated, release)
    for partition in room.partitions:
        fields = dict(word.split("=", 1) for word in partitions[partition.name].split())
        assert set(hostlist.expand(fields["Nodes"])) == set(partition.hosts)
        name = fields.get("Topology", "default")
        assert kind_of(found[name]) == generated.kinds[partition.name]
        if name != "default":
            assert set(partition.hosts) <= set(nodes_of(found[name]))
        if kind_of(found[name]) in ("block", "ring", "torus3d"):
            held = set(nodes_of(found[name])).intersection(partition.hosts)
            assert len({network_of(room, host) for host in held}) <= 1, "networks joined"
    known = hosts | {host for item in room.foreign for host in item.hosts}
    for topology in found.values():
        check(topology, release, room, known)


def network_of(room: Inventory, host: str) -> str:
    """Return what joins a host to others: one network where none is declared."""
    fabric = room.fabric_of(host)
    if fabric or not room.fabrics:
        return fabric.name if fabric else ""
    items = (*room.domains, *room.foreign)
    return next(f"none {item.name}" for item in items if host in item.hosts)


def uncommented(text: str) -> str:
    return "".join(line for line in text.splitlines(True) if not line.lstrip().startswith("#"))


def topologies(generated: Generated, release: Release) -> dict[str, dict[str, Any]]:
    """Return the topologies of either file, in the shape of topology.yaml."""
    if release.yaml:
        text = generated.files["topology.yaml"]
        assert release.lone_4096 or len(text.encode()) % 4096
        return {item["topology"]: item for item in yaml.safe_load(text)}
    text = generated.files["topology.conf"]
    switches = [
        {"switch": name, {"Nodes": "nodes", "Switches": "children"}[key]: held}
        for name, key, held in re.findall(r"^SwitchName=(\S+) (\w+)=(\S+)$", text, re.M)
    ]
    if switches:
        return {"default": {"tree": {"switches": switches}}}
    blocks = [
        {"block": name, "nodes": held}
        for name, held in re.findall(r"^BlockName=(\S+) Nodes=(\S+)$", text, re.M)
    ]
    sizes = re.findall(r"^BlockSizes=(\S+)$", text, re.M)
    assert bool(sizes) != release.exact_blocks
    levels = [int(size) for size in sizes[0].split(",")] if sizes else []
    return {"default": {"block": {"blocks": blocks, "block_sizes": levels}}}


def kind_of(topology: dict[str, Any]) -> str:
    kinds = set(topology) & {"tree", "block", "flat", "ring", "torus3d"}
    assert len(kinds) == 1
    return kinds.pop()


def nodes_of(topology: dict[str, Any]) -> list[str]:
    body = topology[kind_of(topology)]
    parts = [] if body is True else next(v for k, v in body.items() if isinstance(v[0], dict))
    return [host for part in parts if "nodes" in part for host in hostlist.expand(part["nodes"])]


def check(topology: dict[str, Any], release: Release, room: Inventory, known: set[str]) -> None:
    kind = kind_of(topology)
    assert kind in release.topologies
    held = nodes_of(topology)
    assert len(held) == len(set(held)), "a node in two leaves or blocks: slurmctld is silent"
    assert set(held) <= known
    body = topology[kind]
    if kind == "tree":
        check_tree(body["switches"], room, known - set(held))
    elif kind == "block":
        check_blocks(body["blocks"], body["block_sizes"], release)
    elif kind == "ring":
        assert all(len(hostlist.expand(ring["nodes"])) <= 16 for ring in body["rings"])
    elif kind == "torus3d":
        for torus in body["toruses"]:
            assert math.prod(torus["dims"].values()) == len(hostlist.expand(torus["nodes"]))


def check_tree(switches: list[dict[str, str]], room: Inventory, missing: set[str]) -> None:
    assert not missing, "a node in no switch gets no job of several nodes"
    seen: set[str] = set()
    parent: dict[str, str] = {}
    for switch in switches:
        assert switch["switch"] not in seen
        assert ("nodes" in switch) != ("children" in switch)
        for child in hostlist.expand(switch["children"]) if "children" in switch else ():
            assert child in seen, "children stand before their parents"
            assert child not in parent
            parent[child] = switch["switch"]
        seen.add(switch["switch"])
    roots: dict[str, set[str]] = {}
    for switch in switches:
        top = switch["switch"]
        while top in parent:
            top = parent[top]
        for host in hostlist.expand(switch["nodes"]) if "nodes" in switch else ():
            roots.setdefault(top, set()).add(network_of(room, host))
    assert all(len(names) == 1 for names in roots.values()), "networks that do not meet, joined"
    assert len(set.union(*roots.values())) == len(roots), "a network that is parted"


def check_blocks(blocks: list[dict[str, str]], sizes: list[int], release: Release) -> None:
    counts = [len(hostlist.expand(b["nodes"])) if "nodes" in b else 0 for b in blocks]
    base = sizes[0] if sizes else counts[0]
    assert len({block["block"] for block in blocks}) == len(blocks)
    assert any(counts)
    for size in sizes:
        times, rest = divmod(size, base)
        assert rest == 0
        assert times & (times - 1) == 0
        assert times <= 1 << 15
    if release.exact_blocks:
        assert set(counts) == {base}
    elif not release.small_blocks:
        assert min(counts) >= base
