#!/bin/bash
# Qwen2.5-7B pretrained by MindSpeed-LLM on Ascend.
#
# Model, sequence and global batch stand in the arguments below, where sn-submit reads them.
# A 910C card is two devices: TP, PP and DP of {plan} count devices.
#SBATCH --job-name=qwen2.5-7b
#SBATCH --time=2-00:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SN --framework mindspeed --cards ascend910c:8
set -eu

MINDSPEED=$HOME/MindSpeed-LLM
TOKENIZER=/models/Qwen2.5-7B
DATA=/data/corpus_text_document
CHECKPOINT=$HOME/checkpoints/qwen2.5-7b

# The defaults end a job whose slowest rank still compiles or loads its checkpoint.
export HCCL_CONNECT_TIMEOUT=3600 HCCL_EXEC_TIMEOUT=3600
export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True TASK_QUEUE_ENABLE=2 CPU_AFFINITY_CONF=1
export CUDA_DEVICE_MAX_CONNECTIONS=1

sn-launch --per-node torchrun {torchrun} "$MINDSPEED/pretrain_gpt.py" \
    --use-mcore-models --distributed-backend nccl \
    --num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 \
    --group-query-attention --num-query-groups 4 --swiglu --normalization RMSNorm \
    --norm-epsilon 1e-6 --position-embedding-type rope --use-rotary-position-embeddings \
    --rotary-base 1000000 --disable-bias-linear --add-qkv-bias \
    --attention-dropout 0 --hidden-dropout 0 --attention-softmax-in-fp32 \
    --no-masked-softmax-fusion --no-gradient-accumulation-fusion \
    --untie-embeddings-and-output-weights \
    --padded-vocab-size 152064 --make-vocab-size-divisible-by 1 \
    --tokenizer-type PretrainedFromHF --tokenizer-name-or-path "$TOKENIZER" \
    --use-flash-attn --use-fused-rmsnorm --use-fused-swiglu --use-fused-rotary-pos-emb \
    --seq-length 4096 --max-position-embeddings 4096 --global-batch-size 256 \
    --train-iters 50000 --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine \
    --data-path "$DATA" --save "$CHECKPOINT" --load "$CHECKPOINT" --save-interval 500 {plan}
