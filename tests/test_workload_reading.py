"""What a job trains, read from its script: each framework's ways, and what must not be guessed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm import frameworks
from supernode_slurm.catalogue import find_model
from supernode_slurm.frameworks.reading import Found, find_workload
from supernode_slurm.frameworks.reading import toml as plain_toml
from supernode_slurm.frameworks.reading.expand import Part, Scope, Word
from supernode_slurm.frameworks.reading.files import Files
from supernode_slurm.frameworks.reading.script import started

SHARED = Path(__file__).resolve().parents[2] / "shared/realdata/trainlogs"
LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
DIMENSIONS = "layers=32,hidden=4096,heads=32,kv-heads=8,ffn=14336,vocab=128256"
MEGATRON = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --ffn-hidden-size 14336 --swiglu --vocab-size 128256 "
    "--untie-embeddings-and-output-weights"
)


def read(
    script: str,
    folder: Path = Path("/nowhere"),
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Found:
    text = script if script.startswith("#!") else f"#!/bin/bash\n{script}"
    return find_workload(text, "train.sh", arguments, folder, environment)


def sequence(script: str, **more: object) -> str | None:
    """Return the sequence that a script gives Megatron; its command stands for any."""
    return read(f"{script}\n", **more).values.get("sequence")  # type: ignore[arg-type]


def write(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


# Megatron-LM and MindSpeed-LLM


def test_megatron_arguments_in_arrays_and_strings_are_read_with_their_lines() -> None:
    found = read(
        """#!/bin/bash
#SBATCH --nodes=4
SEQ_LEN=8192
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096   # as published
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --ffn-hidden-size 14336
    --swiglu --untie-embeddings-and-output-weights
    --vocab-size 128256
)
TRAIN_ARGS="
    --seq-length ${SEQ_LEN} \\
    --micro-batch-size 2 \\
    --global-batch-size $((4 * 8 * 16))
    --bf16
"
srun torchrun --nproc_per_node=8 --node_rank "$SLURM_NODEID" pretrain_gpt.py \\
    "${MODEL_ARGS[@]}" \\
    $TRAIN_ARGS \\
    --tensor-model-parallel-size=4 --pipeline-model-parallel-size 2 \\
    --context-parallel-size 2
"""
    )
    assert found.values == {
        "model": DIMENSIONS,
        "sequence": "8192",
        "global-batch": "512",
        "micro-batch": "2",
        "tp": "4",
        "pp": "2",
        "cp": "2",
        "precision": "bf16",
        "framework": "megatron",
        "train": "full",
    }
    assert found.notes == ()
    assert found.origins["model"] == "train.sh:5"
    assert found.origins["sequence"] == "train.sh:3"
    assert found.origins["micro-batch"] == "train.sh:16"
    assert found.origins["tp"] == "train.sh:23"


def test_the_dimensions_that_megatron_leaves_out_are_its_defaults() -> None:
    base = "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16"
    assert read(f"{base} --vocab-size 50257").values["model"] == (
        "layers=4,hidden=1024,heads=16,ffn=4096,vocab=50257,gated=no,tied=yes"
    )
    assert read(f"{base} --vocab-size 50257 --padded-vocab-size 50304 --swiglu").values[
        "model"
    ] == ("layers=4,hidden=1024,heads=16,ffn=2688,vocab=50304,tied=yes")
    assert "kv-heads=1," in read(f"{base} --vocab-size 9 --group-query-attention").values["model"]
    assert "head-dim=128" in read(f"{base} --vocab-size 9 --kv-channels 128").values["model"]
    # Without its flag, the number of groups says nothing.
    assert "kv-heads" not in read(f"{base} --vocab-size 9 --num-query-groups 2").values["model"]


def test_a_model_without_its_vocabulary_is_not_known_and_the_note_says_what_to_add() -> None:
    found = read("pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4")
    assert "model" not in found.values
    (note,) = found.notes
    assert note.startswith("train.sh:2: the model is not known: its vocabulary is not said")


def test_a_tokenizer_that_is_at_hand_tells_the_vocabulary(tmp_path: Path) -> None:
    base = "pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --swiglu"
    write(tmp_path, tok__config_DOT_json=LLAMA_CONFIG, words_DOT_json={"a": 0, "b": 1, "c": 2})
    for option, vocab in [
        ("--tokenizer-name-or-path tok", 128256),
        ("--tokenizer-model deepseek-ai/DeepSeek-V3", 129280),
        ("--vocab-file words.json", 3),
    ]:
        assert f"vocab={vocab}," in read(f"{base} {option}", tmp_path).values["model"]


def test_experts_and_latent_attention_make_the_published_model() -> None:
    found = read(
        """
python -m torch.distributed.run --nnodes 64 pretrain_gpt.py --num-layers 61 --hidden-size 7168 \\
  --num-attention-heads 128 --ffn-hidden-size 18432 --swiglu --vocab-size 129280 \\
  --untie-embeddings-and-output-weights --multi-latent-attention --q-lora-rank 1536 \\
  --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 \\
  --num-experts 256 --moe-layer-freq ([0]*3+[1]*58) --moe-ffn-hidden-size 2048 \\
  --moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 --seq-length 4096 \\
  --expert-model-parallel-size 64
""".replace("([0]*3+[1]*58)", "'([0]*3+[1]*58)'")
    )
    known, model = find_model("deepseek-v3"), find_model(found.values["model"])
    assert (model.mixture, model.latent, model.layers) == (known.mixture, known.latent, 61)
    # The published count holds a correction per expert, which the arguments do not name.
    assert known.params - model.params == 58 * 256
    assert found.values["ep"] == "64"


def test_mindspeed_is_told_by_its_own_words_and_read_in_them() -> None:
    found = read(
        """
NPUS_PER_NODE=16
MLA="--multi-head-latent-attention --qk-rope-head-dim 64 --qk-nope-head-dim 128 --v-head-dim 128
  --kv-lora-rank 512"
MOE="--first-k-dense-replace 1 --moe-layer-freq 1 --n-shared-experts 2 --num-experts 64
  --moe-router-topk 6 --moe-intermediate-size 1408"
torchrun --nproc_per_node $NPUS_PER_NODE posttrain_gpt.py $MLA $MOE --num-layers 27 \\
  --hidden-size 2048 --ffn-hidden-size 10944 --num-attention-heads 16 --swiglu \\
  --vocab-size 102400 --padded-vocab-size 102400 --untie-embeddings-and-output-weights \\
  --lora-r 16 --lora-alpha 32 --lora-target-modules linear_qkv linear_proj \\
  --seq-length 4096 --fp16 | tee run.log
"""
    )
    known, model = find_model("deepseek-v2-lite"), find_model(found.values["model"])
    assert (model.mixture, model.latent) == (known.mixture, known.latent)
    assert model.params == known.params
    assert found.values["framework"] == "mindspeed"
    assert (found.values["train"], found.values["lora-rank"]) == ("lora", "16")
    assert found.values["precision"] == "fp16"


@pytest.mark.parametrize(
    ("script", "framework"),
    [
        (f"pretrain_gpt.py {MEGATRON} --use-flash-attn", "megatron"),
        (f"pretrain_gpt.py {MEGATRON} --num-layer-list 15,17", "mindspeed"),
        (f"python /opt/MindSpeed-LLM/pretrain_gpt.py {MEGATRON}", "mindspeed"),
        (f"cd /opt/MindSpeed-LLM\npython pretrain_gpt.py {MEGATRON}", "mindspeed"),
        (f"export HCCL_CONNECT_TIMEOUT=9\npython pretrain_gpt.py {MEGATRON}", "mindspeed"),
    ],
)
def test_megatron_and_mindspeed_are_kept_apart(script: str, framework: str) -> None:
    assert read(script).values["framework"] == framework


def test_layers_that_do_nothing_are_not_counted() -> None:
    found = read(f"pretrain_gpt.py {MEGATRON.replace(' 32', ' 35', 1)} --noop-layers 32,33,34")
    assert found.values["model"].startswith("layers=32,")


def test_wrong_dimensions_are_told_where_they_stand() -> None:
    found = read(
        f"pretrain_gpt.py {MEGATRON.replace('--num-query-groups 8', '--num-query-groups 5')}"
    )
    assert found.notes == (
        "train.sh:2: model dimensions: heads, 32, must be a multiple of kv-heads, 5",
    )


# The shell


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("S=4096; pretrain_gpt.py --seq-length $S", "4096"),
        ("export S=4096\npretrain_gpt.py --seq-length ${S}", "4096"),
        ("pretrain_gpt.py --seq-length ${S:-4096}", "4096"),
        ("pretrain_gpt.py --seq-length ${S:-${T:-4096}}", "4096"),
        ("S=\npretrain_gpt.py --seq-length ${S:-4096}", "4096"),
        (": ${S:=4096}\npretrain_gpt.py --seq-length $S", "4096"),
        (
            "if [ -f x ]; then f() { L=1; }; else f() { L=2; }; fi\nf\n"
            "pretrain_gpt.py --seq-length $L",
            None,
        ),
        ("S=; if [ -f x ]; then S=1; fi; pretrain_gpt.py --seq-length ${S:-4096}", None),
        ("pretrain_gpt.py --seq-length=4096", "4096"),
        ("pretrain_gpt.py --seq_length '4096'", "4096"),
        ('pretrain_gpt.py --seq-length "40"96', "4096"),
        ("pretrain_gpt.py --seq-length \\\n   4096", "4096"),
        ("A=(--seq-length 1)\nA+=(--seq-length 4096)\npretrain_gpt.py ${A[@]}", "4096"),
        ("A='--seq-length'\nA+=' 4096'\npretrain_gpt.py $A", "4096"),
        ("declare -r S=4096\npretrain_gpt.py --seq-length $S", "4096"),
        ("f() { pretrain_gpt.py --seq-length $1; }\nf 4096", "4096"),
        ("f() { pretrain_gpt.py --seq-length $S; }\nS=4096\nf", "4096"),
        ("S=4096; unset S; pretrain_gpt.py --seq-length $S", None),
        (
            "S=8; if [ $S -eq 8 ]; then L=4096; else L=1; fi; pretrain_gpt.py --seq-length $L",
            "4096",
        ),
        ("S=7b; case $S in 7b|8b) L=4096;; *) L=1;; esac; pretrain_gpt.py --seq-length $L", "4096"),
        ("[ -z $L ] && L=4096; pretrain_gpt.py --seq-length $L", "4096"),
        ("L=1; grep -q x y && L=4096; pretrain_gpt.py --seq-length $L", None),
        ("L=4096; [ -f y ] || L=4096; pretrain_gpt.py --seq-length $L", "4096"),
        ("L=1; if [ -f y ]; then L=4096; fi; pretrain_gpt.py --seq-length $L", None),
        ("L=1; if [ -f y ]; then L=2; exit; fi; pretrain_gpt.py --seq-length $L", "1"),
        ("if [ -f y ]; then L=4096; pretrain_gpt.py --seq-length $L; fi", "4096"),
        ("for L in 4096; do pretrain_gpt.py --seq-length $L; done", "4096"),
        ("for L in 1 4096; do pretrain_gpt.py --seq-length $L; done", None),
        ("L=1; while true; do pretrain_gpt.py --seq-length $L; L=$((L*2)); done", None),
        ("until pretrain_gpt.py --seq-length 4096; do sleep 5; done", "4096"),
        ("pretrain_gpt.py --seq-length $(cat length)", None),
        ("pretrain_gpt.py --seq-length `cat length`", None),
        ("pretrain_gpt.py --seq-length $SLURM_NNODES", None),
        ("pretrain_gpt.py --seq-length ${S%x}", None),
        ("read S; pretrain_gpt.py --seq-length $S", None),
        ("exit 0\npretrain_gpt.py --seq-length 4096", None),
        ("# pretrain_gpt.py --seq-length 4096", None),
        ("echo pretrain_gpt.py --seq-length 4096", None),
        ("cat <<END\npretrain_gpt.py --seq-length 4096\nEND", None),
        ("bash -c 'pretrain_gpt.py --seq-length 4096'", "4096"),
        ('S=4096; srun bash -lc "cd /x && pretrain_gpt.py --seq-length $S"', "4096"),
        ('srun bash -c "pretrain_gpt.py --seq-length \\$S"', None),
        ("A='--seq-length 4096'; C=\"pretrain_gpt.py $A\"; echo $C; $C", "4096"),
        ('A=\'--seq-length 4096\'; C="pretrain_gpt.py $A"; eval "time $C"', "4096"),
        ("export C='pretrain_gpt.py --seq-length 4096'; srun sh -c '$L --rank $R $C'", "4096"),
        ("eval $NOT_KNOWN; pretrain_gpt.py --seq-length 4096", "4096"),
        ("eval; X=`pwd`/pretrain_gpt.py; $X --seq-length 4096", "4096"),
        ("(cd /x; env A=b numactl -l pretrain_gpt.py --seq-length 4096) 2>&1 | tee log", "4096"),
        ("f() { f; }; f; pretrain_gpt.py --seq-length 4096", "4096"),
        ("pretrain_gpt.py --seq-length 1 --seq-length 4096", "4096"),
        ("pretrain_gpt.py --seq-length {sequence}", None),
        ("set -- a 4096; shift; pretrain_gpt.py --seq-length $1", "4096"),
    ],
)
def test_a_shell_is_read_as_a_shell_reads_it(script: str, expected: str | None) -> None:
    assert sequence(script) == expected


def test_arguments_of_the_script_and_the_environment_are_known() -> None:
    script = "pretrain_gpt.py --seq-length $1 --global-batch-size ${GBS:-8} --micro-batch-size $M"
    found = read(script, arguments=("4096", "x"), environment={"GBS": "64", "M": "2"})
    assert (found.values["sequence"], found.origins["sequence"]) == ("4096", "command line")
    assert (found.values["global-batch"], found.values["micro-batch"]) == ("64", "2")
    assert found.origins["global-batch"] == "GBS in the environment"
    assert sequence('pretrain_gpt.py "$@"', arguments=("--seq-length", "4096")) == "4096"


def test_what_is_not_known_is_left_out_with_the_reason() -> None:
    found = read(
        """
if [ -f resume ]; then BATCH=64; else BATCH=32; fi
pretrain_gpt.py --seq-length $LEN --global-batch-size $BATCH --micro-batch-size $(nproc) \\
    --context-parallel-size $SLURM_NNODES $EXTRA
"""
    )
    assert set(found.values) == {"framework", "train"}
    assert found.notes == (
        "train.sh:4: seq_length is not known: $LEN is not set in the script",
        "train.sh:3: global_batch_size is not known: "
        "$BATCH is set under the condition at train.sh:3",
        "train.sh:5: context_parallel_size is not known: $SLURM_NNODES is known only in the job",
        "train.sh:4: micro_batch_size is not known: $(nproc) is known only when it runs",
        "train.sh:5: $EXTRA is not set in the script: options that it may hold are not read",
    )


def test_options_added_under_a_condition_leave_the_others_known() -> None:
    script = """
ARGS=(--seq-length 4096 --global-batch-size 8)
if [ -f resume ]; then ARGS=("${ARGS[@]}" --global-batch-size 16 --load x); fi
pretrain_gpt.py "${ARGS[@]}"
"""
    found = read(script)
    assert found.values["sequence"] == "4096"
    assert "global-batch" not in found.values
    assert found.notes == (
        "train.sh:4: global_batch_size is not known: it is set under the condition at train.sh:4",
    )
    text = script.replace("=(", '="').replace(")\nif", '"\nif').replace('"${ARGS[@]}"', "$ARGS")
    text = text.replace("--load x)", '--load x"')
    assert read(text).values["sequence"] == "4096"


def test_scripts_that_the_script_starts_are_followed(tmp_path: Path) -> None:
    write(
        tmp_path,
        env_DOT_sh="export SEQ=4096\nreturn 0\n",
        jobs__run_DOT_sh='cd "$PWD"\nsource env.sh\n./train.py $ARGS "$@" --seq-length $SEQ',
        env_DOT_sh_=1,
    )
    script = "export ARGS='--num-layers 4 --hidden-size 8'\nsource ./env.sh\nsrun bash jobs/run.sh"
    found = read(f"{script} --global-batch-size 64", tmp_path)
    assert found.values["sequence"] == "4096"
    assert found.values["global-batch"] == "64"
    assert found.origins["sequence"] == "env.sh:1"


def test_a_folder_that_is_changed_to_is_where_files_are(tmp_path: Path) -> None:
    write(tmp_path, sub__run_DOT_sh="pretrain_gpt.py --seq-length 4096")
    assert sequence("cd sub\nbash run.sh", folder=tmp_path) == "4096"
    assert sequence("cd $SLURM_SUBMIT_DIR/sub || exit\nbash run.sh", folder=tmp_path) == "4096"
    found = read("cd $ELSEWHERE\nbash run.sh", tmp_path)
    assert found.notes == ("train.sh:3: run.sh is not read: the folder it is in is not known",)


def test_scripts_that_start_each_other_for_ever_are_read_once_and_left(tmp_path: Path) -> None:
    write(
        tmp_path,
        a_DOT_sh="source b.sh\npretrain_gpt.py --seq-length 4096",
        b_DOT_sh="source a.sh\nbash a.sh\nbash b.sh",
    )
    assert sequence("bash a.sh", folder=tmp_path) == "4096"


def test_two_commands_of_a_job_that_differ_leave_out_what_differs() -> None:
    found = read(
        "pretrain_gpt.py --seq-length 4096 --global-batch-size 8\n"
        "pretrain_gpt.py --seq-length 32768 --global-batch-size 8\n"
    )
    assert found.values["global-batch"] == "8"
    assert "sequence" not in found.values
    assert found.notes == (
        "the commands of the job differ in sequence: 4096 (train.sh:2), 32768 (train.sh:3); "
        "say which counts",
    )


@pytest.mark.parametrize("first", ["#!/usr/bin/env python3", "#!/bin/csh", "#!/usr/bin/perl"])
def test_scripts_of_other_languages_are_not_read(first: str) -> None:
    assert read(f"{first}\npretrain_gpt.py --seq-length 4096\n") == Found({}, {}, ())


def test_a_job_that_trains_nothing_is_told_nothing() -> None:
    found = read("module load cuda\nmkdir -p out\nsrun ./simulate --steps 100 input.json\n")
    assert found == Found({}, {}, ())


# DeepSpeed and Hugging Face's Trainer


def test_deepspeed_values_come_from_its_file_with_their_place(tmp_path: Path) -> None:
    config = """{
  "train_batch_size": 512,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": "auto",
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3}
}"""
    write(tmp_path, conf__ds_DOT_json=config)
    for way in ("--deepspeed --deepspeed_config conf/ds.json", "--deepspeed conf/ds.json"):
        found = read(f"deepspeed --num_gpus 8 train.py {way}", tmp_path)
        assert found.values == {
            "global-batch": "512",
            "micro-batch": "4",
            "zero": "3",
            "precision": "bf16",
            "framework": "deepspeed",
        }
        assert found.origins["global-batch"] == "conf/ds.json:2:23"
    assert read("sn-launch python train.py --deepspeed_config conf/ds.json", tmp_path).values


def test_a_deepspeed_file_that_the_script_writes_is_read(tmp_path: Path) -> None:
    script = """
BATCH=256
cat <<END > ds.json
{"train_batch_size": $BATCH, "zero_optimization": {"stage": 1}}
END
deepspeed train.py --deepspeed_config=ds.json
"""
    assert read(script, tmp_path).values["global-batch"] == "256"
    unknown = read(script.replace("BATCH=256", "true"), tmp_path)
    assert "global-batch" not in unknown.values
    assert unknown.notes[0].endswith(
        "ds.json is written by the script, and not wholly known: $BATCH is not set in the script"
    )


def test_the_trainer_with_a_name_of_the_hub(tmp_path: Path) -> None:
    found = read(
        """
accelerate launch --num_machines 2 --config_file fsdp.yaml run_clm.py \\
    --model_name_or_path meta-llama/Meta-Llama-3-8B-Instruct \\
    --per_device_train_batch_size 2 --gradient_accumulation_steps=8 --block_size 2048 \\
    --use_peft --lora_r 64
""",
        write(tmp_path, fsdp_DOT_yaml="distributed_type: FSDP\nmixed_precision: bf16\n"),
    )
    assert found.values == {
        "model": "meta-llama/Meta-Llama-3-8B",
        "sequence": "2048",
        "micro-batch": "2",
        "accumulation": "8",
        "train": "lora",
        "lora-rank": "64",
        "precision": "bf16",
        "framework": "hf-fsdp",
    }
    assert found.origins["precision"] == "fsdp.yaml:2:18"
    assert found.origins["framework"] == "fsdp.yaml:1:19"
    assert found.notes == (
        "train.sh:5: only the batch of each device is said: the global batch is that times the "
        "data-parallel size",
    )


@pytest.mark.parametrize(
    ("words", "framework"),
    [
        ("--fsdp", "hf-fsdp"),
        ("--fsdp --bf16 true", "hf-fsdp"),
        ("--fsdp {plan}", "hf-fsdp"),
        ("--fsdp 'full_shard auto_wrap'", "hf-fsdp"),
        ("--fsdp ''", "hf"),
        ("--fsdp false", "hf"),
        ("--fsdp $UNSET", "hf"),
        # The Trainer refuses both; a file that is there was meant.
        ("--fsdp --deepspeed zero3", "hf"),
    ],
)
def test_the_trainer_shards_by_fsdp_where_that_is_on(
    tmp_path: Path, words: str, framework: str
) -> None:
    base = "python t.py --model_name_or_path gpt2 --per_device_train_batch_size 2"
    assert read(f"{base} {words}", tmp_path).values["framework"] == framework


def test_accelerate_and_files_turn_fsdp_on_and_unknown_or_other_ways_are_told(
    tmp_path: Path,
) -> None:
    base = "t.py --model_name_or_path gpt2"
    assert read(f"accelerate launch --use_fsdp {base}").values["framework"] == "hf-fsdp"
    text = "model_name_or_path: gpt2\nper_device_train_batch_size: 1\nfsdp:"
    write(tmp_path, off_DOT_yaml=f"{text} ''\n", on_DOT_yaml=f"{text} full_shard\n")
    assert read("python t.py on.yaml", tmp_path).values["framework"] == "hf-fsdp"
    assert read("python t.py off.yaml", tmp_path).values["framework"] == "hf"
    assert "fsdp is not known: $UNSET" in read(f"python {base} --fsdp $UNSET").notes[0]
    partly = read(f"python {base} --fsdp shard_grad_op").notes[0]
    assert partly.endswith("shard_grad_op is not planned, but full_shard")


def test_a_directory_goes_before_a_name_and_unread_paths_are_not_guessed(tmp_path: Path) -> None:
    write(tmp_path, models__mine__config_DOT_json=LLAMA_CONFIG)
    base = "python train.py --bf16 True --per_device_train_batch_size 1 --model_name_or_path"
    found = read(f"{base} models/mine", tmp_path)
    assert found.values["model"] == str(tmp_path / "models/mine/config.json")
    assert find_model(found.values["model"]).params == 8_030_261_248
    for text, hint in [
        ("/data/models/Meta-Llama-3-8B", "say '#SN --model=meta-llama/Meta-Llama-3-8B'"),
        ("/data/models/mine", "no config.json can be read in /data/models/mine"),
        ("someone/unknown-model", "the catalogue has no 'someone/unknown-model'"),
    ]:
        found = read(f"{base} {text}", tmp_path)
        assert "model" not in found.values
        assert hint in found.notes[0]


def test_a_broken_config_of_a_model_is_a_note(tmp_path: Path) -> None:
    write(tmp_path, m__config_DOT_json='{"model_type": "llama",')
    found = read("python t.py --model_name_or_path m --per_device_train_batch_size 1", tmp_path)
    assert "config.json:1:" in found.notes[0]


def test_accelerate_runs_deepspeed_by_its_file(tmp_path: Path) -> None:
    text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n"
    write(tmp_path, acc_DOT_yaml=text + "  gradient_accumulation_steps: 4\n")
    found = read(
        "accelerate launch --config_file acc.yaml t.py --model_name_or_path gpt2", tmp_path
    )
    assert found.values["framework"] == "hf"
    assert (found.values["zero"], found.values["accumulation"]) == ("2", "4")


def test_two_files_that_differ_are_told_and_the_framework_s_order_counts(tmp_path: Path) -> None:
    write(tmp_path, ds_DOT_json={"train_micro_batch_size_per_gpu": 4})
    found = read("deepspeed t.py --per_device_train_batch_size 8 --deepspeed ds.json", tmp_path)
    assert found.values["micro-batch"] == "8"
    assert found.notes[0] == (
        "ds.json:1:36 says micro-batch 4, train.sh:2 says 8: the latter counts"
    )


# LLaMA-Factory and ms-swift

FACTORY = """### model
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
finetuning_type: lora
lora_rank: 32
cutoff_len: 4096
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
deepspeed: ds.json
"""


def test_llamafactory_is_read_from_its_yaml(tmp_path: Path) -> None:
    write(tmp_path, job_DOT_yaml=FACTORY, ds_DOT_json={"zero_optimization": {"stage": 2}})
    found = read("FORCE_TORCHRUN=1 llamafactory-cli train job.yaml", tmp_path)
    assert found.values == {
        "model": "Qwen/Qwen2.5-7B",
        "train": "lora",
        "lora-rank": "32",
        "sequence": "4096",
        "micro-batch": "1",
        "accumulation": "8",
        "precision": "bf16",
        "zero": "2",
        "framework": "llamafactory",
    }
    assert found.origins["sequence"] == "job.yaml:6:13"


def test_of_yaml_and_command_line_the_latter_counts_and_both_are_told(tmp_path: Path) -> None:
    write(tmp_path, job_DOT_yaml=FACTORY.replace("deepspeed: ds.json\n", ""))
    found = read("srun torchrun src/train.py job.yaml cutoff_len=8192", tmp_path)
    assert found.values["sequence"] == "8192"
    assert found.values["framework"] == "llamafactory"
    assert found.notes[0] == (
        "job.yaml:6:13 says cutoff_len 4096, train.sh:2 says 8192: the latter counts"
    )


def test_llamafactory_trains_adapters_unless_told_and_other_ways_are_told(tmp_path: Path) -> None:
    write(
        tmp_path,
        plain_DOT_yaml="model_name_or_path: gpt2\n",
        full_DOT_yaml="model_name_or_path: gpt2\nfinetuning_type: full\n",
        freeze_DOT_yaml="model_name_or_path: gpt2\nfinetuning_type: freeze\n",
        q_DOT_yaml="model_name_or_path: gpt2\nquantization_bit: 4\n",
    )
    assert read("llamafactory-cli train plain.yaml", tmp_path).values["train"] == "lora"
    assert read("llamafactory-cli train full.yaml", tmp_path).values["train"] == "full"
    frozen = read("llamafactory-cli train freeze.yaml", tmp_path)
    assert "train" not in frozen.values
    assert "training by 'freeze' is not planned" in frozen.notes[0]
    assert "quantized" in read("llamafactory-cli train q.yaml", tmp_path).notes[0]


@pytest.mark.parametrize("kind", ["--train_type", "--tuner_type", "--sft_type"])
def test_swift_is_read_from_its_arguments(kind: str) -> None:
    found = read(
        f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B {kind} lora --lora_rank 8 "
        "--max_length 2048 --per_device_train_batch_size 1 --torch_dtype bfloat16 "
        "--gradient_accumulation_steps 16 --dataset 'a#500' 'b#500' --deepspeed zero3"
    )
    assert found.values == {
        "model": "Qwen/Qwen3-8B",
        "sequence": "2048",
        "micro-batch": "1",
        "accumulation": "16",
        "train": "lora",
        "lora-rank": "8",
        "precision": "bf16",
        "zero": "3",
        "framework": "swift",
    }


def test_swift_takes_files_in_two_ways(tmp_path: Path) -> None:
    write(
        tmp_path,
        s_DOT_yaml="model: Qwen/Qwen3-8B\ntrain_type: full\nmax_length: 4096\n",
        s_DOT_json={"model": "Qwen/Qwen3-8B", "train_type": "full", "max_length": 4096},
    )
    for words in ("--config s.yaml", "s.yaml", "s.json"):
        found = read(f"swift sft {words}", tmp_path)
        assert found.values["model"] == "Qwen/Qwen3-8B"
        assert (found.values["train"], found.values["sequence"]) == ("full", "4096")


def test_swift_on_megatron_has_the_words_of_both() -> None:
    command = (
        "megatron sft --model Qwen/Qwen3-8B --tuner_type lora --lora_rank 8 --max_length 2048 "
        "--tensor_model_parallel_size 2 --micro_batch_size 1 --global_batch_size 16"
    )
    found = read(command)
    assert found.values == {
        "model": "Qwen/Qwen3-8B",
        "sequence": "2048",
        "global-batch": "16",
        "micro-batch": "1",
        "tp": "2",
        "train": "lora",
        "lora-rank": "8",
        "framework": "megatron",
    }
    on_ascend = read(f"ASCEND_RT_VISIBLE_DEVICES=0,1 {command}")
    assert on_ascend.values["framework"] == "mindspeed"


def test_trl_takes_a_file_below_its_arguments(tmp_path: Path) -> None:
    write(tmp_path, sft_DOT_yaml="model_name_or_path: gpt2\nmax_seq_length: 512\n")
    found = read("accelerate launch sft.py --config sft.yaml --max_seq_length 1024", tmp_path)
    assert found.values["model"] == "openai-community/gpt2"
    assert found.values["sequence"] == "1024"


# torchtitan and FlagScale

TITAN = """[job]
description = "Llama 3 8B # not a comment"

[model]
name = "llama3"
flavor = '8B'
converters = [
    "float8",  # ] of the list
]

[training]
local_batch_size = 2   # per device
global_batch_size = 1_024
seq_len = 8192

[parallelism]
tensor_parallel_degree = 4
pipeline_parallel_degree = 2
"""


def test_torchtitan_is_read_from_toml_with_the_command_line_above_it(tmp_path: Path) -> None:
    write(tmp_path, job_DOT_toml=TITAN)
    script = "torchrun -m torchtitan.train --job.config_file job.toml --training.seq_len 4096"
    found = read(script, tmp_path)
    assert found.values == {
        "model": "meta-llama/Meta-Llama-3-8B",
        "sequence": "4096",
        "micro-batch": "2",
        "global-batch": "1024",
        "tp": "4",
        "pp": "2",
        "framework": "torchtitan",
    }
    assert found.origins["global-batch"] == "job.toml:13:21"
    through = read('CONFIG_FILE="job.toml" ./run_train.sh', tmp_path)
    assert through.values["sequence"] == "8192"


def test_torchtitan_of_2026_counts_tokens_and_names_models_by_module() -> None:
    found = read(
        "torchrun -m torchtitan.train --module llama3 --config llama3_70b "
        "--training.max-context-length 8192 --parallelism.tensor_parallel_degree 8 "
        "--training.num_tokens_per_microbatch_per_dp_rank 16384 "
        "--training.num_tokens_per_train_step 4194304"
    )
    assert found.values == {
        "model": "meta-llama/Meta-Llama-3-70B",
        "sequence": "8192",
        "micro-batch": "2",
        "global-batch": "512",
        "tp": "8",
        "framework": "torchtitan",
    }


@pytest.mark.parametrize(
    ("module", "config", "model"),
    [
        ("llama3", "llama3_405b", "meta-llama/Llama-3.1-405B"),
        ("qwen3", "qwen3_30b_a3b", "Qwen/Qwen3-30B-A3B"),
        ("deepseek_v3", "deepseek_v3_671b", "deepseek-ai/DeepSeek-V3"),
        ("llama3", "llama3_debugmodel", None),
        ("mine", "mine_8b", None),
    ],
)
def test_torchtitan_names_are_those_of_published_models(
    module: str, config: str, model: str | None
) -> None:
    found = read(
        f"python -m torchtitan.train --module {module} --config {config} "
        "--training.max_context_length 4096"
    )
    assert found.values.get("model") == model
    assert bool(found.notes) == (model is None)


def test_flagscale_is_read_from_both_of_its_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        conf__train_DOT_yaml="defaults:\n  - train: 8b\n  - _self_\nexperiment:\n  exp_name: x\n",
        conf__train__8b_DOT_yaml="""
system:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 4
  precision: {bf16: true}
  checkpoint: {load: "${experiment.ckpt}"}
model:
  num_layers: 32
  hidden_size: 4096
  num_attention_heads: 32
  group_query_attention: true
  num_query_groups: 8
  ffn_hidden_size: 14336
  swiglu: true
  untie_embeddings_and_output_weights: true
  seq_length: 4096
  micro_batch_size: 1
  global_batch_size: 1024
data:
  tokenizer: {vocab_size: 128256}
""",
    )
    expected = {
        "model": DIMENSIONS,
        "sequence": "4096",
        "global-batch": "1024",
        "micro-batch": "1",
        "tp": "2",
        "pp": "4",
        "precision": "bf16",
        "framework": "flagscale",
    }
    found = read("python run.py --config-path ./conf --config-name train action=run", tmp_path)
    assert found.values == expected
    assert found.origins["sequence"] == "conf/train/8b.yaml:16:15"
    assert read("flagscale train x --config conf/train.yaml", tmp_path).values == expected
    above = read(
        "python run.py --config-path conf --config-name train train.model.seq_length=8192", tmp_path
    )
    assert above.values["sequence"] == "8192"


# What others may put in our way


def test_values_are_those_that_the_planner_takes() -> None:
    names = {read(script).values["framework"] for script in EVERY_FRAMEWORK}
    assert names == set(frameworks.names()) - {"torch"}


EVERY_FRAMEWORK = (
    f"pretrain_gpt.py {MEGATRON}",
    f"pretrain_gpt.py {MEGATRON} --num-layer-list 16,16",
    "flagscale train x --config x.yaml",
    "deepspeed train.py --deepspeed --deepspeed_config x.json",
    "python train.py --per_device_train_batch_size 1",
    "python train.py --per_device_train_batch_size 1 --fsdp",
    "llamafactory-cli train x.yaml",
    "swift sft --model gpt2",
    "python -m torchtitan.train --training.seq_len 4096",
)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("a: [1\nb: 2", "job.yaml:2:"),
        ("- a\n- b\n", "job.yaml holds no settings by name"),
        ("", "job.yaml"),
        ("cutoff_len: 1\ncutoff_len: 2\n", "job.yaml:2:1: key 'cutoff_len' stands twice"),
        ("a: !!python/object:os.system [x]\n", "job.yaml:1:"),
        (BOMB, "more than 2,000,000 values"),
        ("{" * 200, "job.yaml:1:"),
        ("a: \0", "job.yaml is not text"),
        ("x" * (3 * 2**20), "job.yaml is larger than 2 MiB"),
        ("".join(f"k{n}: 1\n" for n in range(30_000)), "holds more than 20,000 settings"),
    ],
    ids=["broken", "list", "empty", "twice", "tag", "bomb", "deep", "binary", "large", "many"],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_a_note_that_says_where(
    tmp_path: Path, content: str, where: str
) -> None:
    (tmp_path / "job.yaml").write_text(content)
    found = read("llamafactory-cli train job.yaml", tmp_path)
    assert set(found.values) <= {"framework", "train"}
    assert where in found.notes[0]


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ('{"train_batch_size": 8,}x', "ds.json:1:"),
        ('{"train_batch_size": "many"}', "train_batch_size is no positive whole number: 'many'"),
        ('{"train_batch_size": -5}', "train_batch_size is no positive whole number"),
        ("[1, 2]", "ds.json holds no settings by name"),
    ],
)
def test_a_broken_deepspeed_file_is_a_note(tmp_path: Path, content: str, note: str) -> None:
    (tmp_path / "ds.json").write_text(content)
    found = read("deepspeed t.py --deepspeed_config ds.json", tmp_path)
    assert "global-batch" not in found.values
    assert note in found.notes[0]


def test_json_that_no_yaml_reader_takes_is_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{\n\t"x": "\\ud83d\\ude00",\n\t"train_batch_size": 8}')
    found = read("deepspeed t.py --deepspeed_config ds.json", tmp_path)
    assert (found.values["global-batch"], found.origins["global-batch"]) == ("8", "ds.json")


@pytest.mark.parametrize(
    "command",
    [
        'llamafactory-cli train "$DIR/job.yaml"',
        "swift sft --config $DIR/job.yaml",
        "flagscale train x --config $DIR/job.yaml",
        "python run.py --config-path $DIR --config-name x",
    ],
)
def test_a_file_whose_name_is_not_known_is_a_note(command: str) -> None:
    found = read(command)
    note = "train.sh:2: a file of settings is not read: $DIR is not set in the script"
    assert found.notes[0] == note
    assert set(found.values) == {"framework"}


def test_missing_files_and_pipes_are_notes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.yaml").mkdir()
    for command, note in [
        ("deepspeed t.py --deepspeed_config no.json", "no.json cannot be read: No such file"),
        ("deepspeed t.py --deepspeed_config pipe.json", "pipe.json is not a file"),
        ("llamafactory-cli train folder.yaml", "folder.yaml is not a file"),
        ("bash no.sh", "train.sh:2: no.sh cannot be read: No such file"),
    ]:
        assert note in read(command, tmp_path).notes[0]


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("X='a\npretrain_gpt.py --seq-length 1", "train.sh:2: a quote ' is not closed"),
        ('X="a\npretrain_gpt.py', 'train.sh:2: a quote " is not closed'),
        ("A=(1 2\npretrain_gpt.py", "train.sh:2: a bracket is not closed"),
        ("true\nX=$(cat\npretrain_gpt.py", "train.sh:3: ')' is missing"),
        ("if true; then\npretrain_gpt.py --seq-length 1", "train.sh:2: 'fi' is missing"),
        ("done", "train.sh:2: 'done' out of place"),
        ("case x in", "train.sh:2: the script ends within this command"),
        ("{ " * 5000, "nested too deeply"),
        ("( " * 5000, "nested too deeply"),
        ("A=(" * 5000, "train.sh:2: a bracket is within a bracket"),
        ("a $(" * 5000, "train.sh:2: ')' is missing"),
        ("true $x " * 150_000, "train.sh:2: there is too much of it"),
    ],
)
def test_a_broken_script_is_a_note_that_says_where(script: str, note: str) -> None:
    found = read(script)
    assert found.values == {}
    assert note in found.notes[0]


def test_variables_that_grow_without_end_end() -> None:
    doubled = "A=x\n" + "A=$A$A\n" * 200
    assert read(f"{doubled}pretrain_gpt.py --seq-length $A").values == {
        "framework": "megatron",
        "train": "full",
    }
    arrays = "A=(x y)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 200
    assert "does too much" in read(f"{arrays}pretrain_gpt.py").notes[0]
    nested = "${S:-" * 500 + "1" + "}" * 500
    assert sequence(f"pretrain_gpt.py --seq-length {nested}") is None
    assert "does too much" in read("f() { f; f; f; f; }\nf\n").notes[0]


def test_a_line_of_many_megabytes_is_read_or_refused() -> None:
    long = "pretrain_gpt.py --seq-length 4096 --data-path " + "x" * 3_000_000
    assert sequence(long) == "4096"
    assert read("x" * 10_000_000).notes == ("train.sh: too long to be read",)


@given(st.text(alphabet="ab$\"'`(){}[]<>|&;#=\\ \n\t-1*@:", max_size=80))
@settings(max_examples=500)
def test_any_text_is_read_without_an_error(text: str) -> None:
    found = read(f"{text}\n")
    assert isinstance(found.notes, tuple)


_BLOCKS = st.recursive(
    st.sampled_from(
        ["S=1", "S=$S$S", "S+=2", "A=(--seq-length $S)", "A+=(x)", "shift", "cd x", "f", "exit"]
    ),
    lambda inner: st.one_of(
        st.builds("if [ -f x ]; then\n{}\nelse\n{}\nfi".format, inner, inner),
        st.builds("for S in 1 2; do\n{}\ndone".format, inner),
        st.builds("case $S in 1) {};; *) {};; esac".format, inner, inner),
        st.builds("f() {{ {}\n}}".format, inner),
        st.builds("( {} )".format, inner),
        st.builds("{}\n{}".format, inner, inner),
        st.builds("{} && {}".format, st.just("true"), inner),
    ),
    max_leaves=12,
)


@given(_BLOCKS)
def test_whatever_a_script_does_a_fixed_value_is_known_after_it(block: str) -> None:
    found = read(f"{block}\nZ=4096\npretrain_gpt.py --seq-length $Z\n")
    stopped = "exit" in block
    assert found.values.get("sequence") == "4096" or stopped


@given(st.integers(1, 1 << 20), st.sampled_from(["+", "*", "-", "/", "%"]), st.integers(1, 1000))
def test_sums_are_the_shell_s(left: int, sign: str, right: int) -> None:
    value = {
        "+": left + right,
        "*": left * right,
        "-": left - right,
        "/": left // right,
        "%": left % right,
    }[sign]
    found = sequence(f"A={left}\npretrain_gpt.py --seq-length $(( $A {sign} {right} ))")
    assert found == (str(value) if value > 0 else None)


_FRAGMENTS = st.sampled_from(
    [
        *("A=1", "A=$A$B", "A+=2", "B='x y'", 'B="$A z"', "C=(p 'q r' $A)", 'C+=("$B")'),
        *(
            'C=("${C[@]}" s)',
            "A=${A:-7}",
            "B=${B:+w}",
            "A=$((3*4-5))",
            "f() { A=$1; return; A=8; }",
        ),
        *("f 4", "set -- m n", "shift", "A=${1:-k}", "unset A", 'B="${C[@]}"', "B=${C[1]}"),
        *("A='a'\"b$B\"c", 'A=${D-"d e"}', ": ${A:=v}", '[ -z "$A" ] && B=n', "f() { :; }"),
    ]
)
_SHELL_BLOCKS = st.recursive(
    _FRAGMENTS,
    lambda inner: st.one_of(
        st.builds('if [ "$A" = 1 ]; then\n{}\nelse\n{}\nfi'.format, inner, inner),
        st.builds("case $A in 1*) {};; *) {};; esac".format, inner, inner),
        st.builds("for Z in 1; do\n{}\ndone".format, inner),
        st.builds("( {} )".format, inner),
        st.builds("{}\n{}".format, inner, inner),
    ),
    max_leaves=10,
)


@given(st.sampled_from(["A=1\nB=2\nC=(z)", "true"]), _SHELL_BLOCKS)
@settings(max_examples=150)
def test_words_that_reading_knows_are_those_that_bash_makes(first: str, block: str) -> None:
    script = f"f() {{ :; }}\n{first}\n{block}\n"
    script += 'show $A "$B" "${C[@]}" "x$A"\'y\' "$@" end\n'
    bash = ["bash", "-c", f"show() {{ printf '%s\\0' \"$@\"; }}\n{script}", "bash", "u", "v"]
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(bash, capture_output=True, env=env, check=True, timeout=60)
    arguments = tuple(Word((Part(word, "here"),)) for word in "uv")
    scope = Scope("train.sh", Path("/"), {}, Path("/"), arguments)
    commands, notes = started(scope, script, Files())
    assert notes == []
    ((_, *found),) = [command.words for command in commands if command.words[0].text == "show"]
    if not any(word.unknown or word.maybe for word in found):
        assert [word.text for word in found] == done.stdout.decode().split("\0")[:-1]


_KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
_VALUES = st.one_of(
    st.integers(-(10**9), 10**9),
    st.booleans(),
    st.text(alphabet="ab #[]{}.=,", max_size=10),
    st.lists(st.integers(0, 9), max_size=3),
)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")
@given(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=4), max_size=4))
def test_plain_toml_is_read_as_python_reads_it(tables: dict[str, dict[str, object]]) -> None:
    tomllib = pytest.importorskip("tomllib")
    lines = []
    for table, pairs in tables.items():
        lines += [f"[{table}]  # {table}"]
        lines += [f"{key} = {json.dumps(value)} # note" for key, value in pairs.items()]
    text = "\n".join(lines)
    read_back = {name: value for name, value, _ in plain_toml.pairs(text, "x.toml")}
    whole = tomllib.loads(text)
    expected = {
        f"{table}.{key}": json.dumps(value).strip('"')
        for table, pairs in whole.items()
        for key, value in pairs.items()
        if not isinstance(value, list)
    }
    assert read_back == expected


@pytest.mark.parametrize(
    ("text", "where"),
    [("[a", "x.toml:1"), ("a = 1\nb", "x.toml:2"), ("\nb = [1,\n2", "x.toml:2"), ("a = '''", ":1")],
)
def test_broken_toml_says_where(text: str, where: str) -> None:
    with pytest.raises(plain_toml.Malformed, match=re.escape(where)):
        list(plain_toml.pairs(text, "x.toml"))


# Commands that others really gave


@pytest.mark.skipif(not SHARED.is_dir(), reason="no logs of others here")
def test_the_command_of_a_real_deepspeed_chat_log_is_read() -> None:
    log = SHARED / "deepspeed/dschat_step1_opt1.3b_gbs128.log"
    first = log.read_text().splitlines()[0].removeprefix("cmd = ")
    found = read(first)
    assert found.values == {
        "sequence": "512",
        "micro-batch": "8",
        "accumulation": "1",
        "zero": "2",
        "framework": "deepspeed",
    }
    assert "facebook/opt-1.3b" in found.notes[0]


@pytest.mark.skipif(not SHARED.is_dir(), reason="no logs of others here")
def test_the_command_of_a_real_megatron_deepspeed_log_is_read() -> None:
    text = (SHARED / "deepspeed/megatron_deepspeed_hostprefix.log").read_text()
    line = next(line for line in text.splitlines() if "'--num-layers'" in line)
    argv = ast.literal_eval(line[line.index("['") : line.rindex("]") + 1])
    found = read(f'{argv[0]} "$@"', arguments=tuple(argv[1:]))
    assert found.values == {
        "sequence": "2048",
        "global-batch": "2048",
        "micro-batch": "2",
        "tp": "1",
        "pp": "1",
        "precision": "fp16",
        "framework": "megatron",
        "train": "full",
        "zero": "1",
    }
    assert any("vocabulary" in note for note in found.notes)


def test_one_size_of_megatrons_is_enough_to_know_it(tmp_path: Path) -> None:
    text = "#!/bin/bash\nsn-launch python3 train.py {plan} --tensor-model-parallel-size 4\n"
    found = find_workload(text, "t.sh", (), tmp_path)
    assert (found.values["tp"], found.values["framework"]) == ("4", "megatron")


MOE = """torchrun pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32
  --ffn-hidden-size 14336 --swiglu --padded-vocab-size 32000 --num-experts 8 --seq-length 4096
  --pipeline-model-parallel-size 4 --bf16""".replace("\n", " \\\n")


def test_the_cut_of_experts_is_read_where_there_are_experts() -> None:
    words = "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1"
    found = read(f"{MOE} {words}").values
    assert (found["ep"], found["etp"]) == ("8", "1")
    assert "etp" not in read(f"{MOE} {words}".replace("--num-experts 8", "")).values


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("--num-layers-per-virtual-pipeline-stage 2", "4"),
        ("--num-virtual-stages-per-pipeline-rank 2", "2"),
        ("--pipeline-model-parallel-layout 'Ett|(tttt|)*6,ttttttL'", "2"),
        ("--pipeline-model-parallel-layout 'Et*8|t*8|t*8|t*8,L'", "1"),
        ("--num-layers-per-virtual-pipeline-stage 3", None),
        ("", None),
    ],
)
def test_virtual_stages_are_read_however_they_are_said(words: str, count: str | None) -> None:
    assert read(f"{MOE} {words}").values.get("virtual-stages") == count


@pytest.mark.parametrize(
    ("words", "precision"),
    [
        ("--fp8-format hybrid", "fp8"),
        ("--fp8-format e4m3 --fp8-recipe blockwise", "fp8"),
        ("--fp8-format e4m3 --fp8-recipe mxfp8", "mxfp8"),
        ("--fp4-format e2m1", "nvfp4"),
        ("", "bf16"),
    ],
)
def test_the_precision_of_matrices_is_a_format_and_a_recipe(words: str, precision: str) -> None:
    assert read(f"{MOE} {words}").values["precision"] == precision


def test_modules_of_multi_token_prediction_belong_to_the_model() -> None:
    assert find_model(read(f"{MOE} --mtp-num-layers 1").values["model"]).mtp == 1
    assert find_model(read(MOE).values["model"]).mtp == 0


def test_a_precision_and_a_schedule_are_read_in_torchtitans_words() -> None:
    base = "torchrun -m torchtitan.train --module llama3"
    mx = read(f"{base} --config llama3_8b_mxfp8 --parallelism.pipeline_parallel_degree 4")
    assert (mx.values["precision"], mx.values["pp"]) == ("mxfp8", "4")
    words = "--model.converters quantize.linear.float8 --training.seq_len 8192"
    assert read(f"{base} --config llama3_8b {words}").values["precision"] == "fp8"
    looped = "--parallelism.pipeline_parallel_schedule Interleaved1F1B"
    assert read(f"{base} --config llama3_8b {looped}").values["virtual-stages"] == "2"
    counted = f"{looped} --parallelism.pipeline_parallel_layers_per_stage 2"
    assert "virtual-stages" not in read(f"{base} --config llama3_8b {counted}").values


def test_parallel_experts_are_read_in_deepspeeds_file(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(
        '{"train_micro_batch_size_per_gpu": 1, "expert_parallel": {"autoep_size": 4}}'
    )
    found = read("deepspeed train.py --deepspeed_config ds.json", tmp_path)
    assert found.values["ep"] == "4"
