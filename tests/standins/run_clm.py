"""Stands in for Transformers' example of causal language modelling."""

from __future__ import annotations

import sys

from standin import Options, finish, need, number, rank, same
from zero import check_trainer

VALUES = """--model_name_or_path --train_file --block_size --learning_rate --max_steps --save_steps
    --output_dir --per_device_train_batch_size --gradient_accumulation_steps --bf16 --fp16
    --gradient_checkpointing --deepspeed"""


def main() -> int:
    """Check this rank; return the exit code."""
    me = rank()
    plan, pipeline = me.planned()
    given = Options("--do_train", VALUES).parse_args()
    need(given.do_train, "no --do_train")
    same("sequence", plan.sequence, number(given.block_size, "--block_size"))
    full = pipeline.meshes[0].recompute == "full"
    same("gradient_checkpointing", str(full).lower(), given.gradient_checkpointing)
    return finish(me, plan.framework, sizes=check_trainer(vars(given), me))


if __name__ == "__main__":
    sys.exit(main())
