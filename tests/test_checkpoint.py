"""Whether a checkpoint loads under another layout; no framework is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supernode_slurm.catalogue import UnknownName
from supernode_slurm.frameworks import capabilities, names
from supernode_slurm.frameworks.checkpoint import Resume, resume
from supernode_slurm.planner import Layout
from tests.test_emission import package

OLD = Layout(tp=8, dp=4, micro_batch=1, layers=(10,) * 4)


def changed(framework: str, at: int = 1, /, **sizes: object) -> Resume:
    old = replace(OLD, zero=at)
    return resume(framework, old, replace(old, **sizes))  # type: ignore[arg-type]


@pytest.mark.parametrize("framework", names())
def test_the_same_cut_needs_nothing_whatever_a_rank_does_with_its_part(framework: str) -> None:
    same = {"micro_batch": 4, "recompute": "full", "sequence_parallel": False, "shard": 4}
    found = changed(framework, capabilities(framework).zero[-1], **same)
    assert found == Resume(True, "nothing to do: the checkpoint loads as it is")


@pytest.mark.parametrize("framework", names())
@pytest.mark.parametrize("sizes", [{"dp": 8}, {"tp": 4, "dp": 8}, {"zero": 0}])
def test_every_framework_says_what_to_do(framework: str, sizes: dict[str, int]) -> None:
    assert changed(framework, capabilities(framework).zero[-1], **sizes).how


@pytest.mark.parametrize(
    "sizes",
    [
        {"tp": 4, "dp": 8},
        {"layers": (9, 11, 11, 9)},
        {"virtual_stages": 2},
        {"ep": 4},
        {"ep": 4, "etp": 2},
        {"shard": 2},
    ],
)
def test_megatrons_optimizer_must_be_saved_for_another_cut(sizes: dict[str, object]) -> None:
    found = changed("megatron", **sizes)
    assert found.works
    assert found.how.startswith(
        "save once more under the old layout with --dist-ckpt-optim-fully-reshardable"
    )
    # Without the distributed optimiser it is kept like the weights.
    assert changed("megatron", 0, **sizes).how.startswith("nothing to do")


def test_megatron_takes_more_replicas_in_the_same_buckets() -> None:
    assert changed("megatron", dp=8).how.startswith("nothing to do for --ckpt-format torch_dist")
    assert changed("megatron", cp=2, dp=16).how.startswith("nothing to do")
    assert "--ddp-bucket-size 40000000," in changed("megatron", dp=64).how
    wide = replace(OLD, dp=128)
    back = resume("flagscale", wide, replace(wide, dp=64))
    assert back.works
    assert "--ddp-bucket-size 128000000," in back.how


def test_megatrons_optimizer_keeps_its_form() -> None:
    found = changed("megatron", dp=8)
    assert found.works
    other = resume("megatron", OLD, replace(OLD, zero=0))
    assert not other.works
    assert "--no-load-optim" in other.how


def test_mindspeeds_weights_are_converted_without_the_optimizer() -> None:
    found = changed("mindspeed", tp=4, layers=(9, 11, 11, 9), dp=8)
    assert not found.works
    assert "--target-tensor-parallel-size 4 --target-pipeline-parallel-size 4" in found.how
    assert "--num-layer-list 9,11,11,9" in found.how
    assert "--no-load-optim" in found.how
    looped = changed("mindspeed", virtual_stages=5, ep=2).how
    assert "--target-expert-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2" in looped
    assert "--num-layer-list" not in looped
    assert "from mg to hf and from hf to mg" in changed("mindspeed", etp=4).how
    assert "convert_ckpt" not in changed("mindspeed", dp=8).how


@pytest.mark.parametrize("framework", ["deepspeed", "hf", "llamafactory", "swift"])
def test_zeros_shards_are_made_universal(framework: str) -> None:
    one = Layout(tp=1, dp=8, micro_batch=1, layers=(32,))
    for zero in (1, 2, 3):
        old = replace(one, zero=zero)
        found = resume(framework, old, replace(old, dp=16))
        assert found.works
        assert "ds_to_universal" in found.how
        assert "load_universal" in found.how
    whole = resume(framework, replace(one, zero=0), replace(one, zero=0, dp=16))
    assert whole == Resume(True, "nothing to do: without ZeRO nothing is sharded")
    assert resume(framework, replace(one, zero=1), replace(one, zero=2)).works
    for old_stage, new_stage in ((1, 3), (3, 2), (0, 1)):
        other = resume(framework, replace(one, zero=old_stage), replace(one, zero=new_stage))
        assert not other.works
        assert "zero_to_fp32.py" in other.how


def test_what_the_trainer_joins_under_fsdp_loads_at_any_size() -> None:
    one = Layout(tp=1, dp=8, micro_batch=1, layers=(32,), zero=3)
    for new in (replace(one, dp=16), replace(one, shard=4)):
        found = resume("hf-fsdp", one, new)
        assert found.works
        assert found.how.startswith("nothing to do: the Trainer joins checkpoints")


def test_parallel_experts_of_deepspeed_stay_where_they_are_under_zero_3() -> None:
    one = Layout(tp=1, dp=8, micro_batch=1, layers=(32,), zero=3, ep=4)
    assert not resume("deepspeed", one, replace(one, dp=16)).works
    assert resume("deepspeed", replace(one, zero=2), replace(one, zero=2, ep=8)).works


def test_torchtitan_reshards_all_but_the_place_in_the_data() -> None:
    assert changed("torchtitan", 3, tp=4, cp=2).how.startswith("nothing to do")
    found = changed("torchtitan", 3, dp=8)
    assert found.works
    assert "--checkpoint.exclude_from_loading dataloader" in found.how


def test_a_loop_of_ones_own_saves_what_is_whole() -> None:
    one = Layout(tp=1, dp=8, micro_batch=1, layers=(32,), zero=0)
    assert resume("torch", one, replace(one, dp=16)).how.startswith("nothing to do")
    sharded = replace(one, zero=1)
    assert "consolidate_state_dict" in resume("torch", sharded, replace(sharded, dp=16)).how


def test_an_unknown_framework_is_named() -> None:
    with pytest.raises(UnknownName, match="did you mean megatron"):
        resume("megatrn", OLD, OLD)


@pytest.mark.filterwarnings("ignore")
def test_megatrons_own_optimizer_knows_the_form_that_reshards() -> None:
    module = package("megatron.core.optimizer.distrib_optimizer")
    forms = module.DistributedOptimizer.checkpoint_fully_reshardable_formats
    assert "fully_reshardable" in forms
    assert "dp_reshardable" not in forms


@pytest.mark.filterwarnings("ignore")
def test_torchtitans_own_parser_reads_what_is_not_loaded() -> None:
    package("torchtitan.models.llama3.config_registry")
    manager = package("torchtitan.config.manager")
    words = changed("torchtitan", 3, dp=8).how.split(":")[0].split()[2:]
    base = ["--module", "llama3", "--config", "llama3_8b"]
    found = manager.ConfigManager().parse_args([*base, *words])
    assert found.checkpoint.exclude_from_loading == ["dataloader"]


def test_mindspeed_is_told_no_layout_that_it_does_not_have() -> None:
    even = changed("mindspeed", layers=(20,) * 4, virtual_stages=4)
    assert "--num-layers-per-virtual-pipeline-stage 5," in even.how
    for layers, rounds in (((20,) * 4, 16), ((18, 22, 22, 18), 2)):
        found = changed("mindspeed", layers=layers, virtual_stages=rounds)
        assert found == Resume(
            False, "MindSpeed-LLM has no uneven virtual stages: take another layout"
        )
