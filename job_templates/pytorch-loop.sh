#!/bin/bash
# A training loop of your own over cards of unlike speed.
#
#   sn-submit --model llama-3-8b --cards h100:8,a100:8 pytorch-loop.sh train.py
#
# sn-launch starts all ranks with one srun and gives each RANK, WORLD_SIZE, LOCAL_RANK,
# MASTER_ADDR and MASTER_PORT, the vendor's visible-devices variable, and its samples:
# SN_SAMPLES of the SN_GLOBAL_BATCH from SN_SAMPLE_OFFSET on. Weight the loss by samples,
# not by ranks: uneven_numpy.py beside this file shows the arithmetic, docs/training.md loops
# with DDP and FSDP2 on supernode_slurm.runtime.
#SBATCH --job-name=train
#SBATCH --time=1-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SN --framework torch
set -eu

sn-launch python3 "$@"
