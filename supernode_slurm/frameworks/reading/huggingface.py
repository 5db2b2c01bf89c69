"""Jobs of Hugging Face's Trainer and what is built on it: LLaMA-Factory, ms-swift, TRL, peft.

Read as well: the configuration of DeepSpeed, and that of Accelerate.
"""

from __future__ import annotations

import re

from . import models
from .files import Unread
from .found import Job, Reading
from .options import Options, Value, of_file, of_text

OWN = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "model_name_or_path",
    "deepspeed_config",
    "finetuning_type",
)
"""Options of which any says that a command is for the Trainer or DeepSpeed."""
_MODEL = ("model_name_or_path", "model", "model_id_or_path", "pretrained_model_name_or_path")
_SEQUENCE = (
    "cutoff_len",
    "max_seq_length",
    "max_seq_len",
    "block_size",
    "max_length",
    "model_max_length",
)
_RANK = ("lora_rank", "lora_r", "peft_lora_r", "lora_dim")
_KINDS = ("finetuning_type", "tuner_type", "train_type", "sft_type")
_ADAPTERS = ("lora", "qlora", "longlora", "adalora", "dora", "rslora")
_PRECISIONS = {"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "fp8": "fp8"}
_QUANTIZED = ("quantization_bit", "load_in_4bit", "load_in_8bit", "quant_bits")
_NOT_PLANNED = ("shard_grad_op", "no_shard", "hybrid_shard_zero2")
"""Values of --fsdp up to Transformers 5 that keep weights whole."""
_ZERO = re.compile(r"zero([0-3])(?:_offload)?\Z")


def read(reading: Reading, job: Job) -> None:
    """Take what the Trainer's arguments say of the workload, and DeepSpeed's below them."""
    models.put_named(reading, job, *_MODEL)
    reading.keep("sequence", *_SEQUENCE)
    reading.keep("micro-batch", "per_device_train_batch_size", "per_gpu_train_batch_size")
    reading.keep("accumulation", "gradient_accumulation_steps")
    training(reading)
    precision(reading)
    _zero(reading, job)


def training(reading: Reading) -> None:
    """Take whether all weights are trained, or adapters on frozen ones."""
    kind = reading.get(*_KINDS)
    name = kind.text.lower() if kind is not None else ""
    flags = [flag for flag in ("use_peft", "use_lora", "lora_enable") if reading.flag(flag)]
    if name in _ADAPTERS or flags or (not name and reading.has(*_RANK)):
        origin = kind.origin if kind else reading.origin(*flags, *_RANK)
        reading.put("train", "lora", origin)
        reading.keep("lora-rank", *_RANK)
    elif kind is not None and name == "full":
        reading.put("train", "full", kind.origin)
    elif kind is not None:
        reading.notes.append(
            f"{kind.origin}: training by '{name:.40}' is not planned: say --train full or lora"
        )
    quantized = reading.get(*_QUANTIZED)
    if quantized is not None and quantized.text.lower() not in ("false", "0"):
        reading.notes.append(
            f"{quantized.origin}: the frozen weights are quantized: they take less than planned"
        )


def precision(reading: Reading) -> None:
    """Take the precision: a flag, or the name of a type."""
    reading.precision(("bf16", "bf16"), ("fp16", "fp16"), ("pure_bf16", "bf16"))
    value = reading.get("mixed_precision", "torch_dtype", "dtype")
    if "precision" not in reading.values and value is not None:
        known = _PRECISIONS.get(value.text.removeprefix("torch."))
        if known:
            reading.put("precision", known, value.origin)


def _zero(reading: Reading, job: Job) -> None:
    """Take DeepSpeed's stage and batch, from its file or the words that stand for one."""
    reading.keep("zero", "zero_stage", "deepspeed_config.zero_stage")
    name = ("deepspeed", "deepspeed_config", "deepspeed_config.deepspeed_config_file")
    value = reading.get(*(each for each in name if _text(reading, each)))
    if value is None:
        return
    if known := _ZERO.match(value.text):
        reading.put("zero", known[1], value.origin)
        return
    try:
        if value.text.startswith("{"):
            options = of_text(value.text, value.origin)
        else:
            path = job.path(value.text)
            if path is None:
                raise Unread(f"{value.text} is not read: the folder it is in is not known")
            options = of_file(job.files, path, value.text)
    except Unread as error:
        reading.notes.append(f"{value.origin}: {error}")
        return
    _deepspeed(reading, options)


def _text(reading: Reading, name: str) -> str:
    value = reading.options.get(name)
    return "" if value is None else value.text or value.unknown


def _deepspeed(reading: Reading, options: Options) -> None:
    below = Reading(options, reading.notes)
    below.keep("global-batch", "train_batch_size")
    below.keep("micro-batch", "train_micro_batch_size_per_gpu")
    below.keep("accumulation", "gradient_accumulation_steps")
    below.keep("ep", "expert_parallel.autoep_size")
    stage = below.get("zero_optimization.stage")
    if stage is not None and re.fullmatch("[0-3]", stage.text):
        below.put("zero", stage.text, stage.origin)
    below.precision(
        ("bf16.enabled", "bf16"), ("bfloat16.enabled", "bf16"), ("fp16.enabled", "fp16")
    )
    for name, value in below.values.items():
        reading.put(name, value, below.origins[name])


def fsdp(reading: Reading, bare: bool) -> str:
    """Return where FSDP is asked for, empty if it is not; DeepSpeed beside it counts.

    ``bare``: the option stands without a value, which turns it on.
    """
    if runs_deepspeed(reading):
        return ""
    if bare:
        return reading.origin("fsdp")
    value = reading.get("fsdp")
    if value is not None and value.text.lower() not in ("", "false"):
        for word in value.text.split():
            if word in _NOT_PLANNED:
                reading.notes.append(f"{value.origin}: {word} is not planned, but full_shard")
        return value.origin
    kind = reading.options.get("distributed_type")
    if kind is not None and kind.text.upper() == "FSDP":
        return kind.origin
    return reading.origin("use_fsdp") if reading.is_set("use_fsdp") else ""


def runs_deepspeed(reading: Reading) -> bool:
    """Say whether DeepSpeed runs below Megatron's arguments."""
    return reading.has("deepspeed", "deepspeed_config")


def accelerate(options: Options) -> Options:
    """Return Accelerate's configuration with its DeepSpeed and Megatron parts in our words."""
    renamed: dict[str, Value] = {}
    names = {
        "deepspeed_config.gradient_accumulation_steps": "gradient_accumulation_steps",
        "megatron_lm_config.megatron_lm_tp_degree": "tensor_model_parallel_size",
        "megatron_lm_config.megatron_lm_pp_degree": "pipeline_model_parallel_size",
    }
    for name, value in options.items():
        renamed[names.get(name, name)] = value
    return renamed
