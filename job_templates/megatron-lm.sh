#!/bin/bash
# Llama-3-8B pretrained by Megatron-LM.
#
# Model, sequence and global batch stand in the arguments below, where sn-submit reads them;
# {plan} becomes TP, PP, micro-batch, recomputation and the rest of the layout.
#SBATCH --job-name=llama-3-8b
#SBATCH --time=2-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=TERM@300
#SN --framework megatron --cards h100:16
set -eu

MEGATRON=$HOME/Megatron-LM
TOKENIZER=/models/Meta-Llama-3-8B
DATA=/data/corpus_text_document
CHECKPOINT=$HOME/checkpoints/llama-3-8b

# Before Blackwell, tensor parallelism overlaps only if kernels start in their order.
export CUDA_DEVICE_MAX_CONNECTIONS=1

# --exit-signal-handler: the signal above, five minutes before the end, saves a checkpoint.
sn-launch python3 "$MEGATRON/pretrain_gpt.py" \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm \
    --position-embedding-type rope --rotary-base 500000 --disable-bias-linear \
    --attention-dropout 0 --hidden-dropout 0 \
    --untie-embeddings-and-output-weights --vocab-size 128256 \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER" \
    --seq-length 8192 --max-position-embeddings 8192 --global-batch-size 512 \
    --train-iters 50000 --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters 2000 \
    --data-path "$DATA" --save "$CHECKPOINT" --load "$CHECKPOINT" --save-interval 500 \
    --exit-signal-handler {plan}
