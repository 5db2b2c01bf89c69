"""Cards of every shape on a real Slurm: counted as meant, and seen by the tasks that got them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supernode_slurm.errors import ConfigError, SlurmRejected
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests.test_gres import BILLED, room

pytestmark = pytest.mark.slurm

LINKS = '["-1,16,16,16", "16,-1,16,16", "16,16,-1,16", "16,16,16,-1"]'
MIG = '{"1g.10gb": [7, 8], "1g.10gb+me": [10], "3g.40gb": [1]}'
FORMS = {
    "a0": ('h100: {count: 8, cores: ["0-7", "8-15"]}', "gpu:h100:8"),
    "a1": (f'h100: {{count: 4, cores: ["0-7", "8-15"], links: {LINKS}}}', "gpu:h100:4"),
    "a2": ("h100: {count: 7, missing: [3]}", "gpu:h100:7"),
    "a3": ("a100: 4, h100: 4", "gpu:a100:4,gpu:h100:4"),
    "a4": (
        "h100: 4, ascend910c: {count: 16, gres: npu}",
        "gpu:h100:4,npu:ascend910c:16",
    ),
    "a5": ("mi250x: 16", "gpu:mi250x:16"),
    "a6": (
        f"h100: {{count: 4, mig: {MIG}}}",
        "gpu:h100_1g.10gb:8,gpu:h100_1g.10gb.me:4,gpu:h100_3g.40gb:4",
    ),
    "a7": (
        'a100-sxm-80g: 6, A100: {count: 2, mig: {"1g.10gb": [7, 8]}}',
        "gpu:a100:6,gpu:a100_1g.10gb:4",
    ),
    "a8": (
        "h100: {count: 2, shards: 8}, a100: {count: 2, shards: 4}",
        "gpu:h100:2,gpu:a100:2,shard:24",
    ),
    "a9": ("h100: {count: 2, shards: 8}, a100: 2", "gpu:h100:2,gpu:a100:2,shard:16"),
    "b0": (
        "h100: {count: 2, shards: 8}, mlu590: {count: 8, gres: mlu}",
        "gpu:h100:2,mlu:mlu590:8,shard:16",
    ),
    "b1": ("dcu-k100-ai: {count: 8, gres: dcu, type: k100}", "dcu:k100:8"),
    "b2": ("", ""),
    "b3": ("h100: 1024", "gpu:h100:1024"),
}
DEFAULT = "{pools: [p], default: true}"


def files(*nodes: str, slurm: str = "{}") -> dict[str, str]:
    own = room(*nodes, slurm=slurm, partition=DEFAULT)
    return generate(own, find_release(installed_release())).files


def forms(*left_out: str) -> dict[str, str]:
    return files(
        *(
            f"hosts: {host}, devices: {{{devices}}}"
            for host, (devices, _) in FORMS.items()
            if host not in left_out
        )
    )


def counted(twin: Twin) -> dict[str, dict[str, int]]:
    """Return counts of each node; Slurm itself gives shards with files a type."""
    found: dict[str, dict[str, int]] = {}
    for node in twin.client().nodes():
        counts = found.setdefault(node.name, {})
        for item in node.gres:
            key = "shard" if item.name == "shard" else f"{item.name}:{item.type}"
            counts[key] = counts.get(key, 0) + item.count
    return found


def meant(*left_out: str) -> dict[str, dict[str, int]]:
    return {
        host: {
            entry.rpartition(":")[0]: int(entry.rpartition(":")[2])
            for entry in counts.split(",")
            if entry
        }
        for host, (_, counts) in FORMS.items()
        if host not in left_out
    }


def test_slurmctld_counts_each_form_as_it_is_meant() -> None:
    with Twin(TwinSpec(files=forms())) as twin:
        assert twin.messages == ()
        assert counted(twin) == meant()


def test_slurmd_finds_each_form_as_it_is_meant() -> None:
    # b3 would need a thousand devices.
    with Twin(TwinSpec(files=forms("b3"), live=True)) as twin:
        assert twin.messages == ()
        assert counted(twin) == meant("b3")
        assert all(node.states == {"IDLE"} for node in twin.client().nodes())


def test_cloud_nodes_of_two_vendors_need_to_be_without_flags() -> None:
    vendors = ("hosts: a1, devices: {h100: 2}", "hosts: b1, devices: {mi300x: 2}")
    with Twin(TwinSpec(files=files(*(f"{text}, cloud: true" for text in vendors)))) as twin:
        assert twin.messages == ()
        assert counted(twin) == {"a1": {"gpu:h100": 2}, "b1": {"gpu:mi300x": 2}}
    other = files(*vendors)
    # A twin takes the flags off its cloud nodes, but not in this spelling.
    other["gres.conf"] = other["gres.conf"].replace("Flags=", "flags=")
    with pytest.raises(ConfigError, match="does not match env flags"), Twin(TwinSpec(files=other)):
        pass


def test_what_we_refuse_slurm_would_have_taken_amiss() -> None:
    """BR025, BR028: cores with hyper-threads, and a part of a socket (refused since 24.11)."""
    given = files('hosts: n1, devices: {h100: {count: 2, cores: ["0-7"]}}')
    bad = {"Cores=0-7,16-23": "core specification"}
    if installed_release() > "22.05":
        bad["Cores=0-3"] = "doesn't match socket boundaries"
    for cores, expected in bad.items():
        other = {**given, "gres.conf": given["gres.conf"].replace("Cores=0-7", cores)}
        with Twin(TwinSpec(files=other)) as twin:
            assert any(expected in line for line in twin.messages), twin.messages


def test_billing_of_a_site_with_slurmdbd_leaves_its_twin_alone() -> None:
    """slurmctld dies of tracked GRES and of their weights where no slurmdbd runs."""
    given = files("hosts: n1, devices: {h100: 8}", slurm=BILLED)
    assert "AccountingStorageTRES=gres/gpu,gres/gpu:h100\n" in given["supernode.conf"]
    assert "TRESBillingWeights=GRES/gpu=794\n" in given["supernode-partitions.conf"]
    with Twin(TwinSpec(files=given)) as twin:
        assert twin.messages == ()
        assert counted(twin) == {"n1": {"gpu:h100": 8}}


def test_mig_instances_are_asked_for_by_their_type() -> None:
    given = files('hosts: n1, devices: {h100: {count: 2, mig: {"1g.10gb": [7, 8]}}}')
    with Twin(TwinSpec(files=given)) as twin:
        client = twin.client()
        # Without a count: 22.05 takes a bare profile, gpu:1g.10gb, for a number.
        for gres in ("gpu:h100_1g.10gb", "gpu:h100_1g.10gb:3"):
            client.submit([f"--gres={gres}"], script="#!/bin/sh\n")
        with pytest.raises(SlurmRejected):
            client.submit(["--gres=gpu:h100_1g.10gb:5"], script="#!/bin/sh\n")


VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
ROOM = (
    'hosts: "n[1-3]", devices: {h100: 2, ascend910c: {count: 6, gres: npu}}',
    'hosts: "d[1-2]", devices: {ascend910c: {count: 4, missing: [1]}}',
    "hosts: r1, devices: {mi300x: 4}",
    "hosts: s1, devices: {h100: {count: 2, shards: 4}}",
    'hosts: m1, devices: {h100: {count: 2, mig: {"1g.10gb": [7, 8]}}}',
)


@pytest.fixture(scope="module")
def live() -> Iterator[Twin]:
    """Yield a twin whose tasks run, with two devices of n1 held by a job of another."""
    given = files(*ROOM, slurm="{task_prolog: /opt/sn/task-prolog.sh}")
    with Twin(TwinSpec(files=given, live=True)) as twin:
        client = twin.client()
        job = client.submit(["-w", "n1", "--gres=npu:2"], script="#!/bin/sh\nexec sleep 600\n")
        wait_for(lambda: client.job(job).states == {"RUNNING"})
        yield twin
        assert twin.messages == ()


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def seen(twin: Twin, output: Path, asked: str, run: str) -> list[str]:
    """Return what the tasks of a job print of their devices, in the order of their ranks.

    ``run`` is the script, in which SHOW stands for a command that prints them.
    """
    show = "echo $SLURM_PROCID $SLURMD_NODENAME " + " ".join(
        f"{name[0]}=${name}" for name in VARIABLES
    )
    client = twin.client()
    script = f"#!/bin/sh\n{run.replace('SHOW', f'sh -c {shlex.quote(show)}')}\n"
    job = client.submit([*asked.split(), "-o", str(output)], script=script)
    wait_for(lambda: client.job(job).states == {"COMPLETED"})
    # srun tells of a step that waits for the one before it to end.
    lines = output.read_text().splitlines()
    return sorted(line for line in lines if not line.startswith("srun: "))


@pytest.mark.parametrize(
    ("asked", "run", "expected"),
    [
        (
            # Devices of the job itself, beside those of another on n1.
            "-w n[1-2] -N2 --gres=npu:ascend910c:3",
            "srun SHOW",
            ["0 n1 C= R= A=2,3,4", "1 n2 C= R= A=0,1,2"],
        ),
        (
            "-w n3 -n2 --gres=npu:6,gpu:1",
            "srun SHOW",
            ["0 n3 C=0 R= A=0,1,2,3,4,5", "1 n3 C=0 R= A=0,1,2,3,4,5"],
        ),
        # A batch script has the devices of its job.
        ("-w n1 --gres=npu:1", "SHOW", ["0 n1 C= R= A=2"]),
        ("-w d1 --gres=gpu:3", "SHOW", ["0 d1 C= R= A=0,1,2"]),
        # Slurm numbers without the gap of the missing card.
        (
            "-w d1 -n2 --gpus-per-task=2",
            "srun SHOW",
            ["0 d1 C= R= A=0,1", "1 d1 C= R= A=2,3"],
        ),
        (
            "-w d2 --gres=gpu:4",
            "srun -n1 --gres=gpu:1 SHOW; srun -n1 --gres=gpu:2 SHOW",
            ["0 d2 C= R= A=0", "0 d2 C= R= A=0,1"],
        ),
        ("-w r1 --gres=gpu:3", "srun SHOW", ["0 r1 C= R=0,1,2 A="]),
        ("-w s1 --gres=shard:3", "srun SHOW", ["0 s1 C=0 R= A="]),
        ("-w m1 --gres=gpu:h100_1g.10gb:3", "srun SHOW", ["0 m1 C=0,1,2 R= A="]),
        (
            "-w n3 --gres=npu:2 : -w d2 --gres=gpu:3 : -w n2 --gres=npu:4",
            "srun --het-group=0,1,2 SHOW",
            ["0 n3 C= R= A=0,1", "1 d2 C= R= A=0,1,2", "2 n2 C= R= A=0,1,2,3"],
        ),
    ],
)
def test_a_task_sees_the_devices_that_it_has(
    live: Twin, tmp_path: Path, asked: str, run: str, expected: list[str]
) -> None:
    assert seen(live, tmp_path / "out", asked, run) == expected
