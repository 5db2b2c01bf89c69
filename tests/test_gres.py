"""Cards of every vendor, in every shape that sites have them, as Slurm's files say it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm import hostlist
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import Inventory, gres_devices, loads
from supernode_slurm.slurmconf import find_release, generate, write
from supernode_slurm.slurmconf.billing import billing_weights
from supernode_slurm.slurmconf.gres import gres_conf
from supernode_slurm.slurmconf.nodes import (
    accounting_line,
    gres_types,
    nodes_conf,
    partitions_conf,
)
from supernode_slurm.slurmconf.prolog import TASK_PROLOG, task_prolog

SHAPE = "sockets: 2, cores: 8, threads: 2, memory: 100 GiB"


def pool(*nodes: str, slurm: str = "{}", partition: str = "{pools: [p]}") -> str:
    """Return an inventory of one pool; its nodes are given without sockets and memory."""
    listed = "".join(f"      - {{{text}, {SHAPE}}}\n" for text in nodes)
    return (
        f"version: 1\ncluster: c\nslurm: {slurm}\npools:\n  - name: p\n    nodes:\n{listed}"
        f"partitions:\n  every: {partition}\n"
    )


def room(*nodes: str, slurm: str = "{}", partition: str = "{pools: [p]}") -> Inventory:
    return loads(pool(*nodes, slurm=slurm, partition=partition))


def gres_lines(*nodes: str) -> list[str]:
    return gres_conf(room(*nodes))[0].splitlines()


def node_lines(*nodes: str) -> list[str]:
    return nodes_conf(room(*nodes), {}).splitlines()[1:]


def problems(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("device", "files", "flags"),
    [
        ("h100", "/dev/nvidia[0-7]", "nvidia_gpu_env"),
        ("mi300x", "/dev/dri/renderD[128-135]", "amd_gpu_env"),
        ("ascend-910b2", "/dev/davinci[0-7]", "no_gpu_env"),
        ("mlu590", "/dev/cambricon_dev[0-7]", "no_gpu_env"),
        ("dcu-k100-ai", "/dev/dri/renderD[128-135]", "no_gpu_env"),
        ("mtt-s5000", "/dev/mtgpu.[0-7]", "no_gpu_env"),
        ("metax-c550", "/dev/dri/renderD[128-135]", "nvidia_gpu_env"),
        ("bi-v150", "/dev/iluvatar[0-7]", "nvidia_gpu_env"),
        ("kunlun-p800", "/dev/xpu[0-7]", "no_gpu_env"),
        ("br104", "/dev/biren/card_[0-7]", "no_gpu_env"),
        ("enflame-s60", "/dev/gcu[0-7]", "no_gpu_env"),
    ],
)
def test_each_vendor_has_its_files_and_its_variable(device: str, files: str, flags: str) -> None:
    (line,) = gres_lines(f'hosts: "n[1-2]", devices: {{{device}: 8}}')
    kind = room(f"hosts: n1, devices: {{{device}: 8}}").node_classes[0].devices[0].type
    assert line == f"NodeName=n[1-2] Name=gpu Type={kind} File={files} Flags={flags}"


def test_a_card_of_two_devices_counts_twice() -> None:
    assert "File=/dev/davinci[0-15]" in gres_lines("hosts: n1, devices: {ascend910c: 16}")[0]
    assert "File=/dev/dri/renderD[128-143]" in gres_lines("hosts: n1, devices: {mi250x: 16}")[0]
    assert "Gres=gpu:mi250x:16" in node_lines("hosts: n1, devices: {mi250x: 16}")[0]


@pytest.mark.parametrize(("name", "device"), [("npu", "ascend910c"), ("dcu", "dcu-k100-ai")])
def test_a_gres_of_another_name_has_no_flags(name: str, device: str) -> None:
    own = room(f"hosts: n1, devices: {{{device}: 8}}, gres: {name}, type: x")
    assert gres_types(own) == [name]
    assert "Flags" not in gres_conf(own)[0]
    assert f"Gres={name}:x:8 " in nodes_conf(own, {})


def test_two_kinds_of_one_vendor_are_numbered_through_around_a_missing_card() -> None:
    nodes = "hosts: n1, devices: {a100: {count: 3, missing: [1]}, h100: {count: 4, missing: [6]}}"
    first, second = gres_lines(nodes)
    assert "Type=a100 File=/dev/nvidia[0,2-3] " in first
    assert "Type=h100 File=/dev/nvidia[4-5,7-8] " in second
    assert "Gres=gpu:a100:3,gpu:h100:4 " in node_lines(nodes)[0]


def test_two_vendors_on_a_node_count_their_files_apart() -> None:
    first, second = gres_lines("hosts: n1, devices: {h100: 2, ascend910c: {count: 2, gres: npu}}")
    assert "Name=gpu Type=h100 File=/dev/nvidia[0-1] Flags=nvidia_gpu_env" in first
    assert second == "NodeName=n1 Name=npu Type=ascend910c File=/dev/davinci[0-1]"


def test_vendors_whose_files_have_the_same_names_never_share_one() -> None:
    first, second = gres_lines("hosts: n1, devices: {mi300x: 2, metax-c550: {count: 2, gres: gcu}}")
    assert "renderD[128-129]" in first
    assert "renderD[130-131]" in second


def test_a_class_with_one_card_less_has_a_line_of_its_own() -> None:
    whole, less = gres_lines(
        'hosts: "n[1-9]", devices: {h100: 8}',
        "hosts: n10, devices: {h100: {count: 7, missing: [3]}}",
    )
    assert "NodeName=n[1-9] " in whole
    assert "NodeName=n10 " in less
    assert "File=/dev/nvidia[0-2,4-7] " in less


def test_files_of_the_site_keep_their_order() -> None:
    (line,) = gres_lines('hosts: n1, devices: {h100: {count: 3, files: "/dev/nvidia[2,0-1]"}}')
    assert "File=/dev/nvidia[2,0-1] " in line


def test_cores_go_to_equal_shares_of_the_cards() -> None:
    first, second = gres_lines('hosts: n1, devices: {h100: {count: 8, cores: ["0-7", "8-15"]}}')
    assert "File=/dev/nvidia[0-3] Cores=0-7 " in first
    assert "File=/dev/nvidia[4-7] Cores=8-15 " in second
    (both,) = gres_lines('hosts: n1, devices: {h100: {count: 8, cores: ["0-7,8-15"]}}')
    assert "File=/dev/nvidia[0-7] Cores=0-7,8-15 " in both


def test_links_take_a_line_for_each_device() -> None:
    links = '["-1,16,16", "16,-1,16", "16,16,-1"]'
    lines = gres_lines(f"hosts: n1, devices: {{h100: {{count: 3, links: {links}}}}}")
    fields = [line.split()[3:5] for line in lines]
    assert fields == [
        ["File=/dev/nvidia0", "Links=-1,16,16"],
        ["File=/dev/nvidia1", "Links=16,-1,16"],
        ["File=/dev/nvidia2", "Links=16,16,-1"],
    ]


def test_a_mig_instance_has_its_three_files() -> None:
    """Minors as published listings of mig-minors have them: gpu0/gi7 66, gpu4/gi7 606."""
    nodes = 'hosts: n1, devices: {h100: {count: 5, mig: {"1g.10gb": [8, 7], "4g.40gb": [2]}}}'
    lines = gres_lines(nodes)
    assert len(lines) == 15
    assert lines[0] == (
        "NodeName=n1 Name=gpu Type=h100_1g.10gb MultipleFiles=/dev/nvidia0,"
        "/dev/nvidia-caps/nvidia-cap66,/dev/nvidia-caps/nvidia-cap67 Flags=nvidia_gpu_env"
    )
    assert "nvidia4,/dev/nvidia-caps/nvidia-cap606,/dev/nvidia-caps/nvidia-cap607 " in lines[12]
    assert (
        "Type=h100_4g.40gb MultipleFiles=/dev/nvidia2,/dev/nvidia-caps/nvidia-cap291," in lines[8]
    )
    (node,) = node_lines(nodes)
    assert "Gres=gpu:h100_1g.10gb:10,gpu:h100_4g.40gb:5 Feature=p,h100 " in node
    assert any("ConstrainDevices=yes" in note for note in gres_conf(room(nodes))[1])


def test_some_cards_of_a_node_may_be_split_and_others_whole() -> None:
    nodes = (
        "hosts: n1, devices: {a100-sxm-80g: 6, "
        'A100: {count: 2, mig: {"1g.10gb+me": [9], "3g.40gb": [1, 2]}}}'
    )
    (node,) = node_lines(nodes)
    assert "Gres=gpu:a100:6,gpu:a100_1g.10gb.me:2,gpu:a100_3g.40gb:4 " in node
    assert "MultipleFiles=/dev/nvidia6," in gres_lines(nodes)[1]


def test_shards_name_the_cards_that_they_share() -> None:
    nodes = "hosts: n1, devices: {h100: {count: 2, shards: 8}, a100: {count: 2, shards: 4}}"
    assert gres_lines(nodes)[2:] == [
        "NodeName=n1 Name=shard Count=16 File=/dev/nvidia[0-1]",
        "NodeName=n1 Name=shard Count=8 File=/dev/nvidia[2-3]",
    ]
    assert "Gres=gpu:h100:2,gpu:a100:2,shard:24 " in node_lines(nodes)[0]
    assert gres_types(room(nodes)) == ["gpu", "shard"]


def test_a_mixed_partition_writes_each_type_and_cpu_nodes_none() -> None:
    """BR034: only the first of two types was written. BR035: CPU nodes were counted."""
    own = room(
        'hosts: "t[1-5]", devices: {a100: 1}',
        'hosts: "g[1-2]", devices: {h100: 4}',
        'hosts: "c[1-10]"',
    )
    assert [line.split()[:3] for line in gres_conf(own)[0].splitlines()] == [
        ["NodeName=t[1-5]", "Name=gpu", "Type=a100"],
        ["NodeName=g[1-2]", "Name=gpu", "Type=h100"],
    ]
    nodes = nodes_conf(own, {}).splitlines()[1:]
    assert ["Gres=" in line for line in nodes] == [True, True, False]
    assert nodes[2].endswith("Feature=p State=UNKNOWN")


def test_cloud_nodes_of_two_vendors_have_no_flags_and_it_is_said() -> None:
    amd = "hosts: b1, devices: {mi300x: 2}, cloud: true"
    text, notes = gres_conf(room("hosts: a1, devices: {h100: 2}, cloud: true", amd))
    assert "Flags" not in text
    assert "cloud nodes with cards of amd and nvidia" in notes[0]
    text, notes = gres_conf(room("hosts: a1, devices: {h100: 2}", amd))
    assert (text.count("Flags="), notes) == (2, [])


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        # BR025: hyper-threads copied from nvidia-smi. The node has 16 cores.
        ('h100: {count: 2, cores: ["0-7,16-23"]}', "without hyper-threads"),
        # BR028: an affinity smaller than the socket drains the node.
        ('h100: {count: 2, cores: ["0-3"]}', "cores 0-3 end inside a socket of 8"),
        ('h100: {count: 2, cores: ["7-0"]}', "cores 7-0 run backwards"),
        ('h100: {count: 3, cores: ["0-7", "8-15"]}', "no equal shares for 2 ranges"),
        ('h100: {count: 2, links: ["-1,4"]}', "1 lists of links for 2 cards"),
        ('h100: {count: 2, links: ["-1,4,4", "4,-1,4"]}', "links -1,4,4 of device 0 of 2"),
        ('h100: {count: 2, links: ["4,-1", "-1,4"]}', "-1 for itself"),
        ('h100: {count: 8, files: "/dev/nvidia[0-6]"}', "files do not name 8 devices"),
        ('h100: {count: 2, files: "/dev/nvidia[0-1]", missing: [0]}', "leave one out"),
        (
            'h100: {count: 2, files: "/dev/nvidia[0-1]"}, a100: {count: 1}',
            "/dev/nvidia0 is the file of two cards",
        ),
        ("h100: 600, a100: 600", "1200 devices of GRES 'gpu' in a node"),
        ("h100: {count: 2, gres: npu, shards: 4}", "Slurm shares 'gpu' only"),
        ('h100: {count: 1, shards: 4, mig: {"1g.10gb": [7]}}', "split by MIG or into shards"),
        ('h100: {count: 1, mig: {"1g.10gb": [7], "2g.20gb": [7]}}', "instance 7 is listed twice"),
        ('h100: {count: 1, mig: {"1g.10gb": [15]}}', "ids go up to 14"),
        ('mi300x: {count: 1, mig: {"1g.10gb": [7]}}', "mi300x has no MIG"),
        ('h100: {count: 1, links: ["-1"], mig: {"1g.10gb": [7]}}', "links of MIG instances"),
        ('h100: {count: 1, files: /dev/gpu, mig: {"1g.10gb": [7]}}', "files without a number"),
        ("a100: 4, A100: 4", "two entries are of the same GRES type"),
        # Both leave their variable to us, but their indexes would run through each other.
        ("ascend910c: 4, mlu590: 4", "cards of two vendors in one node"),
    ],
)
def test_what_slurm_would_die_of_is_named_before(devices: str, expected: str) -> None:
    assert expected in problems(pool(f"hosts: n1, devices: {{{devices}}}"))


def test_two_gres_names_may_hold_two_vendors() -> None:
    room("hosts: n1, devices: {ascend910c: 4, mlu590: {count: 4, gres: mlu}}")


def test_a_cloud_node_has_no_other_state() -> None:
    text = pool("hosts: n1, devices: {h100: 8}, cloud: true, options: {State: DOWN}")
    assert "cloud nodes with a State of their own" in problems(text)


def test_options_and_features_of_the_site_follow_ours() -> None:
    own = room(
        "hosts: n1, devices: {h100: 8}, features: [ib, h100], "
        "options: {weight: 5, state: DOWN, reason: being built}",
        "hosts: n2, devices: {h100: 8}, cloud: true",
        partition="{pools: [p], options: {priorityTier: 3, state: DRAIN}}",
    )
    first, second = nodes_conf(own, {"n2": "default:b1"}).splitlines()[1:]
    assert first.endswith('Feature=p,h100,ib State=DOWN Weight=5 Reason="being built"')
    assert second.endswith("Feature=p,h100 Topology=default:b1 State=CLOUD")
    line = partitions_conf(own, {"every": "t1"})
    assert line.endswith("Nodes=n[1-2] Default=NO Topology=t1 State=DRAIN PriorityTier=3\n")


def test_gres_is_tracked_where_slurmdbd_runs() -> None:
    nodes = (
        'hosts: n1, devices: {h100: {count: 1, mig: {"1g.10gb": [7]}}}',
        "hosts: n2, devices: {a100: {count: 2, shards: 4}, ascend910c: {count: 2, gres: npu}}",
    )
    assert accounting_line(room(*nodes)) is None
    assert accounting_line(room("hosts: n1", slurm="{slurmdbd: true}")) is None
    assert accounting_line(room(*nodes, slurm="{slurmdbd: true}")) == (
        "AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100_1g.10gb,"
        "gres/npu,gres/npu:ascend910c,gres/shard"
    )


BILLED = "{slurmdbd: true, billing: true}"


def test_a_partition_bills_what_its_cards_deliver() -> None:
    one = room("hosts: n1, devices: {h100: 8}", slurm=BILLED)
    assert billing_weights(one, one.partitions[0]) == "GRES/gpu=794"
    two = room("hosts: n1, devices: {h100: 8}", "hosts: n2, devices: {a100: 8}", slurm=BILLED)
    line = partitions_conf(two, {})
    assert line.endswith(" TRESBillingWeights=GRES/gpu:a100=271,GRES/gpu:h100=794\n")
    device = room("hosts: n1, devices: {ascend910c: 16}, gres: npu", slurm=BILLED)
    assert billing_weights(device, device.partitions[0]) == "GRES/npu=248"


def test_parts_of_a_card_are_billed_as_parts() -> None:
    mig = room(
        'hosts: n1, devices: {h100: {count: 1, mig: {"1g.10gb": [7], "3g.40gb": [1]}}}',
        slurm=BILLED,
    )
    weights = billing_weights(mig, mig.partitions[0])
    assert weights == "GRES/gpu:h100_1g.10gb=114,GRES/gpu:h100_3g.40gb=340"
    shared = room("hosts: n1, devices: {a100: {count: 2, shards: 4}}", slurm=BILLED)
    assert billing_weights(shared, shared.partitions[0]) == "GRES/gpu=271,GRES/shard=68"


def test_only_the_nodes_of_a_partition_are_billed() -> None:
    nodes = ("hosts: n1, devices: {h100: 8}", "hosts: n2, devices: {a100: 8}", "hosts: c1")
    part = room(*nodes, slurm=BILLED, partition="{hosts: [n2, c1]}")
    assert billing_weights(part, part.partitions[0]) == "GRES/gpu=271"
    plain = room(*nodes, slurm=BILLED, partition="{hosts: [c1]}")
    assert "TRESBillingWeights" not in partitions_conf(plain, {})
    off = room(*nodes, slurm="{slurmdbd: true}")
    assert "TRESBillingWeights" not in partitions_conf(off, {})


def test_a_site_may_bill_as_it_likes_and_must_where_nobody_knows_the_rate() -> None:
    nodes = "hosts: n1, devices: {dcu-k100: 8}"
    with pytest.raises(ConfigError, match="partition every bills dcu-k100, which has no known"):
        partitions_conf(room(nodes, slurm=BILLED), {})
    own = "{pools: [p], options: {TRESBillingWeights: GRES/gpu=3}}"
    line = partitions_conf(room(nodes, slurm=BILLED, partition=own), {})
    assert line.endswith(" State=UP TRESBillingWeights=GRES/gpu=3\n")


@pytest.mark.parametrize("device", ["h100", "mi300x", "bi-v150"])
def test_no_prolog_where_slurm_sets_the_variable(device: str) -> None:
    own = room(f"hosts: n1, devices: {{{device}: 8}}", "hosts: c1", slurm="{task_prolog: /x}")
    assert task_prolog(own) is None
    made = generate(own, find_release("24.11"))
    assert TASK_PROLOG not in made.files
    assert "TaskProlog" not in made.files["supernode.conf"]
    assert any("none is needed" in note for note in made.notes)


def run_prolog(own: Inventory, **environ: str) -> list[str]:
    """Return what the script prints for a task of GRES named gpu."""
    text = task_prolog(own)
    assert text is not None
    done = subprocess.run(
        ["sh", "-eu"],
        input=text,
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("device", "names"),
    [
        ("ascend910c", ["ASCEND_RT_VISIBLE_DEVICES"]),
        ("mlu590", ["MLU_VISIBLE_DEVICES"]),
        ("dcu-k100-ai", ["HIP_VISIBLE_DEVICES"]),
        ("mtt-s5000", ["MUSA_VISIBLE_DEVICES"]),
        ("metax-c550", ["MACA_VISIBLE_DEVICES"]),
        ("kunlun-p800", ["XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]),
        ("br104", ["SUPA_VISIBLE_DEVICES"]),
        ("enflame-s60", ["TOPS_VISIBLE_DEVICES"]),
    ],
)
def test_the_prolog_sets_what_slurm_does_not(device: str, names: list[str]) -> None:
    own = room(f"hosts: n1, devices: {{{device}: 8}}")
    step = {"SLURMD_NODENAME": "n1", "SLURM_STEP_ID": "0", "SLURM_STEP_GPUS": "2,5"}
    assert run_prolog(own, **step) == [f"export {name}=2,5" for name in names]


@pytest.mark.parametrize("step", ["", "-5", "4294967291"])
def test_a_batch_script_has_the_devices_of_its_job(step: str) -> None:
    own = room("hosts: n1, devices: {ascend910c: 8}")
    environ = {"SLURMD_NODENAME": "n1", "SLURM_STEP_ID": step, "SLURM_JOB_GPUS": "0,1"}
    assert run_prolog(own, **environ) == ["export ASCEND_RT_VISIBLE_DEVICES=0,1"]


def test_a_step_without_devices_is_not_given_those_of_its_job() -> None:
    own = room("hosts: n1, devices: {ascend910c: 8}")
    assert run_prolog(own, SLURM_STEP_ID="3", SLURM_JOB_GPUS="0,1") == []


def test_each_node_gets_its_own_vendors_variable() -> None:
    own = room(
        'hosts: "a[08-12],b1", devices: {ascend910c: 8}',
        'hosts: "a[13-14],m[1-9]", devices: {mlu590: 8}',
        'hosts: "h[1-2],c1", devices: {h100: 8}',
    )
    names = ("ASCEND_RT", "MLU", None)
    for nodes, name in zip(own.node_classes, names, strict=True):
        expected = [f"export {name}_VISIBLE_DEVICES=1"] if name else []
        for host in nodes.hosts:
            environ = {"SLURMD_NODENAME": host, "SLURM_STEP_ID": "0", "SLURM_STEP_GPUS": "1"}
            assert run_prolog(own, **environ) == expected
    assert "m[0-9])" in str(task_prolog(own))


def test_the_prolog_repairs_what_cloud_nodes_without_flags_get() -> None:
    own = room(
        "hosts: a1, devices: {h100: 2}, cloud: true",
        "hosts: b1, devices: {mi300x: 2}, cloud: true",
    )
    environ = {"SLURMD_NODENAME": "b1", "SLURM_STEP_ID": "0", "SLURM_STEP_GPUS": "1"}
    assert run_prolog(own, **environ) == [
        "unset CUDA_VISIBLE_DEVICES",
        "unset GPU_DEVICE_ORDINAL",
        "unset ZE_AFFINITY_MASK",
    ]


def test_the_prolog_is_ours_and_may_be_executed(tmp_path: Path) -> None:
    own = room("hosts: n1, devices: {ascend910c: 8}", slurm="{task_prolog: /opt/sn/prolog.sh}")
    made = generate(own, find_release("24.11"))
    assert "TaskProlog=/opt/sn/prolog.sh\n" in made.files["supernode.conf"]
    assert TASK_PROLOG in write(made, tmp_path)
    path = tmp_path / TASK_PROLOG
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/bin/sh\n# Written by 'sn generate'")
    assert write(made, tmp_path) == []
    path.write_text(path.read_text() + "# old\n")
    assert write(made, tmp_path) == [TASK_PROLOG]


def test_the_documents_example_is_one() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "cards.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    made = generate(loads(example), find_release("24.11"))
    assert "Gres=gpu:a100:6,gpu:a100_1g.10gb:8,gpu:a100_3g.40gb:2 " in "".join(made.files.values())
    assert TASK_PROLOG in made.files


KINDS = st.sampled_from(["h100", "a100", "mi300x", "ascend910c", "mlu590", "mtt-s5000"])


@st.composite
def sections(draw: st.DrawFn) -> str:
    """Return the cards of a node, of one to three kinds, each of a GRES name of its own."""
    entries = []
    for index, kind in enumerate(draw(st.lists(KINDS, min_size=1, max_size=3, unique=True))):
        count = draw(st.integers(1, 16))
        fields = [f"count: {count}", f"gres: {'gpu' if index == 0 else f'g{index}'}"]
        fields.append(f"missing: {draw(st.lists(st.integers(0, 20), max_size=3))}")
        if count % 2 == 0 and draw(st.booleans()):
            fields.append('cores: ["0-7", "8-15"]')
        if kind in ("h100", "a100") and draw(st.booleans()):
            ids = draw(st.lists(st.integers(0, 14), min_size=1, max_size=7, unique=True))
            fields.append(f'mig: {{"1g.10gb": {ids}}}')
        elif index == 0 and draw(st.booleans()):
            fields.append(f"shards: {draw(st.integers(1, 9))}")
        entries.append(f"{kind}: {{{', '.join(fields)}}}")
    return ", ".join(entries)


@given(sections())
def test_gres_conf_and_the_node_line_count_the_same(devices: str) -> None:
    """BR030: never AutoDetect beside lines. BR031: both files count the same."""
    own = room(f'hosts: "n[1-3]", devices: {{{devices}}}')
    text, _ = gres_conf(own)
    counted: dict[str, int] = {}
    used: list[str] = []
    for line in text.splitlines():
        fields = dict(word.split("=", 1) for word in line.split())
        assert fields.keys() >= {"NodeName", "Name"}
        assert all(fields.values())
        assert "AutoDetect" not in fields
        listed = hostlist.expand(fields["File"].replace("/", "_")) if "File" in fields else []
        if fields["Name"] == "shard":
            counted["shard"] = counted.get("shard", 0) + int(fields["Count"])
            assert int(fields["Count"]) % len(listed) == 0
            continue
        assert "Count" not in fields
        key = f"{fields['Name']}:{fields['Type']}"
        counted[key] = counted.get(key, 0) + (len(listed) or 1)
        used += listed or [fields["MultipleFiles"]]
    assert len(set(used)) == len(used)
    (line,) = nodes_conf(own, {}).splitlines()[1:]
    found = re.search(r"Gres=(\S+)", line)
    assert found is not None
    assert dict(item.rsplit(":", 1) for item in found[1].split(",")) == {
        key: str(count) for key, count in counted.items()
    }
    whole = [device for device in gres_devices(own.node_classes[0].devices) if device.gres == "gpu"]
    assert len(whole) == sum(n for key, n in counted.items() if key.startswith("gpu:"))


def test_other_gres_is_counted_beside_the_cards() -> None:
    others = "mps: 200, fpga: 2, 'gpu:old': {count: 2, files: '/dev/nvidia[4-5]'}, 'gpu:dark': 1"
    node = f"hosts: n1, devices: {{a100: 4}}, other_gres: {{{others}}}"
    [line] = node_lines(node)
    assert "Gres=gpu:a100:4,mps:200,fpga:2,gpu:old:2,gpu:dark:1 Feature=p,a100 " in line
    assert gres_lines(node) == [
        "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env",
        "NodeName=n1 Name=mps Count=200",
        "NodeName=n1 Name=fpga Count=2",
        # Slurm dies of gpus of one node whose flags differ.
        "NodeName=n1 Name=gpu Type=old File=/dev/nvidia[4-5] Flags=nvidia_gpu_env",
    ]
    assert gres_types(room(node)) == ["fpga", "gpu", "mps"]


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ("gpu: 2", "some gpu have a type, others none: slurmctld refuses that"),
        ("'gpu:a100': 2", "gpu:a100 is among the devices too"),
        ("'gpu:x': {count: 2, files: '/dev/nvidia[3-4]'}", "/dev/nvidia3 is the file of two cards"),
        ("'gpu:x': {count: 3, files: '/dev/nvidia[4-5]'}", "files do not name 3"),
        ("shard: 4", "shards stand with their cards"),
        ("'fpga:': 4", "a GRES like"),
    ],
)
def test_other_gres_that_a_node_cannot_have_is_refused(others: str, words: str) -> None:
    assert words in problems(pool(f"hosts: n1, devices: {{a100: 4}}, other_gres: {{{others}}}"))


@pytest.mark.parametrize("devices", ["0\nprint pwned", "0;id", "$(id)", "a", "0 1", "\\n"])
def test_the_prolog_says_nothing_of_what_are_no_devices(devices: str) -> None:
    own = room("hosts: n1, devices: {ascend910c: 8}")
    assert run_prolog(own, SLURM_STEP_ID="0", SLURM_STEP_GPUS=devices) == []
