"""The rules of DeepSpeed's JSON, and of the Trainer's arguments beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from standin import Rank, fail, need, number, same

DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def check_file(path: str, me: Rank) -> dict[str, int]:
    """Check a configuration of DeepSpeed against its own rules and the plan; return its sizes."""
    try:
        with open(path, encoding="utf-8") as stream:
            config = json.load(stream)
    except (OSError, ValueError) as error:
        fail(f"DeepSpeed's file {path}: {error}")
    whole, micro = config["train_batch_size"], config["train_micro_batch_size_per_gpu"]
    times = config["gradient_accumulation_steps"]
    same("train_batch_size", micro * times * me.world, whole)
    _check_zero(config["zero_optimization"])
    plan, pipeline = me.planned()
    same("global batch", plan.global_batch, whole)
    for mesh in pipeline.meshes:
        same("micro-batch", mesh.micro_batch, micro)
        same("replicas", mesh.dp, me.world)
        same("ZeRO stage", mesh.zero, config["zero_optimization"]["stage"])
    on = [name for name in DTYPES if config.get(name, {}).get("enabled")]
    same("precision", [plan.precision], on)
    return {"micro_batch": micro, "accumulation": times, "global_batch": whole}


def _check_zero(zero: Mapping[str, Any]) -> None:
    need(zero["stage"] in (0, 1, 2, 3), f"ZeRO stage {zero['stage']}")
    for name, value in zero.items():
        if name.endswith("_bucket_size"):
            need(isinstance(value, int) and value > 0, f"{name} {value!r}")
        if name.startswith("stage3_"):
            same(f"ZeRO stage of {name}", 3, zero["stage"])


def check_trainer(given: Mapping[str, str | None], me: Rank) -> dict[str, int]:
    """Check the Trainer's arguments: they must agree with DeepSpeed's file, if there is one."""
    micro = number(given.get("per_device_train_batch_size"), "per_device_train_batch_size")
    times = number(given.get("gradient_accumulation_steps"), "gradient_accumulation_steps")
    plan, _ = me.planned()
    same("global batch", plan.global_batch, micro * times * me.world)
    sizes = {"micro_batch": micro, "accumulation": times, "global_batch": micro * times * me.world}
    need(given.get("deepspeed") is not None, "no deepspeed")
    same("the arguments, and DeepSpeed's file", check_file(given["deepspeed"] or "", me), sizes)
    precision = plan.precision
    if "torch_dtype" in given:
        same("torch_dtype", DTYPES[precision], given["torch_dtype"])
    else:
        same(precision, "true", given.get(precision))
    return sizes
