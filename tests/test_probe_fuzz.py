"""Mangled outputs of real tools: every reader takes them, says what it can, and ends.

SN_FUZZ is how many inputs each reader gets.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from supernode_slurm.discovery import import_sources
from supernode_slurm.errors import ConfigError
from supernode_slurm.probe import amd, ascend, host, network, nvidia, others, software
from supernode_slurm.slurm import CliClient
from tests.mangled import COUNT, mangled
from tests.probe_samples import H100, line, real, shape

READERS: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "xml": (
        nvidia.read_xml,
        ("nvsmi/telegraf_a100-sxm4-v12.xml", "nvsmi/telegraf_rtx-3080-v13.xml"),
    ),
    "query": (nvidia.read_query, ("nvsmi/q_4090_idle_pcie_gen1.txt",)),
    "csv": (nvidia.read_csv, ("fabric/gb300_fabric_in_progress.txt", "nvsmi/vbios_drift.txt")),
    "list": (nvidia.read_list, ("nvsmi/nvlink_status_a100.txt",)),
    "links": (nvidia.read_links, ("nvsmi/nvlink_status_a100.txt",)),
    "topology": (
        nvidia.read_topology,
        ("topo/h100_8gpu_18nic_full_ansi.txt", "topo/h100_6nic_blank_affinity_gpurows.txt"),
    ),
    "npu-smi": (
        ascend.read_info,
        (
            "ascend/npu_smi_info_910c_16chips.txt",
            "ascend/npu_smi_info_910b2c_ids12_15.txt",
            "ascend/npu_smi_info_310p_old_layout.txt",
        ),
    ),
    "npu mapping": (ascend.read_mapping, ("ascend/npu_info_before.txt",)),
    "npu board": (ascend.read_board, ("ascend/npu_info_before.txt",)),
    "super pod": (ascend.read_super_pod, ("ascend/npu_info_before.txt",)),
    "npu address": (ascend.read_address, ("ascend/hccn_ip_list.txt",)),
    "npu link": (ascend.read_link, ("ascend/npu_info_before.txt",)),
    "rocm json": (amd.read_json, ("vendor/rocm_smi_mi100_rocm602.json",)),
    "rocm table": (amd.read_table, ("vendor/rocm_smi_mi300x_8.txt",)),
    "hy-smi": (amd.read_hy_table, ("vendor/hy_smi_8_full_load.txt",)),
    "ibstat": (
        network.read_ibstat,
        ("ib/ibstat_b300_cx8_down_cx7_up.txt", "ib/ibstat_h100_roce_2_ports_down.txt"),
    ),
    "sysfs": (network.read_flat, ("ib/sysfs_h100_flat.txt",)),
    "outline": (others.read_outline, ("nvsmi/q_4090_idle_pcie_gen1.txt",)),
    "metax": (others.read_metax, ("ascend/npu_smi_info_910c_16chips.txt",)),
    "kunlun": (others.read_kunlun, ("ascend/npu_smi_info_910c_16chips.txt",)),
    "lscpu": (host.read_lscpu, ("nvsmi/q_4090_idle_pcie_gen1.txt",)),
    "ldconfig": (software.read_ldconfig, ("misc/lspci_a100.txt",)),
}
MADE: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "slurmd": (host.read_slurmd, (shape("n1", 2, 48, 2, 1031000),)),
    "meminfo": (host.read_meminfo, ("MemTotal:       24684000 kB\n",)),
    "os-release": (host.read_release, ('NAME="x"\nPRETTY_NAME="Debian GNU/Linux 12"\n',)),
    "toolkit": (software.read_toolkit, ('{"cuda": {"name": "CUDA", "version": "12.4.1"}}',)),
    "ofed": (software.read_ofed, ("MLNX_OFED_LINUX-5.8-2.0.3.0:\n",)),
    "install info": (ascend.read_install_info, ("package=x\nversion=8.0.RC2\n",)),
}


@pytest.mark.parametrize("name", [*READERS, *MADE])
def test_readers_take_any_text(name: str) -> None:
    reader, samples = READERS.get(name) or MADE[name]
    texts = [real(sample) if name in READERS else sample for sample in samples]
    assert any(reader(text) for text in texts) or name in (
        *("super pod", "metax", "kunlun", "outline", "lscpu", "ldconfig", "list"),
    )
    choose = random.Random(name)
    for _ in range(COUNT):
        text = mangled(choose.choice(texts), choose)
        found = reader(text)
        # What goes on is JSON, and no longer than a line may be.
        assert len(json.dumps(found)) < 2**22, text[:500]


def test_an_import_takes_any_answers(tmp_path: Path) -> None:
    lines = [
        line(
            tmp_path / "h", {"nvidia-smi -q -x": H100, "slurmd -C": shape("h1", 2, 56, 2, 2063000)}
        ),
        line(
            tmp_path / "n",
            {
                "npu-smi info": real("ascend/npu_smi_info_910c_16chips.txt"),
                "ibstat": real("ib/ibstat_b300_cx8_down_cx7_up.txt"),
                "slurmd -C": shape("n1", 4, 48, 1, 1945000),
            },
        ),
    ]
    choose = random.Random(1)
    path = tmp_path / "probes"
    imported = refused = 0
    for _ in range(COUNT):
        kept = choose.choice(lines)
        text = changed(kept, choose) if choose.random() < 0.7 else mangled(kept, choose)
        path.write_text(f"h: {lines[0]}n: {text}\n", encoding="utf-8", errors="replace")
        try:
            import_sources([f"probes:{path}"], {}, lambda: CliClient({}))
            imported += 1
        except ConfigError as error:
            refused += 1
            assert str(error)
    assert imported > refused


def changed(text: str, choose: random.Random) -> str:
    """Return a line that is JSON still, with values that nobody expects."""
    tree = json.loads(text)
    odd: tuple[object, ...] = (
        *(None, True, -1, 0, 1.5, 10**30, "", "x", [], {}, [[]], {"a": 1}, "{hosts}", "\n", "nan"),
        *("a b'; $(x)", "n[1-3]", "9" * 300, float("inf"), "32766", "\u202e"),
    )
    for _ in range(choose.randint(1, 6)):
        here: object = tree
        for _ in range(choose.randint(1, 5)):
            if isinstance(here, dict) and here:
                key = choose.choice(sorted(here))
                if choose.random() < 0.4:
                    here[key] = choose.choice(odd)
                    break
                here = here[key]
            elif isinstance(here, list) and here:
                index = choose.randrange(len(here))
                if choose.random() < 0.4:
                    here[index] = choose.choice(odd)
                    break
                here = here[index]
    return json.dumps(tree, separators=(",", ":"))
