"""Every broken configuration that we know of, on the installed Slurm: none passes unnoticed.

Each case says what slurmctld does of itself: it dies, it complains and goes on, or it keeps
silent. Where it is silent, and where it would hang, the finding is ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from supernode_slurm.errors import ConfigError, SlurmNotFound
from supernode_slurm.slurmconf import find_release
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests import twin_samples
from tests.twin_samples import changed

pytestmark = pytest.mark.slurm

NODES, PARTITIONS = "supernode-nodes.conf", "supernode-partitions.conf"
MAIN, TOPOLOGY, GRES = "supernode.conf", "topology.conf", "gres.conf"
YAML = "topology.yaml"
ALL = ("22.05", "24.11", "26.05")
BLOCK = ALL[1:]
NEWEST = ALL[2:]
PLACE = re.compile(r"[\w.-]+:[0-9]+:[0-9]+: ")


@dataclass(frozen=True)
class Case:
    """A configuration with one mistake."""

    files: Mapping[str, str]
    words: str
    """What the user must read, as a regular expression."""
    dies: tuple[str, ...] = ()
    """Releases that do not start; the others do."""
    silent: tuple[str, ...] = ()
    """Releases that start without a word of their own, or one that ours replaces."""
    on: tuple[str, ...] = ALL
    site: str | None = None
    """The site's slurm.conf."""


def deadly(files: Mapping[str, str], words: str, on: tuple[str, ...] = ALL) -> Case:
    return Case(files, words, dies=on, on=on)


def silent(files: Mapping[str, str], words: str, on: tuple[str, ...] = ALL) -> Case:
    return Case(files, words, silent=on, on=on)


def without(files: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: text for key, text in files.items() if key != name}


def added(line: str, **more: str) -> dict[str, str]:
    """Return the sample with a line of slurm.conf, and files, more."""
    extra = {name.replace("__", "."): text for name, text in more.items()}
    return {**changed(MAIN, "GresTypes=gpu\n", f"GresTypes=gpu\n{line}\n"), **extra}


def in_blocks(old: str, new: str) -> dict[str, str]:
    return changed(TOPOLOGY, old, new, plugin="block")


def in_yaml(old: str, new: str) -> dict[str, str]:
    text = twin_samples.YAML
    assert old in text
    return twin_samples.with_yaml(text.replace(old, new, 1))


SECOND = "- topology: t2\n  cluster_default: false\n  flat: true\n"
BOTH = {**twin_samples.block(), YAML: twin_samples.YAML}
OURS = "-- Written by 'sn generate' for cluster c and Slurm 26.05.\n"
NO_MODIFY = f"{OURS}function slurm_job_submit(a, b, c) return 0 end\n"

CASES = {
    # The tree.
    "duplicate switch": deadly(changed(TOPOLOGY, "leaf2 N", "leaf1 N"), "already been defined"),
    "missing child": deadly(changed(TOPOLOGY, "leaf[1-2]", "leaf[1-3]"), "invalid child"),
    "bad key in topology.conf": deadly(
        changed(TOPOLOGY, "=leaf1 ", "=leaf1 X=1 "), "unrecognized key"
    ),
    "topology.conf missing": deadly(
        without(twin_samples.files(), TOPOLOGY), r"supernode\.conf:2:16: topology/tree needs a"
    ),
    "no TopologyPlugin": silent(
        changed(MAIN, "TopologyPlugin=topology/tree\n", ""),
        r"topology\.conf:1:1: is not read: no TopologyPlugin",
    ),
    "unknown node in a leaf": Case(
        changed(TOPOLOGY, "h1-[01-08]", "h1-[01-09]"), r"topology\.conf:1:12: 'leaf1' names h1-09"
    ),
    "node in two leaves": Case(
        changed(TOPOLOGY, "Nodes=a[", "Nodes=h1-08,a["),
        r"topology\.conf:2:12: h1-08 in 'leaf2' and in 'leaf1'",
    ),
    "node in no leaf": Case(
        changed(TOPOLOGY, "b[1-2]", "b1"),
        r"partitions\.conf:2:15: .* holds b2, and no switch",
        silent=("22.05",),
    ),
    "no host list": Case(
        changed(TOPOLOGY, "h1-[01-08]", "h1-[01-08"), r"topology\.conf:1:24: unbalanced", dies=ALL
    ),
    "nodes and switches on one line": deadly(
        changed(TOPOLOGY, "Switches=leaf[1-2]", "Switches=leaf1 Nodes=b1"),
        "(?i)has both|switch.*nodes|reading",
    ),
    "a switch below itself": deadly(
        changed(TOPOLOGY, "Switches=leaf[1-2]", "Switches=leaf[1-2],spine"),
        "(?i)invalid child|not a tree|not be a leaf",
    ),
    # Blocks.
    "bad sizes": deadly(in_blocks("BlockSizes=4,8", "BlockSizes=4,6"), "Invalid BlockSizes", BLOCK),
    "duplicate block": deadly(in_blocks("=b2", "=b1"), "already been defined", BLOCK),
    "small block": Case(
        in_blocks("h1-[05-08]", "h1-[05-07]"),
        "bblock_node_cnt|holds h1-08, and no block of 'default' does",
        dies=("24.11",),
        silent=NEWEST,
        on=BLOCK,
    ),
    "node in two blocks": silent(
        in_blocks("h1-[05-08]", "h1-[04-08]"), r"topology\.conf:2:11: h1-04 in 'b2' and", BLOCK
    ),
    "unknown node in a block": Case(
        in_blocks("h1-[05-08]", "h1-[05-09]"), r"topology\.conf:2:11: 'b2' names h1-09", on=BLOCK
    ),
    # topology.yaml.
    "yaml with bad sizes": deadly(in_yaml("[4, 8]", "[4, 6]"), "Invalid BlockSizes", NEWEST),
    "yaml with a duplicate block": deadly(
        in_yaml("block: b2", "block: b1"), "already been defined", NEWEST
    ),
    "yaml that is none": deadly(in_yaml("block:", "block: ["), "Failed to load topology", NEWEST),
    "partition of an unknown topology": deadly(
        {
            **twin_samples.with_yaml(),
            PARTITIONS: twin_samples.PARTITIONS.replace("State", "Topology=t2 State", 1),
        },
        "Invalid partition topology",
        NEWEST,
    ),
    "misspelt key in yaml": silent(
        in_yaml("block_sizes", "blocksizes"),
        r"topology\.yaml:4:5: unknown key 'blocksizes'.*did you mean 'block_sizes'",
        NEWEST,
    ),
    "misspelt key of a block in yaml": silent(
        in_yaml("nodes: h1-[01-04]", "node: h1-[01-04]"), r"yaml:7:9: unknown key 'node'", NEWEST
    ),
    "unknown node in yaml": Case(
        in_yaml("h1-[05-08]", "h1-[05-09]"), r"yaml:8:9: 'b2' names h1-09", on=NEWEST
    ),
    "node in two blocks of yaml": silent(
        in_yaml("h1-[05-08]", "h1-[04-08]"), r"yaml:8:9: h1-04 in 'b2' and in 'b1'", NEWEST
    ),
    "two default topologies in yaml": silent(
        twin_samples.with_yaml(twin_samples.YAML + SECOND.replace("false", "true")),
        r"topology\.yaml:1:1: 2 topologies have cluster_default: true; mark exactly one",
        NEWEST,
    ),
    "no default topology in yaml": silent(
        twin_samples.with_yaml(twin_samples.YAML.replace("true", "false") + SECOND),
        r"yaml:1:1: no topologies have cluster_default: true",
        NEWEST,
    ),
    "a topology twice in yaml": silent(
        twin_samples.with_yaml(twin_samples.YAML + SECOND.replace("t2", "t1")),
        r"yaml:10:3: topology 't1' stands twice",
        NEWEST,
    ),
    "yaml without a topology": deadly(
        twin_samples.with_yaml("[]\n"), r"topology\.yaml:1:1: holds no topology", NEWEST
    ),
    "yaml before 25.05": silent(
        twin_samples.with_yaml(), r"topology\.yaml:1:1: Slurm 2.* does not read it", ALL[:2]
    ),
    "topology.conf beside yaml": silent(BOTH, r"topology\.conf:1:1: is not read", NEWEST),
    # GRES.
    "other type": Case(
        changed(GRES, "Type=h100", "Type=h200"), r"h1-\[01-08\]: 8 gpu:h100 here, 0 in gres\.conf"
    ),
    "fewer files": Case(
        changed(GRES, "nvidia[0-7]", "nvidia[0-3]"),
        r"nodes\.conf:1:90: .* 8 gpu:h100 here, 4 in gres\.conf",
        silent=("22.05",),
    ),
    "more files": Case(changed(GRES, "nvidia[0-7]", "nvidia[0-9]"), "8 gpu:h100 here, 10 in gres"),
    "a node without a line": Case(
        changed(GRES, "h1-[01-08]", "h1-[01-07]"), "h1-08: 8 gpu:h100 here, 0", silent=("22.05",)
    ),
    "no gres.conf": Case(
        without(twin_samples.files(), GRES), "b.1-2.: 4 gpu:a100 here, 0", silent=("22.05",)
    ),
    "gres.conf for an unknown node": silent(
        changed(GRES, "h1-[01-08]", "h1-[01-09]"), r"gres\.conf:1:10: names h1-09, which no Node"
    ),
    "count that is not that of files": deadly(
        changed(GRES, "nvidia[0-7]", "nvidia[0-7] Count=4"), "does not match File"
    ),
    "bad key in gres.conf": deadly(changed(GRES, "Type=h100", "Foo=1"), "unrecognized key"),
    "name not in GresTypes": Case(
        changed(NODES, "Gres=gpu:h100:8", "Gres=npu:h100:8"), "(?i)invalid gres"
    ),
    "typed and untyped": deadly(
        changed(NODES, "gpu:h100:8", "gpu:h100:4,gpu:4"), "have a type while others do not"
    ),
    # slurm.conf.
    "bad key in slurm.conf": deadly(changed(MAIN, "GresTypes", "GresTypez"), "unrecognized key"),
    "bad key of a partition": deadly(
        changed(PARTITIONS, "State=UP", "Stat=UP"), "unrecognized key"
    ),
    "partition with an unknown node": deadly(
        changed(PARTITIONS, "h1-[01-08]", "h1-[01-09]"), "Invalid node names in partition"
    ),
    "duplicate partition": deadly(changed(PARTITIONS, "Name=a", "Name=h"), "(?i)duplicate"),
    "duplicate node": deadly(changed(NODES, "b[1-2]", "a[001-002]"), "(?i)duplicate"),
    "no partition": Case(
        {**twin_samples.files(), PARTITIONS: ""},
        "No PartitionName information|default partition not set",
        dies=("22.05",),
    ),
    "unknown select plugin": deadly(
        added("SelectType=select/nope"), "Can't find plugin|initialize node selection plugin"
    ),
    "select/linear beside a tree": Case(
        twin_samples.files(),
        "select/linear with topology/tree is not supported",
        dies=BLOCK,
        on=BLOCK,
        site="SelectType=select/linear\n",
    ),
    "unknown topology plugin": deadly(
        changed(MAIN, "topology/tree", "topology/nope"), "(?i)initialize topology plugin"
    ),
    "ResumeTimeout over 65535": deadly(added("ResumeTimeout=70000"), "is greater than 65535"),
    "no number": Case(
        twin_samples.files(),
        "Invalid SchedulerParameters bf_interval",
        site="SchedulerParameters=bf_interval=abc\n",
    ),
    "misspelt scheduler parameter": Case(
        twin_samples.files(),
        r"slurm\.conf:1:21: .* no SchedulerParameters 'bf_intervall'.*did you mean 'bf_interval'",
        silent=ALL,
        site="SchedulerParameters=bf_intervall=5,bf_window=77\n",
    ),
    "lua missing": deadly(added("JobSubmitPlugins=lua"), "job_submit/lua: Unable to stat"),
    "lua with a syntax error": deadly(
        added("JobSubmitPlugins=lua", job_submit__lua=f"{OURS}function (\n"),
        "<name>' expected near",
    ),
    "lua without slurm_job_modify": deadly(
        added("JobSubmitPlugins=lua", job_submit__lua=NO_MODIFY), "missing required function"
    ),
    # Empty values: slurmctld dies of one, and takes what follows for the value of another.
    "empty value": deadly(added("TaskPlugin="), r"supernode\.conf:2:1: TaskPlugin has no value"),
    "empty value before another key": deadly(
        added("TaskPlugin= MaxJobCount=5"), r"supernode\.conf:2:13: TaskPlugin has no value"
    ),
    "empty feature": deadly(
        changed(NODES, "Feature=h100,h1 ", "Feature= "), r"nodes\.conf:1:110: Feature has no value"
    ),
    "empty type": deadly(
        changed(GRES, "Type=h100", "Type="), r"gres\.conf:1:36: Type has no value"
    ),
    "empty list of a switch": deadly(
        changed(TOPOLOGY, "h1-[01-08]", ""), r"topology\.conf:1:18: Nodes has no value"
    ),
}


def mistakes() -> list[str]:
    """Return the cases that are mistakes on the installed Slurm; all where there is none."""
    try:
        release = installed_release()
    except SlurmNotFound:
        return list(CASES)
    return [name for name, case in CASES.items() if release in case.on]


@pytest.mark.parametrize("name", mistakes())
def test_no_broken_configuration_passes_unnoticed(name: str) -> None:
    case, release = CASES[name], installed_release()
    twin = Twin(TwinSpec(case.files, site_conf=case.site))
    if release in case.dies:
        with pytest.raises(ConfigError, match=case.words), twin:
            pass
        return
    with twin:
        findings = [str(problem) for problem in twin.findings]
        own = [line for line in twin.messages if line not in findings]
    assert all(map(PLACE.match, findings))
    if release in case.silent:
        assert own == []
        assert re.search(case.words, "\n".join(findings))
    else:
        assert own
        assert re.search(case.words, "\n".join((*findings, *own)))


def test_a_sound_configuration_has_no_findings() -> None:
    release = find_release(installed_release())
    samples = [twin_samples.files()]
    samples += [twin_samples.block()] if "block" in release.topologies else []
    samples += [twin_samples.with_yaml()] if release.yaml else []
    for files in samples:
        with Twin(TwinSpec(files)) as twin:
            assert twin.messages == ()
