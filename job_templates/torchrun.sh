#!/bin/bash
# Llama-3.2-1B by a PyTorch script of your own under torchrun.
#
# All devices get equal shares of the batch. Cards of unlike speed: pytorch-loop.sh.
#SBATCH --job-name=llama-3.2-1b
#SBATCH --time=1-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SN --framework torch --cards h100:8
#SN --model llama-3.2-1b --sequence 4096 --global-batch 512
set -eu

SCRIPT=$HOME/train.py
DATA=/data/corpus
CHECKPOINT=$HOME/checkpoints/llama-3.2-1b

sn-launch --per-node torchrun {torchrun} "$SCRIPT" \
    --data "$DATA" --checkpoint "$CHECKPOINT" \
    --micro-batch-size {micro_batch} --accumulation {accumulation}
