"""Stands in for one process of ms-swift's sft."""

from __future__ import annotations

import sys

from standin import Options, finish, number, rank, same
from zero import check_trainer

VALUES = """--model --dataset --tuner_type --lora_rank --lora_alpha --target_modules --max_length
    --learning_rate --num_train_epochs --save_steps --output_dir --per_device_train_batch_size
    --gradient_accumulation_steps --torch_dtype --gradient_checkpointing --deepspeed"""


def main() -> int:
    """Check this rank; return the exit code."""
    me = rank()
    plan, _ = me.planned()
    given = Options("", VALUES).parse_args()
    same("training", plan.training, given.tuner_type)
    same("sequence", plan.sequence, number(given.max_length, "--max_length"))
    return finish(me, plan.framework, sizes=check_trainer(vars(given), me))


if __name__ == "__main__":
    sys.exit(main())
