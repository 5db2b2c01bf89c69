"""Imports from a running Slurm, and of a stranger's site that then runs on one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from supernode_slurm import hostlist
from supernode_slurm.data import data_dir
from supernode_slurm.discovery import import_sources
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.slurm import CliClient, parse
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release

REPOSITORY = Path(__file__).resolve().parents[1]
INVENTORIES = sorted((Path(str(data_dir("topology_conf"))) / "inventories").glob("*.yaml"))
FOREIGN = REPOSITORY.parent / "shared/realdata/slurm_configs"
STRANGERS = {
    "circe": ("site_circe_slurm.conf", "site_circe_topology_tree.conf"),
    "ibnodo": ("site_ibnodo_slurm.conf", "site_ibnodo_gres.conf"),
    "lab": ("site_lab_mixed_slurm.conf", "site_lab_mixed_gres.conf"),
    "tara": ("site_tara_slurm.conf", "site_tara_topology_tree.conf"),
}
# A site without a default partition says so; groups of the site do not exist here.
OF_THE_SITE = re.compile(r"default partition not set|Could not find configured group")

pytestmark = pytest.mark.slurm


def twin_of(room: Inventory) -> Twin:
    files = generate(room, find_release(installed_release())).files
    foreign = tuple(host for item in room.foreign for host in item.hosts)
    return Twin(TwinSpec(files=files, foreign=foreign))


def tell(twin: Twin, *argv: str) -> None:
    subprocess.run(argv, env=twin.environment(os.environ), timeout=30, check=True)


def tree_roots(text: str) -> list[set[str]]:
    """Return the nodes under each switch with none above, of 'scontrol show topology'."""
    switches = parse.fields(text, "SwitchName")
    below = {child for item in switches for child in hosts_of(item.get("Switches"))}
    roots = [item for item in switches if item["SwitchName"] not in below]
    return [set(hosts_of(item.get("Nodes"))) for item in roots]


def hosts_of(text: str | None) -> list[str]:
    return hostlist.expand(text) if text else []


def sn(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    program = "from supernode_slurm.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *argv],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_a_running_twin_is_written_again_byte_for_byte(path: Path) -> None:
    room = load(path)
    release = find_release(installed_release())
    with twin_of(room) as twin:
        found = import_sources(["slurm:"], {}, twin.client)
    assert found.remarks == ()
    assert found.inventory.release == release.name
    assert generate(found.inventory, release).files == generate(room, release).files


def test_what_runs_wins_over_the_files_and_is_told() -> None:
    room = load(next(path for path in INVENTORIES if path.stem == "mixed"))
    with twin_of(room) as twin:
        features = "features=pool-a100,a100,new"
        words = (f"available{features}", f"active{features}", "weight=5")
        tell(twin, "scontrol", "update", "nodename=a[01-02]", *words)
        tell(twin, "scontrol", "update", "partitionname=train", "maxtime=2-00:00:00")
        tell(twin, "scontrol", "update", "partitionname=small", "nodes=a[01-03]", "state=drain")
        found = import_sources(["slurm:"], {}, twin.client)
    text = "\n".join(map(str, found.remarks))
    assert {remark.kind for remark in found.remarks} == {"disagreement"}
    assert "features of a[01-02]: pool-a100,a100 in the file, pool-a100,a100,new runs" in text
    assert "weight of a[01-02]: none in the file, 5 runs" in text
    assert "maxtime of partition train: 7-00:00:00 in the file, 2-00:00:00 runs" in text
    assert "partition small runs without a04" in text
    by_host = {host: nodes for nodes in found.inventory.node_classes for host in nodes.hosts}
    assert (by_host["a01"].features, by_host["a03"].features) == (("new",), ())
    assert dict(by_host["a01"].options) == {"Weight": "5"}
    assert found.inventory.partition("train").max_time == "2-00:00:00"
    assert found.inventory.partition("small").hosts == ("a01", "a02", "a03")
    assert dict(found.inventory.partition("small").options) == {"State": "DRAIN"}


def test_without_its_files_a_running_slurm_still_gives_its_nodes() -> None:
    room = load(next(path for path in INVENTORIES if path.stem == "nvl72"))
    with twin_of(room) as twin:
        client = twin.client()

        class Remote:
            def show(self, *words: str) -> str:
                return client.show(*words).replace(str(twin.directory), "/elsewhere")

        found = import_sources(["slurm:"], {}, Remote)
    assert [remark.kind for remark in found.remarks].count("unsaid") == len(found.remarks)
    assert "cannot be read here" in "\n".join(map(str, found.remarks))
    wanted = {host for domain in room.domains for host in domain.hosts}
    nodes = {host: part for part in found.inventory.node_classes for host in part.hosts}
    assert nodes.keys() == wanted
    assert {(part.devices[0].accelerator, part.devices[0].count) for part in nodes.values()} == {
        ("gb200", 4)
    }
    [partition] = found.inventory.partitions
    assert (partition.name, partition.default, set(partition.hosts)) == ("train", True, wanted)


def test_the_command_reads_the_slurm_that_runs(tmp_path: Path) -> None:
    room = load(next(path for path in INVENTORIES if path.stem == "lab"))
    with twin_of(room) as twin:
        done = subprocess.run(
            [sys.executable, "-c", "from supernode_slurm.cli.main import main; main()",
             "import", "slurm:", "--json"],
            cwd=tmp_path,
            env={**twin.environment(os.environ), "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["remarks"] == []
    assert "cluster: lab" in found["inventory"]
    assert all(fact["origin"] for fact in found["facts"] if fact["path"] != "version")


@pytest.mark.skipif(not FOREIGN.is_dir(), reason="no collected files beside the repository")
@pytest.mark.parametrize("name", STRANGERS)
def test_a_strangers_site_is_imported_and_runs_clean(name: str, tmp_path: Path) -> None:
    sources = [str(FOREIGN / file) for file in STRANGERS[name]]
    done = sn(tmp_path, "import", *sources, "-o", "site.yaml")
    assert done.returncode == 0, done.stderr
    room = load(tmp_path / "site.yaml")
    with twin_of(room) as twin:
        odd = [line for line in twin.messages if not OF_THE_SITE.search(line)]
        assert odd == []
        nodes = {node.name: node for node in twin.client().nodes()}
        partitions = {item.name: set(item.hosts) for item in twin.client().partitions()}
        topology = twin.client().show("topology")
    assert nodes.keys() == {host for domain in room.domains for host in domain.hosts}
    assert partitions == {item.name: set(item.hosts) for item in room.partitions}
    if name in ("ibnodo", "lab"):  # no topology: Slurm spans all nodes, and still does
        assert tree_roots(topology) == [set(nodes)]
    for part in room.node_classes:
        for host in part.hosts:
            cards = sum(item.count for item in nodes[host].gres if item.name == "gpu")
            others = sum(item.count for item in part.other_gres if item.name == "gpu")
            assert cards == part.device_count + others


def test_the_client_reads_whole_lines() -> None:
    client = CliClient({**os.environ, "SLURM_TOPO_LEN": "10"})
    room = load(next(path for path in INVENTORIES if path.stem == "lab"))
    with twin_of(room) as twin:
        client = CliClient({**twin.environment(os.environ), "SLURM_TOPO_LEN": "10"})
        assert "Switches=sw[1-2]" in client.show("topology")
