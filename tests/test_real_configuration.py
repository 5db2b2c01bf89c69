"""The generated files on a real slurmctld: accepted without a word, and meaning what we meant."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from supernode_slurm import hostlist
from supernode_slurm.data import data_dir
from supernode_slurm.inventory import Inventory, gres_devices, load
from supernode_slurm.slurm import Gres
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from supernode_slurm.twin.topologies import CONF, YAML, Topology, read_conf, read_yaml

INVENTORIES = sorted((Path(str(data_dir("topology_conf"))) / "inventories").glob("*.yaml"))

GROUPS = ("SwitchName", "BlockName", "RingName", "TorusName")

pytestmark = pytest.mark.slurm


def ask(twin: Twin, *argv: str) -> str:
    """Return what a program of Slurm prints."""
    done = subprocess.run(
        argv, env=twin.environment({}), capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout


def foreign(room: Inventory) -> tuple[str, ...]:
    return tuple(host for item in room.foreign for host in item.hosts)


def meant(files: Mapping[str, str]) -> list[Topology]:
    """Return the topologies of generated files."""
    if YAML in files:
        return read_yaml(files[YAML])[0]
    return read_conf(files[CONF])[0]


def leaves(topology: Topology) -> dict[str, set[str]]:
    """Return the nodes of each leaf switch, block, ring or torus."""
    return {group.name: set(group.hosts) for group in topology.groups if group.hosts}


def shown(twin: Twin, topology: Topology) -> dict[str, set[str]]:
    """Return the same as slurmctld has it."""
    named = [topology.name] if find_release(twin.release).yaml else []
    found = {}
    for line in ask(twin, "scontrol", "show", "topology", *named).splitlines():
        fields = dict(re.findall(r"(\w+)=(\S+)", line))
        name = next((fields[key] for key in GROUPS if key in fields), None)
        if name and "Nodes" in fields and "Switches" not in fields:
            found[name] = set(hostlist.expand(fields["Nodes"]))
    return found


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_slurmctld_takes_the_files_and_means_what_we_mean(path: Path) -> None:
    room = load(path)
    generated = generate(room, find_release(installed_release()))
    with Twin(TwinSpec(generated.files, foreign=foreign(room))) as twin:
        nodes = {node.name: node for node in twin.client().nodes()}
        for topology in meant(generated.files):
            assert shown(twin, topology) == leaves(topology)
        partitions = {item.name: item for item in twin.client().partitions()}
        assert twin.messages == ()
    assert nodes.keys() == {host for domain in room.domains for host in domain.hosts}
    for domain in room.domains:
        for part in domain.nodes:
            counts: Counter[tuple[str, str]] = Counter()
            for device in gres_devices(part.devices):
                counts[device.gres, device.type] += 1
                counts["shard", device.type] += device.shards  # Slurm types them
            wanted = {Gres(*name, count) for name, count in counts.items() if count}
            for host in part.hosts:
                assert set(nodes[host].gres) == wanted
                assert domain.name in nodes[host].features
                assert nodes[host].is_free
    for partition in room.partitions:
        assert set(partitions[partition.name].hosts) == set(partition.hosts)
        assert partitions[partition.name].is_default == partition.default


def test_a_job_of_one_planning_block_stays_in_one_rack() -> None:
    path = next(item for item in INVENTORIES if item.stem == "nvl72")
    room = load(path)
    generated = generate(room, find_release(installed_release()))
    if "block" not in generated.kinds.values():
        pytest.skip("this release has no topology/block")
    racks = [set(supernode.hosts) for supernode in room.supernodes]
    with Twin(TwinSpec(files=generated.files)) as twin:
        # One dead tray in every rack: what the spares are for.
        dead = ",".join(supernode.hosts[3] for supernode in room.supernodes)
        ask(twin, "scontrol", "update", f"nodename={dead}", "state=drain", "reason=test")
        client = twin.client()
        for _ in room.supernodes:
            job = client.submit(["--nodes=16", "--gres=gpu:gb200:4", "--wrap=true"])
            hosts = placed(twin, str(job))
            assert any(hosts <= rack for rack in racks)
            assert len(hosts) == 16


def placed(twin: Twin, job: str) -> set[str]:
    """Return the hosts of a job once it has them."""
    import time

    for _ in range(100):
        found = ask(twin, "squeue", "-h", "-j", job, "-o", "%N").strip()
        if found:
            return set(hostlist.expand(found))
        time.sleep(0.1)
    raise AssertionError(f"job {job} got no nodes: {ask(twin, 'scontrol', 'show', 'job', job)}")
