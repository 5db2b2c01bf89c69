"""The catalogue against what vendors' tools printed on machines of others: ``tested: real``."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from supernode_slurm.catalogue import UnknownName, find_accelerator, platform

MATERIAL = Path(__file__).resolve().parents[2] / "shared/realdata"

pytestmark = pytest.mark.skipif(not MATERIAL.is_dir(), reason=f"{MATERIAL} is not at hand")


def text(name: str) -> str:
    return (MATERIAL / name).read_text(encoding="utf-8")


def memory_gib(name: str) -> float:
    """Return what the catalogue says of one device, if its vendor's output is said to be real."""
    card = find_accelerator(name)
    assert platform(card.vendor).tested == "real"
    assert card.confidence_in("memory") == "verified"
    assert card.memory_gib is not None
    return card.memory_gib


@pytest.mark.parametrize("name", ["a100-sxm4-v12", "tesla-t4", "rtx-3080-v13"])
def test_nvidia_smi_names_a_card_and_shows_its_memory(name: str) -> None:
    gpu = ElementTree.fromstring(text(f"logs/nvsmi/telegraf_{name}.xml")).find("gpu")
    assert gpu is not None
    # Instances of a card in MIG mode have such an element of their own, further down.
    product, total = gpu.findtext("product_name"), gpu.findtext("fb_memory_usage/total")
    assert product
    assert total
    mib = int(total.removesuffix(" MiB"))
    assert memory_gib(product) == pytest.approx(mib / 1024, rel=0.005)


@pytest.mark.parametrize(
    ("log", "pattern", "found"),
    [
        ("nvsmi/q_4090_idle_pcie_gen1.txt", r"Product Name +: (.*)", {"rtx-4090"}),
        ("nvsmi/nvlink_status_a100.txt", r"GPU \d: (.*?) \(UUID", {"a100-sxm-80g"}),
        ("fabric/gb300_fabric_in_progress.txt", r"\d, (NVIDIA .*?),", {"gb300"}),
        ("nccl_tests/a100_8gpu_allreduce.txt", r"\[0x\w+\] (.*)", {"a100-sxm-40g"}),
        ("nccl_tests/oci_h100_two_nodes.txt", r"\[0x\w+\] (NVIDIA .*)", {"h100-sxm"}),
        ("vendor/rocm_smi_mi300x_8.txt", r"^ +(AMD .*)", {"mi300x"}),
        ("ascend/npu_info_before.txt", r"(Ascend 9\w+)$", {"ascend-910a"}),
    ],
)
def test_the_names_that_tools_print_are_found(log: str, pattern: str, found: set[str]) -> None:
    names = re.findall(pattern, text(f"logs/{log}"), re.MULTILINE)
    assert {find_accelerator(name.strip()).id for name in names} == found


@pytest.mark.parametrize("name", ["mi100_rocm602", "vega-20-WKS-GL-XE"])
def test_rocm_smi_names_a_card_and_shows_its_memory(name: str) -> None:
    cards = json.loads(text(f"logs/vendor/rocm_smi_{name}.json"))
    shown = [card for card in cards.values() if "Card series" in card]
    assert shown
    for card in shown:
        series = re.sub(r".*\[(.*)\]", r"\1", card["Card series"])
        total = int(card["VRAM Total Memory (B)"]) / 2**30
        assert memory_gib(series) == pytest.approx(total, rel=0.005)


def test_npu_smi_shows_the_memory_of_each_die() -> None:
    rows = text("logs/ascend/npu_smi_info_910c_16chips.txt")
    totals = [int(total) for total in re.findall(r"/ (65536) +\|", rows)]
    assert len(totals) == find_accelerator("910C").devices_per_node
    assert memory_gib("910C") == totals[0] / 1024
    # The name alone would mean the 910A, which has half the memory: its note says so.
    assert "Ascend910" in rows
    assert find_accelerator("Ascend910").memory_gib == 32
    assert "the memory of a device, 64 GiB, tells" in find_accelerator("Ascend910").note


def test_npu_smi_names_the_card_of_sixteen_to_a_node() -> None:
    rows = text("logs/ascend/npu_smi_info_910b2c_ids12_15.txt")
    names = set(re.findall(r"\| \d+ +(910\w+) ", rows))
    assert {find_accelerator(name).id for name in names} == {"ascend-910b2c"}
    assert memory_gib("910B2C") == 65536 / 1024
    assert find_accelerator("910B2C").devices_per_node > max(
        map(int, re.findall(r"\| (\d+) +910", rows))
    )


def test_hy_smi_names_no_card_so_nothing_of_it_was_compared() -> None:
    for name in ("full_load", "half_occupied"):
        rows = text(f"logs/vendor/hy_smi_8_{name}.txt")
        assert "HCU" in rows
        assert not re.search(r"K100|BW|Z100|[MG]i?B", rows)
    assert platform("hygon").tested == "none"


def test_cards_of_a_real_machine_room_are_found_unless_their_names_were_hidden() -> None:
    rows = csv.DictReader(text("slurm_configs/alibaba_gpu2023_node_list.csv").splitlines())
    names = {row["model"] for row in rows} - {""}
    found = {name: find_accelerator(name).id for name in names - {"G2", "G3"}}
    assert found == {
        "A10": "a10",
        "P100": "p100-pcie-16g",
        "T4": "t4",
        "V100M16": "v100-sxm-16g",
        "V100M32": "v100-sxm-32g",
    }
    for hidden in names & {"G2", "G3"}:
        with pytest.raises(UnknownName):
            find_accelerator(hidden)


@pytest.mark.parametrize(
    ("file", "open_names"),
    [
        ("site_ibnodo_gres.conf", set()),
        # Each of these is several cards of different generations.
        ("site_lab_mixed_gres.conf", {"titan", "quadro"}),
    ],
)
def test_gres_types_of_real_sites_are_found(file: str, open_names: set[str]) -> None:
    types = set(re.findall(r"Type=(\w+)", text(f"slurm_configs/{file}")))
    unknown = set()
    for name in types:
        try:
            find_accelerator(name)
        except UnknownName:
            unknown.add(name)
    assert types
    assert unknown == open_names
