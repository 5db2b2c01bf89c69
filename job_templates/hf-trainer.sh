#!/bin/bash
# Qwen2.5-7B trained further by Hugging Face's Trainer.
#
# run_clm.py is that of transformers/examples/pytorch/language-modeling; any script whose
# arguments are TrainingArguments will do. The model stands in the arguments below, where
# sn-submit reads it; {plan} becomes batch, accumulation, precision and DeepSpeed's file,
# with --framework hf-fsdp FSDP's.
#SBATCH --job-name=qwen2.5-7b
#SBATCH --time=1-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SN --framework hf --cards a100:8 --global-batch 128
set -eu

SCRIPT=$HOME/run_clm.py
MODEL=Qwen/Qwen2.5-7B
DATA=/data/corpus.jsonl
OUTPUT=$HOME/checkpoints/qwen2.5-7b-clm

sn-launch python3 "$SCRIPT" --do_train --model_name_or_path "$MODEL" --train_file "$DATA" \
    --block_size 4096 --learning_rate 1e-5 --max_steps 2000 --save_steps 200 \
    --output_dir "$OUTPUT" {plan}
