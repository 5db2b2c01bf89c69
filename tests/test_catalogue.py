from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from supernode_slurm.catalogue import (
    CONFIDENCE,
    FIGURES,
    UnknownName,
    accelerators,
    find_accelerator,
    platform,
)
from supernode_slurm.catalogue.names import fold, packaged
from supernode_slurm.cli.main import cli
from supernode_slurm.planner.workload import PRECISIONS

DATA = Path(__file__).resolve().parents[2] / "shared/data"


def test_no_two_accelerators_answer_to_one_name() -> None:
    seen: dict[str, str] = {}
    for item in accelerators():
        for name in (item.id, *item.aliases):
            assert seen.setdefault(fold(name), item.id) == item.id


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("H100", "h100-sxm"),
        ("h100-sxm", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80g"),
        ("ascend910c", "ascend-910c"),
        ("Ascend_910B2", "ascend-910b2"),
        ("思元590", "mlu590"),
        ("kunlunp800", "kunlun-p800"),
        ("T4 (g4dn.12xlarge)", "t4"),
        ("Atlas 800T A2 (B2)", "ascend-910b2"),
        ("rtx_2080ti", "rtx-2080ti"),
        ("RTX-2080", "rtx-2080"),
        ("A100-SXM4-40GB", "a100-sxm-40g"),
        ("A100-NVLINK-80G", "a100-sxm-80g"),
        ("NVIDIA Ampere (A100-80GB assumed)", "a100-sxm-80g"),
        ("A100-PCIe", "a100-pcie-80g"),
        ("A800-SXM4-80GB", "a800-sxm-80g"),
        ("H100-SXM5-80GB", "h100-sxm"),
        ("H100 96GB HBM2e 500W (Grand Teton)", "h100-sxm-96g"),
        ("GH200-96GB (Alps Clariden)", "gh200"),
        ("Ascend 910B (Atlas 900 A2 PODc)", "ascend-910b2"),
        ("MetaX C500 64GB", "metax-c500"),
        ("V100-16GB (p3.8xlarge)", "v100-sxm-16g"),
        ("RTX-3090", "rtx-3090"),
        ("3090-24G", "rtx-3090"),
        ("4090-24G", "rtx-4090"),
        ("3080Ti-12G", "rtx-3080ti"),
        ("Titan-RTX", "titan-rtx"),
    ],
)
def test_an_accelerator_is_found_by_id_alias_and_gres_type(name: str, found: str) -> None:
    assert find_accelerator(name).id == found


def test_an_unknown_accelerator_is_answered_with_near_names() -> None:
    with pytest.raises(UnknownName, match=r"no accelerator 'h10-sxm'; did you mean h100-sxm"):
        find_accelerator("h10-sxm")
    with pytest.raises(UnknownName) as caught:
        find_accelerator("'; x\n\u202e" * 1000)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("h100-sxm", "h100"),
        ("a100-sxm-40g", "a100"),
        ("ascend-910c", "ascend910c"),
        ("mlu370-x8", "mlu370"),
        ("dcu-k100-ai", "dcuk100"),
    ],
)
def test_the_gres_type_ends_with_the_first_part_that_has_a_digit(name: str, short: str) -> None:
    assert find_accelerator(name).gres_type == short


def test_figures_of_a_card_with_two_devices_are_halved() -> None:
    card = find_accelerator("ascend-910c")
    assert card.card_bf16_tflops == 707.8
    assert card.peak_tflops("bf16") == pytest.approx(353.9)
    assert card.peak_tflops("fp16") == 376
    assert (card.memory_gib, card.memory_gbs, card.scale_up_gbs) == (64, 1759, 196)
    assert card.devices_per_node == 16


def test_measured_matmul_rates_replace_the_prior() -> None:
    assert find_accelerator("a100-sxm-80g").matmul_tflops("bf16") == pytest.approx(271.2)
    assert find_accelerator("h20-96g").matmul_tflops("bf16") == pytest.approx(0.7 * 148)
    assert find_accelerator("h100").matmul_tflops("fp8") == pytest.approx(1402.6)
    # The rate measured in bf16 carries over to fp16 by the peaks: 376 / 353.9.
    assert find_accelerator("910b2").matmul_tflops("fp16") == pytest.approx(304.3 * 376 / 353.9)


@pytest.mark.parametrize(
    ("name", "mxfp8", "nvfp4"),
    [
        ("B200", 4500, 9000),
        ("GB200", 5000, 10000),
        ("B300", 4500, 13500),
        ("GB300", 5000, 15000),
        ("H100", 0, 0),
        ("A100", 0, 0),
        # AMD and Huawei scale blocks as the open standard has it, and have other 4-bit formats.
        ("MI355X", 5033, 0),
        ("950DT", 919, 0),
        # Its fp8 is known, not whether it scales blocks.
        ("mtt-s5000", None, 0),
        ("910C", None, 0),
    ],
)
def test_scaled_blocks_run_at_the_rate_of_fp8_where_a_card_has_them(
    name: str, mxfp8: float | None, nvfp4: float | None
) -> None:
    card = find_accelerator(name)
    assert card.peak_tflops("mxfp8") == mxfp8
    assert card.peak_tflops("nvfp4") == nvfp4
    assert card.matmul_tflops("mxfp8") == (card.matmul_tflops("fp8") if mxfp8 else None)
    assert card.confidence_in("nvfp4") == "secondary" or not nvfp4


def test_an_unmeasured_precision_has_the_share_that_bf16_reached() -> None:
    assert find_accelerator("B200").matmul_tflops("mxfp8") == pytest.approx(3432.5)
    assert find_accelerator("B200").matmul_tflops("nvfp4") == pytest.approx(9000 * 1745 / 2250)
    assert find_accelerator("GB300").matmul_tflops("nvfp4") == pytest.approx(0.7 * 15000)


def test_every_card_answers_for_every_precision_of_the_planner() -> None:
    for card in accelerators():
        for precision in PRECISIONS:
            peak, matmul = card.peak_tflops(precision), card.matmul_tflops(precision)
            assert (matmul is None) == (not peak), (card.id, precision)
            # One card was measured a little above its vendor's sheet.
            assert matmul is None or 0 < matmul <= 1.03 * (peak or 0), (card.id, precision)


def test_what_nobody_has_said_stays_unknown() -> None:
    card = find_accelerator("br166")
    assert card.memory_gib is None
    assert card.peak_tflops("bf16") is None
    assert card.matmul_tflops("fp8") is None


def test_units_that_a_card_does_not_have_are_told_from_unknown_ones() -> None:
    card = find_accelerator("v100")
    assert card.peak_tflops("bf16") == 0
    assert card.matmul_tflops("bf16") is None
    assert card.matmul_tflops("fp16") == pytest.approx(0.7 * 125)
    assert find_accelerator("kunlun-r300").peak_tflops("bf16") is None


def test_every_accelerator_has_a_platform_that_slurm_accepts() -> None:
    flags = {"nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "no_gpu_env"}
    for item in accelerators():
        found = platform(item.vendor)
        assert found.slurm_env_flag in flags
        assert found.visible_env
        assert all(name.isidentifier() for name in found.visible_env)
        assert all(" " not in name for name in found.files(0) + found.control_files)
    with pytest.raises(UnknownName, match="did you mean nvidia"):
        platform("nvidea")


def test_device_files_follow_the_index() -> None:
    assert platform("nvidia").files(3) == ("/dev/nvidia3",)
    assert platform("amd").files(3) == ("/dev/dri/renderD131", "/dev/dri/card3")
    assert platform("huawei").files(10) == ("/dev/davinci10",)


def test_one_variable_hides_devices_of_amd() -> None:
    # ROCR_ is applied first and HIP_ counts inside it: set both and devices vanish.
    assert platform("amd").visible_env == ("ROCR_VISIBLE_DEVICES",)
    assert platform("hygon").slurm_env_flag == "no_gpu_env"


def test_every_figure_has_a_confidence_and_what_was_read_a_source() -> None:
    for raw, item in zip(
        packaged("accelerators.yaml")["accelerators"], accelerators(), strict=True
    ):
        assert set(raw["confidence"]) <= {"all", *FIGURES}, item.id
        assert set(raw["confidence"].values()) <= set(CONFIDENCE), item.id
        assert item.sources or not raw["confidence"], item.id
        # A word on a figure that nobody has said would vouch for nothing.
        unsaid = {"memory": item.card_memory_gib, "memory_bw": item.card_memory_gbs}
        unsaid |= {"link": item.card_scale_up_gbs, "tdp": item.card_tdp_w}
        for figure, value in unsaid.items():
            assert value is not None or figure not in raw["confidence"], (item.id, figure)


def test_confidence_is_that_of_the_figure_else_of_all_else_none() -> None:
    card = find_accelerator("h20-141g")
    assert card.confidence_in("tflops") == "secondary"
    assert card.confidence_in("tdp") == "unchecked"
    assert find_accelerator("br106").confidence_in("tflops") == "unchecked"


def test_every_platform_says_what_its_facts_rest_on() -> None:
    for vendor in packaged("accelerators.yaml")["platforms"]:
        found = platform(vendor)
        assert found.tools
        assert found.tested in ("real", "none")
        assert found.seen or found.tested == "none"
        assert dict(found.confidence).keys() == {"files", "env"}
        assert set(dict(found.confidence).values()) <= set(CONFIDENCE)
        assert found.sources


def table(name: str) -> Any:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{path} is not at hand")
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


CORRECTED = {("b300-sxm", "memory"), ("gb300", "memory"), ("b300-sxm", "tdp")}
"""What nvidia-smi shows, where the table had a guess."""


def test_all_figures_of_the_collected_table_are_in_the_catalogue() -> None:
    for row in table("accelerators.yaml")["accelerators"]:
        card = find_accelerator(row["id"])
        assert {fold(alias) for alias in row["aliases"]} <= {fold(name) for name in card.aliases}
        rates = row["tflops_dense"]
        figures = {
            "bf16": (card.card_bf16_tflops or None, rates["bf16"]),
            "fp16": (card.card_fp16_tflops or None, rates["fp16"]),
            "fp8": (card.card_fp8_tflops or None, rates["fp8"]),
            "matmul bf16": (card.card_matmul_bf16_tflops, row.get("mamf_bf16")),
            "matmul fp8": (card.card_matmul_fp8_tflops, row.get("mamf_fp8")),
            "memory": (card.card_memory_gib, row["memory_gib"]),
            "memory_bw": (card.card_memory_gbs, row["memory_bw_gbs"]),
            "link": (card.card_scale_up_gbs, row["scale_up"]["uni_gbs"]),
            "devices": (card.devices_per_card, row["devices_per_card"]),
            "cards": (card.cards_per_node, row["cards_per_node"]),
            "domain": (card.domain_cards, row["max_scale_up_domain"]),
            "tdp": (card.card_tdp_w, row["tdp_w"]),
        }
        for figure, (ours, theirs) in figures.items():
            assert ours == theirs or (card.id, figure) in CORRECTED, (card.id, figure)


def test_every_card_of_the_published_measurements_is_found() -> None:
    measurements = table("published_measurements.yaml")
    names: set[str | None] = set()
    for rows in (rows for section, rows in measurements.items() if section != "meta"):
        for hardware in (row.get("hardware") or {} for row in rows):
            mix = hardware.get("mix")
            # Two rows say in prose that clusters were mixed, not of what.
            names |= {hardware.get("accelerator")} | set(mix if isinstance(mix, dict) else ())
    found = {name: find_accelerator(name).id for name in names if name}
    assert len(found) > 20
    assert found["V100-16GB (p3.8xlarge)"] == "v100-sxm-16g"
    assert found["3080Ti-12G"] == "rtx-3080ti"
    assert found["H100 96GB HBM2e 500W (Grand Teton)"] == "h100-sxm-96g"
    assert found["Ascend 910B (Atlas 900 A2 PODc)"] == "ascend-910b2"


def test_the_table_of_accelerators_is_readable_and_its_json_whole() -> None:
    shown = CliRunner().invoke(cli, ["show", "accelerators"])
    lines = shown.stdout.splitlines()
    assert shown.exit_code == 0
    assert max(len(line.rstrip()) for line in lines) <= 100
    rows = {cells[0]: cells[1:] for cells in map(str.split, lines) if len(cells) == 10}
    assert rows["ascend-910c"] == [
        "huawei",
        "2",
        "708",
        "752",
        "128",
        "3518",
        "392",
        "verified",
        "real",
    ]
    assert rows["br106"] == ["biren", "1", "-", "-", "32", "-", "-", "verified", "none"]
    assert rows["br166"] == ["biren", "2", "-", "-", "-", "-", "-", "-", "none"]
    assert rows["mlu590"][-2:] == ["community", "none"]
    assert rows["h20-96g"][-2:] == ["secondary", "real"]
    assert "the confidence is that of the least sure one" in shown.stderr
    found = json.loads(CliRunner().invoke(cli, ["show", "accelerators", "--json"]).stdout)
    assert [row["id"] for row in found] == [item.id for item in accelerators()]
    mlu = next(row for row in found if row["id"] == "mlu370-x8")
    assert mlu["confidence of each"]["link"] == "secondary"
    assert mlu["sources"] == list(find_accelerator("mlu370-x8").sources)
    assert (mlu["seen"], mlu["tools"]) == ([], ["cnmon"])
