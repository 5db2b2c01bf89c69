"""An inventory beside a real controller whose configuration was changed behind its back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from supernode_slurm.data import data_dir
from supernode_slurm.discovery.drift import LIVE, Against, Drift, drift
from supernode_slurm.discovery.refresh import Options, update
from supernode_slurm.inventory import Inventory, load, loads
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release

REPOSITORY = Path(__file__).resolve().parents[1]
INVENTORIES = sorted((Path(str(data_dir("topology_conf"))) / "inventories").glob("*.yaml"))
DAY = date(2026, 8, 22)
LAB = next(path for path in INVENTORIES if path.stem == "lab").read_text(encoding="utf-8")

pytestmark = pytest.mark.slurm


def twin_of(room: Inventory) -> Twin:
    files = generate(room, find_release(installed_release())).files
    foreign = tuple(host for item in room.foreign for host in item.hosts)
    return Twin(TwinSpec(files=files, foreign=foreign))


def here(text: str) -> str:
    """Return an inventory for the Slurm that is installed."""
    return text.replace('release: "22.05"', f'release: "{installed_release()}"')


def tell(twin: Twin, *argv: str) -> None:
    subprocess.run(argv, env=twin.environment(os.environ), timeout=30, check=True)


def against(twin: Twin, room: Inventory) -> Drift:
    return drift(room, Against(LIVE, twin.client), DAY)


def said(found: Drift) -> set[tuple[str, str]]:
    return {(item.rule, item.what) for item in found.findings}


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_a_twin_of_an_inventory_has_not_drifted(path: Path) -> None:
    room = load(path)
    with twin_of(room) as twin:
        found = against(twin, room)
        text = path.read_text(encoding="utf-8")
        refreshed = update(text, str(path), ["slurm:"], Options(DAY, {}), twin.client)
    same = room.slurm.release == installed_release()
    assert {item.rule for item in found.findings} <= (set() if same else {"drift-release"})
    assert found.release == installed_release()
    assert refreshed.problems == ()
    assert {change.path for change in refreshed.changes} <= {"slurm.release"}


def test_what_an_admin_changed_while_slurm_runs_is_said_in_words() -> None:
    room = loads(here(LAB))
    with twin_of(room) as twin:
        features = "pool-a100,a100,fast"
        words = (f"availablefeatures={features}", f"activefeatures={features}")
        tell(twin, "scontrol", "update", "nodename=n[01-02]", *words)
        tell(twin, "scontrol", "update", "nodename=n03", "weight=7")
        tell(twin, "scontrol", "update", "partitionname=main", "maxtime=1:00:00", "nodes=n[01-07]")
        tell(twin, "scontrol", "update", "nodename=n08", "state=drain", "reason=fan")
        found = against(twin, room)
        refreshed = update(here(LAB), "lab.yaml", ["slurm:"], Options(DAY, {}), twin.client)
        again = against(twin, loads(refreshed.new))
    assert said(found) == {
        ("drift-features", "features of n[01-02]: none here, fast runs"),
        ("drift-options", "weight of n03: 1 here, 7 runs"),
        ("drift-partition-nodes", "partition main in Slurm does not hold n08"),
        ("drift-partition-limits", "maxtime of partition main: 2-00:00:00 here, 01:00:00 in Slurm"),
        ("drift-node-down", "n08 are drain: fan"),
    }
    assert [str(change) for change in refreshed.changes] == [
        "hosts.n[01-02].features: none -> fast (slurm:)",
        "partitions.main: n[01-08] -> without n08 (slurm:)",
    ]
    assert {rule for rule, _ in said(again)} == {
        "drift-options",
        "drift-partition-limits",
        "drift-node-down",
        "drift-files",
    }


def test_nodes_that_only_one_side_has_are_named() -> None:
    newer = here(LAB).replace("n[01-08]", "n[01-09]").replace("n[05-08]", "n[05-09]")
    with twin_of(loads(here(LAB))) as twin:
        found = against(twin, loads(newer))
        kept = update(newer, "lab.yaml", ["slurm:"], Options(DAY, {}), twin.client)
    assert ("drift-node-missing", "n09 of pool-a100: Slurm does not know them") in said(found)
    assert ("drift-topology", "switch sw2 in Slurm does not hold n09") in said(found)
    assert kept.new == newer  # what was installed is older than the inventory
    with twin_of(loads(newer)) as twin:
        found = against(twin, loads(here(LAB)))
    assert said(found) >= {
        ("drift-topology", "switch sw2 in Slurm holds n09 as well"),
    }
    files = next(item for item in found.findings if item.rule == "drift-files")
    assert "are not what this inventory gives" in files.what


def test_a_node_that_was_taken_out_of_slurm_is_marked_and_comes_back(tmp_path: Path) -> None:
    site = tmp_path / "lab.yaml"
    site.write_text(here(LAB))
    less = here(LAB).replace("n[01-08]", "n[01-07]").replace("n[05-08]", "n[05-07]")
    with twin_of(loads(less)) as twin:
        bare = twin.directory / "supernode-nodes.conf"
        kept = bare.read_text()
        bare.write_text("".join(x for x in kept.splitlines(True) if not x.startswith("#")))
        done = sn(twin, tmp_path, "check", "-i", "lab.yaml", "--against", "live", "--json")
    assert done.returncode == 5
    document = json.loads(done.stdout)
    assert document["against"] == "live"
    assert "drift-node-missing" in {item["rule"] for item in document["findings"]}


def sn(twin: Twin, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    program = "from supernode_slurm.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *argv],
        cwd=folder,
        env={**twin.environment(os.environ), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
