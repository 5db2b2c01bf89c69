"""The twin's files, what it takes over of a site, and how it judges a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from supernode_slurm.slurmconf import find_release
from supernode_slurm.twin import judge, read_site_conf
from supernode_slurm.twin.config import (
    Layout,
    cgroup_conf,
    cloud_files,
    device_names,
    live_files,
    node_names,
    slurm_conf,
)
from tests import twin_samples

LAYOUT = Layout(
    directory=Path("/d"),
    state=Path("/s"),
    user="slurm",
    owner="root",
    address="127.0.0.1",
    port=21000,
    communication="NoCtldInAddrAny",
)


def test_a_plain_twin_changes_the_state_of_nodes_and_drops_what_only_slurmd_reads() -> None:
    files = twin_samples.files()
    assert cloud_files(files) == {
        **files,
        "supernode-nodes.conf": twin_samples.NODES.replace("State=UNKNOWN", "State=CLOUD"),
        "gres.conf": twin_samples.GRES.replace(" Flags=nvidia_gpu_env", ""),
    }


def test_node_lines_without_a_state_get_one_and_defaults_are_left_alone() -> None:
    text = "NodeName=DEFAULT CPUs=4\nnodename=n1 State=UNKNOWN Weight=2\nNodeName=n2\n"
    changed = cloud_files({"a.conf": text})["a.conf"]
    assert changed.splitlines() == [
        "NodeName=DEFAULT CPUs=4",
        "nodename=n1 Weight=2 State=CLOUD",
        "NodeName=n2 State=CLOUD",
    ]


def test_a_live_twin_gives_each_node_a_port_here() -> None:
    first, second = live_files(twin_samples.files(), LAYOUT)["supernode-nodes.conf"].splitlines()
    here = "NodeHostname=localhost NodeAddr=127.0.0.1"
    assert first.endswith(f" State=UNKNOWN {here} Port=[21002-21009]")
    assert second.endswith(f" State=UNKNOWN {here} Port=[21010-21015]")
    single = live_files({"n.conf": "NodeName=n1\n"}, LAYOUT)["n.conf"]
    assert single == f"NodeName=n1 State=UNKNOWN {here} Port=21002\n"


def test_a_live_twin_has_devices_of_its_own() -> None:
    files = twin_samples.files()
    assert "File=/d/dev/nvidia[0-7] " in live_files(files, LAYOUT)["gres.conf"]
    assert "/dev/nvidia" not in live_files(files, LAYOUT)["gres.conf"].replace("/d/dev", "")
    assert device_names(files) == tuple(f"nvidia{n}" for n in range(8))
    assert node_names(files) == twin_samples.HOSTS


def test_the_twins_own_parameters_win_over_the_sites() -> None:
    site = (("SchedulerParameters", "bf_window=1"), ("SlurmctldPort", "1"))
    lines = slurm_conf(LAYOUT, site, live=False).splitlines()
    assert "SchedulerParameters=bf_window=1" in lines
    assert "SlurmctldPort=21000" in lines
    assert "SlurmUser=slurm" in lines
    assert lines[-1] == "Include supernode.conf"
    foreign = slurm_conf(LAYOUT, site, live=False, foreign=("c1", "c2"))
    assert foreign.endswith("NodeName=c[1-2] CPUs=1 State=FUTURE\nInclude supernode.conf\n")
    names = [line.split("=")[0] for line in lines]
    assert len(names) == len(set(names))


def test_live_and_plain_twins_differ_in_who_powers_nodes() -> None:
    assert "SuspendProgram=/bin/true" in slurm_conf(LAYOUT, (), live=False)
    assert "SuspendProgram" not in slurm_conf(LAYOUT, (), live=True)
    assert "SlurmdParameters=config_overrides" in slurm_conf(LAYOUT, (), live=True)


def test_cgroups_are_switched_off_as_each_release_can() -> None:
    old = cgroup_conf(find_release("22.05"))
    assert old == "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
    assert cgroup_conf(find_release("24.11")) == "CgroupPlugin=disabled\n"


SITE = """\
# The site's
SelectType=select/cons_tres SelectTypeParameters=CR_Core_Memory  # two on a line
SchedulerParameters=bf_window=2880,\\
bf_resolution=300
schedulertype = sched/backfill
Prolog=/etc/slurm/prolog.sh
AccountingStorageType=accounting_storage/slurmdbd
AuthType=auth/munge
NodeName=n[1-4] CPUs=8 PreemptMode=OFF
Include more.conf
PriorityWeightFairshare=100
PreemptType=preempt/qos
JobSubmitPlugins=lua
StateSaveLocation=/var/spool/slurmctld
ParameterOfTheFuture=1
"""


def test_scheduling_parameters_are_kept() -> None:
    assert read_site_conf(SITE).kept == (
        ("SchedulerParameters", "bf_window=2880,bf_resolution=300"),
        ("SchedulerType", "sched/backfill"),
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_Core_Memory"),
    )


def test_everything_else_is_dropped_with_line_and_reason() -> None:
    dropped = {item.key: item for item in read_site_conf(SITE).dropped}
    assert {key: item.line for key, item in dropped.items()} == {
        "Prolog": 6,
        "AccountingStorageType": 7,
        "AuthType": 8,
        "NodeName": 9,
        "Include": 10,
        "PriorityWeightFairshare": 11,
        "PreemptType": 12,
        "JobSubmitPlugins": 13,
        "StateSaveLocation": 14,
        "ParameterOfTheFuture": 15,
    }
    assert "runs no program" in dropped["Prolog"].reason
    assert "needs accounting" in dropped["PriorityWeightFairshare"].reason
    assert "needs accounting" in dropped["PreemptType"].reason
    assert dropped["AuthType"].reason == "is the twin's own"
    assert "inventory" in dropped["NodeName"].reason


@pytest.mark.parametrize(
    "line",
    [
        "Prolog=/bin/x",
        "HealthCheckProgram=/bin/x",
        "ResumeProgram=/bin/x",
        "SlurmctldPrimaryOnProg=/bin/x",
        "PlugStackConfig=/etc/x",
        "PluginDir=/tmp/x",
        "CliFilterPlugins=lua",
        "TaskProlog=/bin/x",
        "UnkillableStepProgram=/bin/x",
        "RebootProgram=/bin/x",
        "MailProg=/bin/x",
        'SelectType=a Prolog="/bin/x y"',
        "SELECTTYPE=a\\\n prolog=/bin/x",
        "JobCompLoc=/tmp/x",
        "SrunProlog = /bin/x",
    ],
)
def test_no_program_or_path_of_a_site_passes(line: str) -> None:
    site = read_site_conf(line)
    assert all("/" not in value for _, value in site.kept)
    assert site.dropped


def test_an_empty_or_odd_file_is_no_error() -> None:
    assert read_site_conf("").kept == ()
    assert list(map(str, read_site_conf("garbage here\nKillWait=\n").dropped)) == [
        "slurm.conf:1: the rest of the line is left out: expected Key=value, got 'garbage here'",
        "slurm.conf:2: the rest of the line is left out: KillWait has no value",
    ]


def test_a_log_is_judged_by_levels_in_their_place() -> None:
    text = (
        "slurmctld: slurmctld version 22.05.8 started on cluster twin\n"
        "slurmctld: error: Could not open node state file /s/node_state: No such file\n"
        "slurmctld: error: NOTE: Trying backup state save file. Information may be lost!\n"
        "slurmctld: error: WARNING: Invalid hostnames in switch configuration: n9\n"
        "slurmctld: warning: Ignoring file-less GPU gpu:h100\n"
        "slurmctld: WARNING: A line in gres.conf has 8 more configured than expected\n"
        "slurmctld: debug:  no error: fatal: here\n"
        "[2026-01-01T00:00:00.000] fatal: Switch (s1) has already been defined\n"
        "slurmctld: error: High latency for 1000 calls to gettimeofday(): 2887 microseconds\n"
        "slurmctld: error: slurm_receive_msg: Zero Bytes were transmitted or received\n"
        "slurmctld: warning: Ignoring file-less GPU gpu:h100\n"
    )
    assert judge(text) == (
        "error: WARNING: Invalid hostnames in switch configuration: n9",
        "warning: Ignoring file-less GPU gpu:h100",
        "WARNING: A line in gres.conf has 8 more configured than expected",
        "fatal: Switch (s1) has already been defined",
    )


QUOTED = """\
GresTypes=gpu
 taskprolog = /site/prolog.sh
Epilog=/site/epilog.sh
PrologSlurmctld=/site/x
AccountingStorageTRES=gres/gpu
NodeName=n1 CPUs=4 State=DOWN Reason="bad disk State=DOWN" NodeAddr=10.0.0.1 Port=7
PartitionName=p Nodes=n1 TRESBillingWeights="CPU=1.0, Mem=0.2" State=UP
"""


def test_values_in_quotes_stay_whole_and_no_program_or_address_of_a_site_stays() -> None:
    cloud = cloud_files({"supernode.conf": QUOTED})["supernode.conf"]
    assert cloud.splitlines() == [
        "GresTypes=gpu",
        'NodeName=n1 CPUs=4 Reason="bad disk State=DOWN" State=CLOUD',
        "PartitionName=p Nodes=n1 State=UP",
    ]


def test_only_our_own_plugin_runs() -> None:
    asked = {"supernode.conf": "GresTypes=gpu\nJobSubmitPlugins=lua,all_partitions\n"}
    ours = asked | {
        "job_submit.lua": "-- Written by 'sn generate' for cluster c and Slurm 26.05.\n"
    }
    theirs = asked | {"job_submit.lua": "os.remove('x')\n"}
    for change in (cloud_files, lambda files: live_files(files, LAYOUT)):
        assert change(ours)["supernode.conf"] == "GresTypes=gpu\nJobSubmitPlugins=lua\n"
        assert change(theirs)["supernode.conf"] == "GresTypes=gpu\n"
