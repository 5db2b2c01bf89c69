"""Topologies: what each release can hold, in which order, and what it loses is said."""

from __future__ import annotations

import math
import re
from itertools import product

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm import hostlist
from supernode_slurm.inventory import Inventory, loads
from supernode_slurm.slurmconf import RELEASES, Generated, find_release, generate
from supernode_slurm.slurmconf.facts import read_domain_comment
from supernode_slurm.slurmconf.shapes import compact_shapes
from tests.test_inventory import SMALL, problems

NEW = [name for name, release in RELEASES.items() if release.yaml]
OLD = [name for name, release in RELEASES.items() if not release.yaml]


def room(text: str) -> Inventory:
    return loads(f"version: 1\ncluster: c\n{text}")


def pods(*sizes: int, nodes: int = 4, spares: int = 0, kind: str = "switch") -> Inventory:
    """Return a room with so many supernodes under each leaf of one fabric."""
    names = [f"leaf{number}" for number in range(1, len(sizes) + 1)]
    lines = [f"      spine: [{', '.join(names)}]"]
    first = 1
    for name, size in zip(names, sizes, strict=True):
        lines.append(f'      {name}: ["sn[{first}-{first + size - 1}]"]')
        first += size
    switches = "\n".join(lines)
    return room(f"""
fabrics:
  - name: ib
    kind: fat-tree
    rails: {{count: 8, bandwidth: 400 Gb/s}}
    switches:
{switches}
supernodes:
  - name: "sn[1-{first - 1}]"
    interconnect: {{kind: {kind}, bandwidth: 450 GB/s}}
    spares: {spares}
    nodes:
      hosts: "n{{n}}-[01-{nodes:02d}]"
      devices: {{h100: 8}}
      sockets: 2
      cores: 48
      memory: 900 GiB
partitions:
  train: {{supernodes: ["sn[1-{first - 1}]"]}}
""")


def one(kind: str, nodes: int, link: str = "") -> Inventory:
    """Return a room with one supernode and no fabric."""
    return room(f"""
supernodes:
  - name: s
    interconnect: {{kind: {kind}, bandwidth: 100 GB/s{link}}}
    nodes: {{hosts: "t[01-{nodes:02d}]", devices: {{h100: 8}}, sockets: 2, cores: 48,
             memory: 900 GiB}}
partitions:
  every: {{supernodes: [s], default: true}}
""")


def topologies(generated: Generated) -> dict[str, dict[str, object]]:
    """Return the topologies of topology.yaml by name."""
    found = yaml.safe_load(generated.files["topology.yaml"])
    assert [item["cluster_default"] for item in found] == [True, *[False] * (len(found) - 1)]
    return {item["topology"]: item for item in found}


def block_lines(generated: Generated) -> list[tuple[str, str]]:
    return re.findall(r"^BlockName=(\S+) Nodes=(\S+)$", generated.files["topology.conf"], re.M)


@pytest.mark.parametrize("release", NEW)
def test_a_class_of_supernodes_is_a_topology_bound_to_its_partitions(release: str) -> None:
    generated = generate(loads(SMALL + "  one: {supernodes: [sn2]}\n"), find_release(release))
    assert "topology.conf" not in generated.files
    assert "TopologyPlugin" not in generated.files["supernode.conf"]
    found = topologies(generated)
    assert list(found) == ["default", "sn"]
    assert found["sn"]["block"] == {
        "block_sizes": [4, 8],
        "blocks": [{"block": "sn1", "nodes": "h1-[1-4]"}, {"block": "sn2", "nodes": "h2-[1-4]"}],
    }
    bound = dict(
        re.findall(
            r"PartitionName=(\w+) .*Topology=(\w+)",
            generated.files["supernode-partitions.conf"],
        )
    )
    assert bound == {"train": "sn", "one": "sn"}
    assert generated.kinds == {"train": "block", "one": "block", "small": "tree"}
    assert generated.notes == ()


@pytest.mark.parametrize("release", NEW)
def test_a_partition_of_several_classes_gets_the_tree_and_is_told(release: str) -> None:
    text = SMALL.replace("small: {pools: [p]", "small: {supernodes: [sn1], pools: [p]")
    generated = generate(loads(text), find_release(release))
    assert generated.kinds == {"train": "block", "small": "tree"}
    assert "partition 'small' holds more than supernodes of one class" in generated.notes[0]
    assert "lost: --segment" in generated.notes[0]
    assert f"# {generated.notes[0]}" in generated.files["supernode.conf"]


@pytest.mark.parametrize("release", NEW)
def test_without_a_network_the_default_is_flat(release: str) -> None:
    generated = generate(one("switch", 8), find_release(release))
    assert topologies(generated)["default"]["flat"] is True
    assert generated.topology == "flat"
    assert generated.kinds == {"every": "block"}


@pytest.mark.parametrize("release", NEW)
def test_unequal_supernodes_have_a_base_size_each(release: str) -> None:
    text = SMALL.replace(
        "pools:\n  - name: p",
        """  - name: big
    interconnect: {kind: clos, bandwidth: 196 GB/s}
    spares: 2
    nodes: {hosts: "c[01-48]", devices: {ascend910c: 16}, sockets: 4, cores: 48, memory: 1 TiB}
pools:
  - name: p""",
        1,
    ).replace("  small:", "  big: {supernodes: [big]}\n  small:")
    found = topologies(generate(loads(text), find_release(release)))
    assert found["big"]["block"]["block_sizes"] == [46]  # type: ignore[index]
    assert found["sn"]["block"]["block_sizes"] == [4, 8]  # type: ignore[index]


def test_blocks_of_one_switch_are_padded_so_that_levels_never_mix_switches() -> None:
    found = topologies(generate(pods(3, 5), find_release("25.05")))
    blocks = found["sn"]["block"]["blocks"]  # type: ignore[index]
    names = [block["block"] for block in blocks]
    assert names[:3] == ["sn1", "sn2", "sn3"]
    assert names[4:] == ["sn4", "sn5", "sn6", "sn7", "sn8"]
    assert set(blocks[3]) == {"block"}
    assert len(set(names)) == len(names)
    assert found["sn"]["block"]["block_sizes"] == [4, 8, 16, 64]  # type: ignore[index]


# Rows: supernodes of 4 nodes under each leaf, the levels, the smallest job that Slurm refuses.
LEVELS = [
    ((3,), [4, 8, 16], None),
    ((5,), [4, 8, 16, 32], None),
    ((2, 2), [4, 8, 16], None),
    ((3, 2), [4, 8, 32], None),
    ((3, 4), [4, 8, 16, 32], None),
    ((3, 5), [4, 8, 16, 64], 29),
    ((6, 2), [4, 8, 16, 32, 64], 25),
]


@pytest.mark.parametrize(("sizes", "levels", "refused"), LEVELS)
def test_levels_refuse_no_ordinary_job(
    sizes: tuple[int, ...], levels: list[int], refused: int | None
) -> None:
    generated = generate(pods(*sizes), find_release("26.05"))
    found = topologies(generated)["sn"]["block"]
    assert found["block_sizes"] == levels  # type: ignore[index]
    told = f"Slurm refuses some jobs of {refused} nodes and more without --segment"
    assert (told in generated.notes) == (refused is not None)
    assert len(generated.notes) == (levels[-1] != 2 * levels[-2]) + (refused is not None)


TWO_KINDS = """
supernodes:
  - name: a[1-3]
    interconnect: {kind: switch, bandwidth: 900 GB/s}
    nodes: {hosts: "a{n}-[1-4]", devices: {gb200: 4}, sockets: 2, cores: 72, memory: 900 GiB}
  - name: b[1-2]
    interconnect: {kind: switch, bandwidth: 900 GB/s}
    nodes: {hosts: "b{n}-[1-4]", devices: {gb300: 4}, sockets: 2, cores: 72, memory: 900 GiB}
partitions:
  a: {supernodes: ["a[1-3]"]}
  b: {supernodes: ["b[1-2]"]}
"""


def test_levels_serve_each_kind_of_card_in_a_topology() -> None:
    generated = generate(room(TWO_KINDS), find_release("24.11"))
    # a3 and b1 would be one aggregate of 8 nodes: no place for a job on b1 and b2.
    assert generated.files["topology.conf"].endswith("BlockSizes=4,32\n")
    even = generate(room(TWO_KINDS.replace("[1-3]", "[1-4]")), find_release("24.11"))
    assert even.files["topology.conf"].endswith("BlockSizes=4,8,16,32\n")


def test_one_group_needs_no_placeholder() -> None:
    found = topologies(generate(pods(3), find_release("25.05")))
    assert len(found["sn"]["block"]["blocks"]) == 3  # type: ignore[index]


def test_without_placeholders_levels_that_mix_switches_are_left_out() -> None:
    generated = generate(pods(3, 5), find_release("24.11"))
    assert generated.files["topology.conf"].endswith("BlockSizes=4,32\n")
    assert "BlockSizes leave out 8, 16, which would mix switches" in generated.notes[0]
    even = generate(pods(2, 2), find_release("24.11"))
    assert even.files["topology.conf"].endswith("BlockSizes=4,8,16\n")
    assert even.notes == ()
    six = generate(pods(6, 2), find_release("24.11"))
    assert six.files["topology.conf"].endswith("BlockSizes=4,8,32\n")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_no_aggregate_holds_a_part_of_a_switch_and_a_part_of_another(sizes: list[int]) -> None:
    leaf = {f"sn{n}": i for i, n in enumerate_members(sizes)}
    for release in ("24.11", "25.05"):
        generated = generate(pods(*sizes), find_release(release))
        if release == "24.11":
            names = [name for name, _ in block_lines(generated)]
            levels = sizes_of(generated.files["topology.conf"])
        else:
            body = list(topologies(generated).values())[1]["block"]
            names = [block["block"] for block in body["blocks"]]  # type: ignore[index]
            levels = body["block_sizes"]  # type: ignore[index]
        assert [name for name in names if name in leaf] == list(leaf)
        for level in levels:
            step = level // levels[0]
            assert level == levels[0] * step
            assert step & (step - 1) == 0
            for start in range(0, len(names), step):
                held = {leaf[n] for n in names[start : start + step] if n in leaf}
                whole = {n for n in leaf if leaf[n] in held}
                assert len(held) <= 1 or whole <= set(names[start : start + step])


def enumerate_members(sizes: list[int]) -> list[tuple[int, int]]:
    """Return the leaf and the number of each supernode."""
    leaves = [index for index, size in enumerate(sizes) for _ in range(size)]
    return [(leaf, number) for number, leaf in enumerate(leaves, 1)]


def sizes_of(text: str) -> list[int]:
    found = re.search(r"^BlockSizes=(\S+)$", text, re.M)
    assert found is not None
    return [int(size) for size in found[1].split(",")]


def test_the_base_size_leaves_the_spares_out() -> None:
    generated = generate(pods(2, nodes=18, spares=2), find_release("24.11"))
    assert "BlockSizes=16,32\n" in generated.files["topology.conf"]
    assert "# sn1: 2 of 18 are spares: n1-[17-18]\n" in generated.files["topology.conf"]


def test_the_first_release_with_blocks_wants_them_equal_and_takes_no_sizes() -> None:
    text = SMALL.replace("interconnect:", "spares: 1\n    interconnect:")
    generated = generate(loads(text), find_release("23.11"))
    assert "BlockSizes" not in generated.files["topology.conf"]
    assert block_lines(generated) == [("sn1", "h1-[1-4]"), ("sn2", "h2-[1-4]")]
    assert any("exactly the base size; lost: spares" in note for note in generated.notes)
    assert any("'p' has 2 nodes, not those of the base block" in n for n in generated.notes)


@pytest.mark.parametrize("release", OLD)
def test_no_block_is_smaller_than_the_base_where_that_kills_slurmctld(release: str) -> None:
    for inventory in (pods(3, 1, nodes=6, spares=1), loads(SMALL), pods(2, kind="fat-tree")):
        generated = generate(inventory, find_release(release))
        if generated.topology == "block" and release != "23.11":
            base = sizes_of(generated.files["topology.conf"])[0]
            blocks = block_lines(generated)
            assert all(len(hostlist.expand(nodes)) >= base for _, nodes in blocks)


def test_a_ring_is_a_ring_up_to_sixteen_nodes_where_the_release_has_it() -> None:
    generated = generate(one("ring", 16), find_release("26.05"))
    assert topologies(generated)["s"]["ring"] == {"rings": [{"ring": "s", "nodes": "t[01-16]"}]}
    assert generated.kinds == {"every": "ring"}
    large = generate(one("ring", 17), find_release("26.05"))
    assert large.kinds == {"every": "flat"}
    assert "17 nodes are more than topology/ring's 16" in large.notes[0]
    older = generate(one("ring", 16), find_release("25.11"))
    assert "Slurm 25.11 has no topology/ring" in older.notes[0]


def test_a_ring_keeps_the_order_of_its_nodes() -> None:
    inventory = room("""
supernodes:
  - name: s
    interconnect: {kind: ring, bandwidth: 100 GB/s}
    nodes: {hosts: "t3,t1,t4,t2", devices: {h100: 8}, sockets: 2, cores: 8, memory: 9 GiB}
partitions:
  every: {supernodes: [s], default: true}
""")
    found = topologies(generate(inventory, find_release("26.05")))
    ring = found["s"]["ring"]["rings"][0]["nodes"]  # type: ignore[index]
    assert hostlist.expand(ring) == ["t3", "t1", "t4", "t2"]


def test_a_torus_has_its_dimensions_and_the_shapes_that_a_job_may_have() -> None:
    generated = generate(one("torus", 64, ", dims: [4, 4, 4]"), find_release("26.05"))
    torus = topologies(generated)["s"]["torus3d"]["toruses"][0]  # type: ignore[index]
    assert torus["dims"] == {"x": 4, "y": 4, "z": 4}
    assert math.prod(torus["dims"].values()) == len(hostlist.expand(torus["nodes"]))
    shapes = [tuple(item["dims"].values()) for item in torus["placements"]]
    assert (2, 2, 2) in shapes
    assert (4, 4, 4) in shapes
    assert generated.kinds == {"every": "torus3d"}
    chosen = one("torus", 64, ", dims: [4, 4, 4], placements: [[4, 4, 1]]")
    torus = topologies(generate(chosen, find_release("26.05")))["s"]["torus3d"]["toruses"][0]  # type: ignore[index]
    assert [item["dims"] for item in torus["placements"]] == [{"x": 4, "y": 4, "z": 1}]


@pytest.mark.parametrize("release", [name for name in RELEASES if name != "26.05"])
def test_a_release_without_a_torus_says_what_is_lost(release: str) -> None:
    generated = generate(one("torus", 64, ", dims: [4, 4, 4]"), find_release(release))
    assert generated.kinds["every"] in ("tree", "flat")
    assert "lost: --segment" in generated.notes[0]


@given(st.tuples(*[st.integers(1, 12)] * 3))
def test_shapes_fit_and_their_sizes_divide_the_torus(dims: tuple[int, int, int]) -> None:
    shapes = compact_shapes(dims)
    assert len(set(shapes)) == len(shapes)
    for shape in shapes:
        assert all(whole % edge == 0 for edge, whole in zip(shape, dims, strict=True))
    best = {math.prod(shape): max(shape) for shape in shapes}
    for other in product(*[[e for e in range(1, d + 1) if d % e == 0] for d in dims]):
        halves = all(
            (d // e) & (d // e - 1) == 0 or e == 1 for e, d in zip(other, dims, strict=True)
        )
        if halves and math.prod(other) in best:
            assert best[math.prod(other)] <= max(other)


def named(cluster: str, racks: int) -> Inventory:
    """Return a room whose topology file grows by a letter with the cluster's name."""
    text = SMALL.replace("cluster: small", f"cluster: {cluster}")
    return loads(text.replace("sn[1-2]", f"sn[1-{racks}]"))


def test_a_topology_file_of_a_multiple_of_4096_bytes_gets_one_more_where_that_kills_slurmctld() -> (
    None
):
    whole = find_release("26.05")
    for racks in range(2, 99):
        size = len(generate(named("c", racks), whole).files["topology.yaml"])
        width = 1 + -size % 4096
        if width <= 63:
            break
    inventory = named("c" * width, racks)
    assert len(generate(inventory, whole).files["topology.yaml"]) % 4096 == 0
    for release in ("25.05", "25.11"):
        text = generate(inventory, find_release(release)).files["topology.yaml"]
        assert len(text) % 4096 == 1
        assert yaml.safe_load(text)


def test_a_switch_that_ends_in_more_digits_than_slurm_can_count_is_refused() -> None:
    text = SMALL.replace("leaf", "sw" + "1" * 19).replace("spine:", f"{'2' * 20}:")
    found = problems(text)
    assert sum("ends in more than 18 digits: Slurm miscounts them" in line for line in found) == 3


FOREIGN = SMALL.replace(
    "partitions:", 'foreign:\n  - {name: cpu, hosts: "c[1-4]"}\npartitions:'
).replace('"sn[2]", p]', '"sn[2]", p, cpu]')


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_that_are_not_ours_keep_their_place_and_get_no_line(release: str) -> None:
    generated = generate(loads(FOREIGN), find_release(release))
    file = "topology.yaml" if find_release(release).yaml else "topology.conf"
    assert "c[1-4]" in generated.files[file]
    assert "NodeName=c" not in generated.files["supernode-nodes.conf"]
    assert "c[1-4]" not in generated.files["gres.conf"]


def test_a_partition_may_hold_foreign_nodes_and_single_hosts() -> None:
    text = FOREIGN.replace("small: {pools: [p]", 'small: {hosts: [a1, "h1-[1-2]"], foreign: [cpu]')
    inventory = loads(text)
    partition = inventory.partition("small")
    assert partition.members == ("p", "sn1")
    conf = generate(inventory, find_release("24.11")).files["supernode-partitions.conf"]
    assert "PartitionName=small Nodes=a1,c[1-4],h1-[1-2] " in conf


def test_cloud_nodes_name_their_block_where_a_release_would_lose_it() -> None:
    text = SMALL.replace("memory: 900 GiB}", "memory: 900 GiB, cloud: true}")
    nodes = generate(loads(text), find_release("25.11")).files["supernode-nodes.conf"]
    line = next(line for line in nodes.splitlines() if line.startswith("NodeName=h1-"))
    assert "Topology=default:spine:leaf:sn1,sn:sn1 " in line
    assert line.endswith("State=CLOUD")
    for release in ("24.11", "26.05"):
        assert (
            "Topology="
            not in generate(loads(text), find_release(release)).files["supernode-nodes.conf"]
        )


def test_supernodes_on_two_fabrics_are_two_topologies_and_two_roots() -> None:
    other = """  - name: second
    kind: ethernet
    rails: {count: 1, bandwidth: 100 Gb/s}
    switches: {eth: [sn2]}
supernodes:"""
    text = SMALL.replace("supernodes:", other, 1).replace('"sn[2]", ', "")
    text = text.replace("  small:", "  a: {supernodes: [sn1]}\n  b: {supernodes: [sn2]}\n  small:")
    generated = generate(loads(text), find_release("26.05"))
    found = topologies(generated)
    assert list(found) == ["default", "sn1", "sn2"]
    switches = {item["switch"]: item for item in found["default"]["tree"]["switches"]}  # type: ignore[index]
    children = {
        name for item in switches.values() for name in hostlist.expand(item.get("children", "x"))
    }
    assert {name for name in switches if name not in children} == {"spine", "eth"}
    assert generated.kinds["train"] == "tree"


def test_jobs_that_need_every_spare_of_an_odd_number_of_blocks_are_told() -> None:
    notes = generate(pods(3, nodes=2, spares=1), find_release("26.05")).notes
    assert any("Slurm refuses some jobs of 5 nodes and more" in note for note in notes)
    assert generate(pods(4, nodes=18, spares=2), find_release("26.05")).notes == ()


def test_comments_keep_figures_whole() -> None:
    text = SMALL.replace("450 GB/s", "1234.56789 GB/s")
    nodes = generate(loads(text), find_release("24.11")).files["supernode-nodes.conf"]
    facts = [found for line in nodes.splitlines() if (found := read_domain_comment(line))]
    assert facts[0].interconnect is not None
    assert facts[0].interconnect.bandwidth_gbs == 1234.56789
