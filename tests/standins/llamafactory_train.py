"""Stands in for one process of LLaMA-Factory: a YAML file, and key=value behind it."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from standin import finish, need, number, rank, same
from zero import check_trainer

OWN = ("model_name_or_path", "stage", "do_train", "finetuning_type", "dataset", "template",
       "cutoff_len", "output_dir", "learning_rate", "num_train_epochs", "save_steps")  # fmt: skip
PLANNED = ("per_device_train_batch_size", "gradient_accumulation_steps", "bf16", "fp16",
           "disable_gradient_checkpointing", "deepspeed")  # fmt: skip


def main() -> int:
    """Check this rank; return the exit code."""
    me = rank()
    plan, pipeline = me.planned()
    need(sys.argv[1].endswith((".yaml", ".yml")), f"no YAML first: {sys.argv[1]}")
    given = yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for word in sys.argv[2:]:
        name, equals, value = word.partition("=")
        need(bool(equals), f"{word!r} is not key=value")
        given[name] = value
    for name in given:
        need(name in (*OWN, *PLANNED), f"unknown key {name!r}")
    same("sequence", plan.sequence, number(str(given["cutoff_len"]), "cutoff_len"))
    same("training", plan.training, given["finetuning_type"])
    full = pipeline.meshes[0].recompute == "full"
    same("recomputation is off", str(not full).lower(), given["disable_gradient_checkpointing"])
    return finish(me, plan.framework, sizes=check_trainer(given, me))


if __name__ == "__main__":
    sys.exit(main())
