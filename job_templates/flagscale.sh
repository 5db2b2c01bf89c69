#!/bin/bash
# Llama-3-8B by FlagScale over H100 and Ascend in one job.
#
# FlagScale's own runner reaches the nodes by ssh, past Slurm: here sn-launch starts the ranks,
# and each is told its node's kind, which the runner takes from its host file. One process for
# each device, because nodes of unlike size cannot share one torchrun.
#SBATCH --job-name=llama-3-8b
#SBATCH --time=2-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SN --framework flagscale --cards h100:8,ascend910c:8
set -eu

FLAGSCALE=$HOME/FlagScale
TOKENIZER=/models/Meta-Llama-3-8B
DATA=/data/corpus_text_document
CHECKPOINT=$HOME/checkpoints/llama-3-8b

# As FlagScale's runner exports it.
export PYTHONPATH="$FLAGSCALE:$FLAGSCALE/third_party/Megatron-LM${PYTHONPATH:+:$PYTHONPATH}"
export CUDA_DEVICE_MAX_CONNECTIONS=1 HCCL_CONNECT_TIMEOUT=3600

sn-launch sh -c 'exec python3 "$@" --hetero-current-device-type "$SN_GROUP"' sh \
    "$FLAGSCALE/flagscale/train/train_gpt.py" \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm \
    --position-embedding-type rope --rotary-base 500000 --disable-bias-linear \
    --attention-dropout 0 --hidden-dropout 0 \
    --untie-embeddings-and-output-weights --vocab-size 128256 \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER" \
    --seq-length 8192 --max-position-embeddings 8192 --global-batch-size 256 \
    --train-iters 50000 --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine \
    --data-path "$DATA" --save "$CHECKPOINT" --load "$CHECKPOINT" --save-interval 500 {plan}
