case $S in 7b|8b) L=32;; *) exit 1 ;; esac
for S in 512; do X=$((S*2)); done
f() { local A=$1; pretrain="--num-layers ${A:-4}"; }
f 8
if [[ $X -gt 3 && -z "$Y" ]]; then M=(--hidden-size 64 --num-attention-heads 4); else M=(); fi
eval "torchrun --nproc_per_node=8 pretrain_gpt.py $pretrain ${M[*]} --seq-length 128 --max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1000"
