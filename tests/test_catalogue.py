from __future__ import annotations

import pytest

from supernode_slurm.catalogue import (
    UnknownName,
    accelerators,
    find_accelerator,
    platform,
)
from supernode_slurm.catalogue.names import fold


def test_no_two_accelerators_answer_to_one_name() -> None:
    seen: dict[str, str] = {}
    for item in accelerators():
        for name in (item.id, *item.aliases):
            assert seen.setdefault(fold(name), item.id) == item.id
    assert len(accelerators()) == 50


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
    ],
)
def test_an_accelerator_is_found_by_id_alias_and_gres_type(name: str, found: str) -> None:
    assert find_accelerator(name).id == found


def test_an_unknown_accelerator_is_answered_with_near_names() -> None:
    with pytest.raises(UnknownName, match=r"no accelerator 'h10'; did you mean h100-sxm"):
        find_accelerator("h10")
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
    # The rate measured in bf16 carries over to fp16 by the peaks: 376 / 353.9.
    assert find_accelerator("910b2").matmul_tflops("fp16") == pytest.approx(304.3 * 376 / 353.9)


def test_what_nobody_has_said_stays_unknown() -> None:
    card = find_accelerator("br166")
    assert card.memory_gib is None
    assert card.peak_tflops("bf16") is None
    assert card.matmul_tflops("fp8") is None
    assert find_accelerator("ascend-910a").peak_tflops("bf16") is None


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
