"""Twins on the installed Slurm: up, true to the configuration, judged, and gone without a trace."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supernode_slurm.errors import ConfigError, SlurmError, SlurmNotFound, SlurmRejected
from supernode_slurm.slurm import CliClient, Gres, JobId, LiveJob
from supernode_slurm.slurm.run import run
from supernode_slurm.slurmconf import find_release
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests import twin_samples
from tests.twin_samples import changed

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parents[1]


def wait_for(what: Callable[[], bool]) -> None:
    """Wait for something that must come about, and fail if it does not."""
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_of(directory: Path) -> list[str]:
    """Return the command lines of processes that belong to a twin."""
    marker = f"SLURM_CONF={directory}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environ = (path / "environ").read_bytes()
            command = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if command and (marker in environ or str(directory).encode() in command):
            found.append(command.replace(b"\0", b" ").decode())
    return found


def command_lines() -> list[bytes]:
    """Return the command lines of all processes, their words ended by a null byte."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append((path / "cmdline").read_bytes())
    return found


def state_of(directory: Path) -> Path:
    text = (directory / "slurm.conf").read_text()
    return Path(text.split("StateSaveLocation=")[1].split()[0])


def listening_addresses(port: int) -> set[str]:
    """Return the local addresses (hexadecimal, as the kernel has them) on which a port listens."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    local = [row[1].split(":") for row in rows if row[3] == "0A"]
    return {address for address, number in local if int(number, 16) == port}


def placed(client: CliClient, job: JobId) -> LiveJob:
    wait_for(lambda: bool(client.job(job).hosts))
    return client.job(job)


def needs_block() -> None:
    if "block" not in find_release(installed_release()).topologies:
        pytest.skip("this release has no block topology")


def topology_of(twin: Twin) -> str:
    env = twin.environment(os.environ)
    return run(["scontrol", "show", "topology"], timeout_s=60, env=env).stdout


def test_a_tree_is_up_without_a_complaint_and_as_meant() -> None:
    with Twin(TwinSpec(twin_samples.files())) as twin:
        assert twin.messages == ()
        nodes = twin.client().nodes()
        assert {node.name for node in nodes} == set(twin_samples.HOSTS)
        assert all(node.is_free for node in nodes)
        assert {node.gres for node in nodes} == {
            (Gres("gpu", "h100", 8),),
            (Gres("gpu", "a100", 4),),
        }
        leaves = re.findall(r"SwitchName=(\S+) Level=0 .*Nodes=(\S+)", topology_of(twin))
        assert leaves == [("leaf1", "h1-[01-08]"), ("leaf2", "a[001-004],b[1-2]")]


def test_blocks_are_up_without_a_complaint_and_hold_a_job_together() -> None:
    needs_block()
    files = twin_samples.block()
    with Twin(TwinSpec(files)) as twin:
        assert twin.messages == ()
        assert "BlockName=b1 BlockIndex=0 Nodes=h1-[01-04] BlockSize=4" in topology_of(twin)
        client = twin.client()
        hosts = placed(client, client.submit(["-N4"], script="#!/bin/sh\n")).hosts
        assert set(hosts) in (set(twin_samples.HOSTS[:4]), set(twin_samples.HOSTS[4:8]))


def test_jobs_are_placed_with_their_devices() -> None:
    with Twin(TwinSpec(twin_samples.files())) as twin:
        client = twin.client()
        job = client.submit(["-p", "a", "-N2", "--gres=gpu:a100:4"], script="#!/bin/sh\n")
        hosts = placed(client, job).hosts
        assert len(hosts) == 2
        used = {node.name: node.gres_used for node in client.nodes() if node.name in hosts}
        assert set(used.values()) == {(Gres("gpu", "a100", 4),)}
        # Allocated cloud nodes never boot here, and are usable still.
        busy = [node for node in client.nodes() if node.name in hosts]
        assert all(node.is_usable and not node.is_free for node in busy)
        client.cancel(job)
        wait_for(lambda: all(node.is_free for node in client.nodes()))


def test_nothing_is_left_of_a_twin() -> None:
    with Twin(TwinSpec(twin_samples.files())) as twin:
        directory = twin.directory
        assert processes_of(directory)
        state = state_of(directory)
        assert state.is_dir()
    assert not directory.exists()
    assert not state.exists()
    assert processes_of(directory) == []


def test_nothing_is_left_when_the_user_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), Twin(TwinSpec(twin_samples.files())) as twin:
        raise KeyboardInterrupt
    assert not twin.directory.exists()
    assert processes_of(twin.directory) == []


@pytest.mark.parametrize("live", [False, True])
def test_nothing_runs_on_when_its_parent_is_killed(live: bool, tmp_path: Path) -> None:
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from tests import twin_samples; from supernode_slurm.twin import Twin, TwinSpec\n"
        f"with Twin(TwinSpec(twin_samples.files(), live={live})) as twin:\n"
        "    print(twin.directory, flush=True); time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", script, str(ROOT)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as parent:
        assert parent.stdout is not None
        directory = Path(parent.stdout.readline().strip())
        running = processes_of(directory)
        parent.send_signal(signal.SIGKILL)
    assert any("slurmctld" in line for line in running)
    assert any("slurmd" in line for line in running) or not live
    wait_for(lambda: processes_of(directory) == [])
    # Nobody is left to remove these.
    for left in (directory, state_of(directory)):
        shutil.rmtree(left)


def test_slurmctld_listens_on_loopback_alone_and_never_as_root() -> None:
    with Twin(TwinSpec(twin_samples.files())) as twin:
        if twin.remarks:
            pytest.skip(twin.remarks[0])
        conf = (twin.directory / "slurm.conf").read_text()
        found = re.search(r"^SlurmctldPort=([0-9]+)$", conf, re.MULTILINE)
        assert found is not None
        assert all(address.endswith("7F") for address in listening_addresses(int(found[1])))
        assert listening_addresses(int(found[1]))
        owners = set()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_daemon = (path / "comm").read_text() in ("slurmctld\n", "munged\n")
                if is_daemon and str(twin.directory).encode() in (path / "environ").read_bytes():
                    owners.add(path.owner())
        assert owners
        assert os.geteuid() != 0 or "root" not in owners


ELSEWHERE = """
import sys, time; sys.path.insert(0, sys.argv[1])
from tests import twin_samples
from tests.test_twin_real import listening_addresses, wait_for
from supernode_slurm.twin import Twin, TwinSpec
with Twin(TwinSpec(twin_samples.files(), live=True)) as twin:
    client = twin.client()
    job = client.submit(["-N2", "-o", sys.argv[2]], script="#!/bin/sh\\nsrun echo ran\\n")
    wait_for(lambda: client.job(job).states == {"COMPLETED"})
    text = (twin.directory / "slurm.conf").read_text()
    port = int(text.split("SlurmctldPort=")[1].split()[0])
    print(twin.messages, [listening_addresses(port + n) for n in (0, 2, 3)])
"""


def test_a_machine_whose_name_is_no_loopback_address_serves_as_well(tmp_path: Path) -> None:
    elsewhere = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]
    if run([*elsewhere, "true"], timeout_s=60).returncode:
        pytest.skip("only root may rename a machine, in a namespace")
    output = tmp_path / "out"
    argv = [*elsewhere, sys.executable, "-c", ELSEWHERE, str(ROOT), str(output)]
    result = run(argv, timeout_s=120)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "() [{'0100007F'}, {'0100007F'}, {'0100007F'}]\n"
    assert output.read_text() == "ran\nran\n"


def test_two_twins_do_not_meet() -> None:
    other = changed(PARTITIONS, "PartitionName=h ", "PartitionName=z ")
    with Twin(TwinSpec(twin_samples.files())) as one, Twin(TwinSpec(other)) as two:
        assert [part.name for part in one.client().partitions()] == ["h", "a"]
        assert [part.name for part in two.client().partitions()] == ["z", "a"]


def test_an_outer_jobs_environment_does_not_reach_the_twin() -> None:
    with Twin(TwinSpec(twin_samples.files())) as twin:
        outer = {
            "PATH": os.environ["PATH"],
            "HOME": "/",
            "SLURM_CONF": "/nowhere",
            "SLURM_CLUSTERS": "other",
            "SBATCH_PARTITION": "gone",
            "SLURM_JOB_ID": "1",
        }
        env = twin.environment(outer)
        assert {name for name in env if name.startswith("S")} == {"SLURM_CONF"}
        assert CliClient(env).submit(["-H"], script="#!/bin/sh\n").number > 0


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Return a directory that every account may enter; pytest's own are closed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_the_directory_is_made_where_it_is_wanted_and_closed_to_others(
    open_directory: Path,
) -> None:
    with Twin(TwinSpec(twin_samples.files(), directory=open_directory)) as twin:
        assert twin.directory.parent == open_directory
        assert twin.directory.stat().st_mode & 0o007 == 0
        assert (twin.directory / "munge" / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs slurmctld as someone else")
def test_a_directory_that_slurmctld_may_not_enter_is_refused(open_directory: Path) -> None:
    closed = open_directory / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0o700)
    spec = TwinSpec(twin_samples.files(), directory=closed / "inner")
    with pytest.raises(SlurmError, match=rf"{closed}: closed to \w+, who runs"), Twin(spec):
        pass
    assert list((closed / "inner").iterdir()) == []


def test_the_sites_scheduling_parameters_are_taken_over() -> None:
    site = "SchedulerParameters=bf_window=77\nProlog=/bin/false\nPriorityType=priority/basic\n"
    with Twin(TwinSpec(twin_samples.files(), site_conf=site)) as twin:
        env = twin.environment(os.environ)
        shown = run(["scontrol", "show", "config"], timeout_s=60, env=env).stdout
        assert re.search(r"SchedulerParameters\s+= bf_window=77\n", shown)
        assert [item.key for item in twin.dropped] == ["Prolog"]
        assert "/bin/false" not in shown


ALL_PARAMETERS = """\
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityCalcPeriod=5
PriorityFavorSmall=NO
PriorityMaxAge=7-0
PriorityUsageResetPeriod=NONE
PriorityWeightJobSize=10
PriorityWeightPartition=10
PriorityFlags=MAX_TRES
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=0
DefMemPerCPU=100
MaxArraySize=2000
MaxJobCount=20000
MinJobAge=600
EnforcePartLimits=ALL
JobRequeue=1
KillWait=30
Licenses=matlab:3
MaxMemPerNode=100000
MaxStepCount=100
MaxTasksPerNode=512
OverTimeLimit=1
SchedulerTimeSlice=30
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
TopologyParam=TopoOptional
SchedulerType=sched/backfill
"""


def test_every_parameter_that_may_be_kept_starts_without_a_complaint() -> None:
    with Twin(TwinSpec(twin_samples.files(), site_conf=ALL_PARAMETERS)) as twin:
        assert twin.dropped == ()
        assert twin.messages == ()


PARTITIONS, NODES, GRES = "supernode-partitions.conf", "supernode-nodes.conf", "gres.conf"
TOPOLOGY = "topology.conf"


def test_slurmctlds_words_name_the_files_that_were_given() -> None:
    files = {**twin_samples.files(), PARTITIONS: "PartitionName=h Stat=UP\n"}
    words = r'error: Parse error in file supernode-partitions\.conf line 1: " Stat=UP"'
    with pytest.raises(ConfigError, match=words), Twin(TwinSpec(files)):
        pass


def test_foreign_nodes_keep_their_place_and_get_no_jobs() -> None:
    files = changed(TOPOLOGY, "SwitchName=top", "SwitchName=leaf3 Nodes=cpu[1-2]\nSwitchName=top")
    files[TOPOLOGY] = files[TOPOLOGY].replace("leaf[1-2]", "leaf[1-3]")
    with Twin(TwinSpec(files, foreign=("cpu1", "cpu2"))) as twin:
        assert twin.messages == ()
        assert "SwitchName=leaf3 Level=0 LinkSpeed=1 Nodes=cpu[1-2]" in topology_of(twin)
        assert {node.name for node in twin.client().nodes()} == set(twin_samples.HOSTS)


def test_nothing_is_left_of_a_twin_that_did_not_start() -> None:
    twin = Twin(TwinSpec(changed(TOPOLOGY, "leaf[1-2]", "leaf[1-3]")))
    with pytest.raises(ConfigError), twin:
        pass
    assert not twin.directory.exists()
    assert processes_of(twin.directory) == []


def test_a_machine_without_slurmctld_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supernode_slurm.twin.daemons._PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(SlurmNotFound, match=r"slurmctld: not found; install it \(Debian: apt"),
        Twin(TwinSpec(twin_samples.files())),
    ):
        pass


def test_a_live_twin_runs_jobs_that_see_their_devices(tmp_path: Path) -> None:
    script = "#!/bin/sh\nsrun -l sh -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'\n"
    output = tmp_path / "out"
    with Twin(TwinSpec(twin_samples.files(), live=True)) as twin:
        client = twin.client()
        assert twin.messages == ()
        assert all(node.states == {"IDLE"} for node in client.nodes())
        asked = ["-p", "a", "-w", "a003,b2", "-N2", "--gres=gpu:a100:3", "-o", str(output)]
        job = client.submit(asked, script=script)
        wait_for(lambda: client.job(job).states == {"COMPLETED"})
        # Prints of the ranks may come in any order.
        assert sorted(output.read_text().splitlines()) == ["0: a003 0,1,2", "1: b2 0,1,2"]


def test_two_kinds_of_devices_on_a_node_are_numbered_through(tmp_path: Path) -> None:
    files = {
        **twin_samples.files(),
        NODES: "NodeName=n[1-2] CPUs=4 RealMemory=1000 Gres=gpu:h100:2,gpu:a100:2 State=UNKNOWN\n",
        PARTITIONS: "PartitionName=p Nodes=n[1-2] Default=YES\n",
        TOPOLOGY: "SwitchName=s Nodes=n[1-2]\n",
        GRES: (
            "NodeName=n[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-1]\n"
            "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[2-3]\n"
        ),
    }
    output = tmp_path / "out"
    with Twin(TwinSpec(files, live=True)) as twin:
        client = twin.client()
        script = "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES\n"
        job = client.submit(["--gres=gpu:a100:2", "-o", str(output)], script=script)
        wait_for(lambda: client.job(job).states == {"COMPLETED"})
        assert output.read_text() == "2,3\n"


def test_a_job_that_still_runs_ends_with_its_live_twin(tmp_path: Path) -> None:
    with Twin(TwinSpec(twin_samples.files(), live=True)) as twin:
        client = twin.client()
        started = tmp_path / "started"
        script = f"#!/bin/sh\nsrun sleep 613 &\ntouch {started}\nexec sleep 614\n"
        client.submit(["-o", "/dev/null"], script=script)
        wait_for(started.exists)
    assert processes_of(twin.directory) == []
    assert not {b"sleep\x00613\x00", b"sleep\x00614\x00"} & set(command_lines())


def test_a_live_twin_rejects_what_its_slurm_rejects() -> None:
    with (
        Twin(TwinSpec(twin_samples.files(), live=True)) as twin,
        pytest.raises(SlurmRejected, match="Requested node configuration is not available"),
    ):
        twin.client().submit(["--gres=gpu:h100:9"], script="#!/bin/sh\n")
