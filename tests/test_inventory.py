"""Inventories: every problem in one run, each where it stands; nothing hostile gets through."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.errors import ConfigError, SupernodeError
from supernode_slurm.inventory import Inventory, load, loads
from supernode_slurm.inventory.build import json_schema
from supernode_slurm.inventory.schema import InventoryFile
from supernode_slurm.slurmconf.lint import lint

TODAY = date(2026, 12, 1)
SMALL = """\
version: 1
cluster: small
fabrics:
  - name: ib
    kind: fat-tree
    rails: {count: 8, bandwidth: 400 Gb/s}
    switches: {spine: [leaf], leaf: [sn1, "sn[2]", p]}
supernodes:
  - name: sn[1-2]
    interconnect: {kind: switch, bandwidth: 450 GB/s}
    nodes: {hosts: "h{n}-[1-4]", devices: {H100: 8}, sockets: 2, cores: 48, memory: 900 GiB}
pools:
  - name: p
    nodes: {hosts: "a[1-2]", devices: {a100: 8}, sockets: 2, cores: 32, memory: 500 GiB}
partitions:
  train: {supernodes: [sn1, sn2], max_time: 48:00:00}
  small: {pools: [p], default: true}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loads(text, "i.yaml")
    assert caught.value.exit_code == 4
    return str(caught.value).splitlines()


def test_a_class_of_supernodes_is_expanded() -> None:
    room = loads(SMALL)
    assert [sn.name for sn in room.supernodes] == ["sn1", "sn2"]
    assert room.supernodes[1].hosts == ("h2-1", "h2-2", "h2-3", "h2-4")
    assert room.supernodes[0].interconnect.bandwidth_gbs == 450
    assert room.node_classes[0].devices[0].type == "h100"
    assert room.node_classes[0].devices[0].accelerator == "h100-sxm"
    fabric = room.fabric_of("h2-3")
    assert fabric is not None
    assert fabric.node_gbs == 400
    assert [switch.name for switch in fabric.switches] == ["leaf", "spine"]


def test_yaml_1_1_traps_are_words() -> None:
    room = loads(SMALL)
    assert room.partitions[0].max_time == "48:00:00"
    text = SMALL.replace("cluster: small", "cluster: no")
    assert loads(text).cluster == "no"


def test_json_is_read_like_yaml() -> None:
    import yaml

    plain = yaml.load(SMALL, Loader=yaml.BaseLoader)
    plain["version"] = 1
    for section in (*plain["supernodes"], *plain["pools"]):
        nodes = section["nodes"]
        nodes.update(sockets=int(nodes["sockets"]), cores=int(nodes["cores"]))
        nodes["devices"] = {name: int(count) for name, count in nodes["devices"].items()}
    plain["fabrics"][0]["rails"]["count"] = 8
    plain["partitions"]["small"]["default"] = True
    assert loads(json.dumps(plain)).partitions[1].default is True


def test_every_problem_is_told_in_one_run_with_its_place() -> None:
    text = SMALL.replace("kind: switch", "kind: swich").replace("cores: 32", "cores: many")
    text = (
        text.replace("oversub", "x").replace("max_time", "max_tim").replace("[sn1, sn2]", "[sn1x]")
    )
    found = problems(text + "cluster: again\n")
    assert found == [
        "i.yaml:10:26: kind: expected one of switch, clos, full-mesh, fat-tree, ring, torus, "
        "got 'swich'",
        "i.yaml:14:69: cores: expected a whole number, got 'many'",
        "i.yaml:16:24: no supernode or pool 'sn1x'; did you mean 'sn1'?",
        "i.yaml:16:31: unknown key 'max_tim'; did you mean 'max_time'?",
        "i.yaml:18:1: key 'cluster' stands twice (first at line 2); delete one",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("leaf: [sn1", "leaf: [snx", "'snx' is no switch, supernode, pool or host; did you mean"),
        ("spine: [leaf]", "spine: [leaf, spine2], spine2: [spine]", "switches form a cycle"),
        ("spine: [leaf]", "spine: [leaf, p]", "holds switches and nodes"),
        ("spine: [leaf]", "spine: [leaf], other: [leaf]", "hangs under 'spine' and 'other'"),
        ("spine: [leaf]", "spine: [leaf], p: [a1]", "has the name of a supernode or pool"),
        ("spine: [leaf]", "spine: [leaf], x: []", "has nothing under it"),
        ("a[1-2]", "h1-[1-2]", "host h1-1 is in 'sn1' and in 'p'"),
        ("H100: 8", "H10O: 8", "no accelerator 'H10O'"),
        ("H100: 8", "H100: 0", "from 1 to 1024, got 0"),
        ("h{n}-[1-4]", "h-[1-4]", "equal supernodes would share hosts"),
        ("a[1-2]", "a{n}-[1-2]", "'{n}' needs a class"),
        ("a[1-2]", "a[2-1]", "range '2-1' runs backwards"),
        ("default: true", "default: yes", "expected true or false, got 'yes'"),
        ("pools: [p], default", "pools: [], default", "has no supernodes and no pools"),
        ("max_time: 48:00:00", "default: true", "two partitions are the default"),
        ("  - name: p\n", "  - name: a100\n", "names a kind of card too"),
        ("version: 1", "version: 2", "from 1 to 1, got 2"),
        ("cluster: small", "cluster: 'a b'", "expected a name of letters"),
        ("cluster: small", "cluster: |\n  a\n", "expected a name of letters"),
        ("  train:", "  'x\\ny':", "partitions: expected a name"),
        ("name: sn[1-2]", "name: sn[1-2]x[1-2]", "a class has one bracket at the end"),
        ("memory: 500 GiB", "memory: 500", "expected a quantity with its unit"),
        ("memory: 500 GiB", "memory: 1e200 GiB", "too large"),
        ("memory: 500 GiB", "memory: 1e400 GiB", "too large"),
        ("memory: 500 GiB", "memory: 1 KiB", "from 1 MiB"),
        ("sockets: 2, cores: 32", "sockets: 1000000, cores: 32", "from 1 to 65533"),
        ("max_time: 48:00:00", "max_time: \u0131nf\u0131n\u0131te", "expected a time limit"),
        ("max_time: 48:00:00", "max_time: 99999999999999999999-0", "expected a time limit"),
        ("  small:", "  Default:", "has a meaning of its own in Slurm's files"),
        ("a[1-2]", "ALL", "has a meaning of its own in Slurm's files"),
        ("a[1-2]", "n111111111111111111[1-2]", "ends in more than 18 digits"),
        ("spine: [leaf]", "spine: ['x{n}', leaf]", "is not a host name"),
        ("{a100: 8}", "{a100: 4, ascend910c: 4}", "cards of two vendors in one node"),
        ("{a100: 8}", "{a100-sxm-80g: 4, a100: 4}", "two entries are of the same GRES type"),
        ("{a100: 8}", "{a100: 8}, gres: GPU", "expected a GRES name of small letters"),
        ("{a100: 8}", "{a100: 8}, gres: mps", "has a meaning of its own"),
        ("{a100: 8}", "{a100: 8}, type: no_consume", "has a meaning of its own"),
        ("a[1-2]", "sn1", "host sn1 has the name of a supernode or pool"),
        ('"sn[2]", p]', '"sn[2]", a1]', "'p' is only partly under switches: a2 are not"),
        ('"sn[2]", p]', '"sn[2]", p, a1]', "under switches twice: a1 under 'leaf' and 'leaf'"),
        ("cluster: small", "cluster: small\nslurm: {release: 24.11}", "stands in quotes"),
        ("cluster: small", 'cluster: "a\\x1b[2Jb"', "expected a name"),
        ("cluster: small", f"cluster: {'x' * 68}", "at most 63 characters, got 'xx"),
        ("cluster: small", f"cluster: {'x y' * 30}", "expected a name of letters"),
        ("cores: 32", "cores: [-1, 1]", "expected a whole number, got a list"),
        ("cores: 32", "cores: {a: 1}", "expected a whole number, got a mapping"),
        ("{a100: 8}", "{a100: {count: 8, links: [[-1, 1]]}}", "got a list"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(old: str, new: str, expected: str) -> None:
    assert old in SMALL
    found = problems(SMALL.replace(old, new))
    assert any(expected in line for line in found), found
    assert all(line.startswith("i.yaml:") and "Node(" not in line for line in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty"),
        ("[" * 500, "nested deeper than 32 levels"),
        ("[" * 100_000, "exceeded maximum nesting depth"),
        ("a: &a [x]\nb: *b\n", "alias '*b' has no anchor"),
        ("a: !!python/object/apply:os.system ['true']\n", "tag"),
        ("a: 1\n---\nb: 2\n", "more than one document"),
        ("a: [1, 2\n", "not valid YAML"),
        ("? [a, b]\n: 1\n", "a key must be a plain word"),
        ("version: \x00\n", "not valid YAML"),
        ("- 1\n", "expected a mapping, got a list"),
    ],
)
def test_hostile_yaml_is_refused(text: str, expected: str) -> None:
    assert expected in problems(text)[0]


def test_aliases_cannot_explode() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "more than 2,000,000 values" in problems("\n".join(lines))[0]


def test_names_may_be_numbers_as_written() -> None:
    text = SMALL.replace("cluster: small", "cluster: 0012").replace("  train:", "  007:")
    room = loads(text)
    assert (room.cluster, room.partitions[0].name) == ("0012", "007")


def test_one_host_hangs_in_one_fabric_only() -> None:
    other = """  - name: second
    kind: ethernet
    rails: {count: 1, bandwidth: 100 Gb/s}
    switches: {eth: [sn1]}
supernodes:"""
    found = problems(SMALL.replace("supernodes:", other, 1))
    assert "hosts hang under switches twice: h1-[1-4] under 'leaf' and 'eth'" in found[0]


def test_an_inventory_cannot_fill_the_memory() -> None:
    text = SMALL.replace("sn[1-2]", "sn[1-60000]").replace("h{n}-[1-4]", "h{n}-[1-60000]")
    assert any(
        "more than 1,000,000 hosts in the whole inventory" in line for line in problems(text)
    )


def test_messages_obey_no_control_characters() -> None:
    found = problems(SMALL + '"\\e[2Jx\\nsn: error: forged": 1\n')
    assert len(found) == 1
    assert "unknown key '\\x1b[2Jx\\nsn: error: forged'" in found[0]


def test_an_alias_may_repeat_a_section() -> None:
    text = SMALL.replace('nodes: {hosts: "a', 'nodes: &n {hosts: "a')
    text = text.replace("partitions:", "  - name: q\n    nodes: *n\npartitions:")
    assert any("host a1 is in 'p' and in 'q'" in line for line in problems(text))


def test_unreadable_files_are_errors_not_tracebacks(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"cluster: \xe9\n")
    for path in (tmp_path / "absent.yaml", tmp_path, tmp_path / "latin.yaml"):
        with pytest.raises(ConfigError, match=r"cannot read|not UTF-8"):
            load(path)


@given(st.text(max_size=200))
def test_any_text_gives_a_room_or_a_message(text: str) -> None:
    for candidate in (text, SMALL.replace("sn1", text), SMALL.replace("8", text)):
        try:
            assert isinstance(loads(candidate, "i"), Inventory)
        except SupernodeError as error:
            assert str(error)


def test_rules_find_what_is_unwise() -> None:
    text = SMALL.replace("kind: fat-tree", "kind: fat-tree\n    oversubscription: 3")
    text = text.replace('"sn[2]", p]', "sn2]").replace("small: {pools: [p]", "small: {pools: [q]")
    text = text.replace("partitions:", "  - name: q\n    nodes: {hosts: q1, sockets: 1, cores: 1, "
                                       "memory: 9 GiB}\npartitions:")  # fmt: skip
    found = [
        (item.rule, item.severity, item.where.line)
        for item in lint(loads(text), TODAY)
        if item.severity != "note"
    ]
    assert found == [
        ("oversubscription", "error", 4),
        ("no-fabric", "warning", 14),
        ("no-partition", "warning", 14),
        ("no-fabric", "warning", 16),
    ]


def test_the_schema_covers_every_key() -> None:
    schema = json_schema(InventoryFile)
    assert schema["required"] == ["version", "cluster"]
    assert schema["additionalProperties"] is False
    nodes = schema["properties"]["pools"]["items"]["properties"]["nodes"]["anyOf"][0]
    assert set(nodes["required"]) == {"hosts", "sockets", "cores", "memory"}
    json.dumps(schema)


def test_a_vendor_whose_variable_slurm_does_not_set_is_told_once() -> None:
    text = SMALL.replace("{a100: 8}", "{ascend910c: 16}")
    found = [finding for finding in lint(loads(text), TODAY) if finding.rule == "vendor-variable"]
    assert [finding.what for finding in found] == [
        "Slurm sets no ASCEND_RT_VISIBLE_DEVICES for ascend910c"
    ]
    text = text.replace("cluster:", "slurm: {task_prolog: /opt/p.sh}\ncluster:")
    assert not [
        finding for finding in lint(loads(text), TODAY) if finding.rule == "vendor-variable"
    ]


def test_a_site_without_a_default_partition_is_told() -> None:
    assert not [f for f in lint(loads(SMALL), TODAY) if f.rule == "no-default"]
    found = lint(loads(SMALL.replace(", default: true", "")), TODAY)
    assert [f.rule for f in found] == ["no-default"]
