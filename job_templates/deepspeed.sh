#!/bin/bash
# Llama-3-8B by a DeepSpeed script of your own.
#
# The script calls deepspeed.init_distributed() and deepspeed.add_config_arguments(parser).
# {plan} becomes --deepspeed_config with a file that holds the batch, the ZeRO stage, the
# overlap, the type on the wire and the sizes of the buckets: let the script set none of them.
#SBATCH --job-name=llama-3-8b
#SBATCH --time=2-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SN --framework deepspeed --cards h100:16
#SN --model llama-3-8b --sequence 8192 --global-batch 256
set -eu

SCRIPT=$HOME/train.py
DATA=/data/corpus
CHECKPOINT=$HOME/checkpoints/llama-3-8b

sn-launch python3 "$SCRIPT" --data "$DATA" --checkpoint "$CHECKPOINT" \
    --sequence {sequence} {plan}
