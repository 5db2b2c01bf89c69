#!/bin/bash
# Qwen2.5-7B-Instruct fine-tuned with LoRA by ms-swift.
#
# swift starts torchrun by the variables that sn-launch sets: NNODES, NODE_RANK,
# NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT. Before ms-swift 4, --tuner_type is --train_type.
#SBATCH --job-name=qwen2.5-7b-lora
#SBATCH --time=12:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SN --framework swift --train lora --cards a100:8 --global-batch 64
set -eu

MODEL=Qwen/Qwen2.5-7B-Instruct
DATA=/data/instructions.jsonl
OUTPUT=$HOME/checkpoints/qwen2.5-7b-lora

sn-launch --per-node swift sft --model "$MODEL" --dataset "$DATA" \
    --tuner_type lora --lora_rank 16 --lora_alpha 32 --target_modules all-linear \
    --max_length 4096 --learning_rate 1e-4 --num_train_epochs 1 --save_steps 200 \
    --output_dir "$OUTPUT" {plan}
