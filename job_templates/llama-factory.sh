#!/bin/bash
# The model of your YAML, trained by LLaMA-Factory.
#
# sn-submit reads model, cutoff_len and finetuning_type in the YAML; {plan} becomes words like
# per_device_train_batch_size=2, which go before what stands in it.
#SBATCH --job-name=llama-factory
#SBATCH --time=1-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SN --framework llamafactory --cards h100:8 --global-batch 64
set -eu

CONFIG=$HOME/qwen2.5-7b-full-sft.yaml

# Without it a node with one device would train alone. The nodes meet by the variables
# that sn-launch sets: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT.
export FORCE_TORCHRUN=1

sn-launch --per-node llamafactory-cli train "$CONFIG" {plan}
