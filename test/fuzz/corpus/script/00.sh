#!/bin/bash
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-2}
TP=${1:-4}
CHECKPOINT=$2
DATA=$(ls /data | head -1)
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES --master_port 6000
)
MODEL=" \
    --num-layers 8 \
    --hidden-size 128 --num-attention-heads 8 \
    --group-query-attention --num-query-groups 2 \
    --seq-length 256 --max-position-embeddings 256 \
    --normalization RMSNorm --swiglu --ffn-hidden-size 320 \
    --position-embedding-type rope --rotary-base 500000 --use-rope-scaling \
    --disable-bias-linear --untie-embeddings-and-output-weights \
"
DTYPE="fp8"
TRAIN=(--micro-batch-size 1 --global-batch-size 16 --bf16 --attention-dropout 0 --hidden-dropout 0 --lr 3e-4 --clip-grad 0.5)
if [[ "$DTYPE" == "fp8" ]]; then
  TRAIN+=("--fp8-format hybrid" --fp8-param-gather)
fi
PARALLEL=(
    --tensor-model-parallel-size $TP   # of a node
    --pipeline-model-parallel-size 2
    --num-layers-per-virtual-pipeline-stage 2
    --sequence-parallel
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL} ${TRAIN[@]} ${PARALLEL[@]} --vocab-size 32000 --save $CHECKPOINT --data-path $DATA --no-such-flag 3 \
  --no-bias-swiglu-fusion --recompute-granularity selective --cross-entropy-loss-fusion --log-interval 1 2>&1 | tee log
