// Attention cores of a sequence that is split over the ranks of cp. Each makes the outputs of this rank's positions,
// with the keys and values of all.
#pragma once
#include "engine/nn/attention/attention_core.h"

namespace mbench::nn {

// An all-to-all before and after `core`, which works on all positions, for some of the heads (Jacobs et al. 2023,
// "DeepSpeed Ulysses"). Ranks must have equal ranges of positions, and the number of ranks must divide the groups of
// heads.
std::unique_ptr<AttentionCore> heads_for_positions(std::unique_ptr<AttentionCore> core);

// How a rank gets the keys and values of the others. `all_gather`: at once. `ring`: one after the other from its
// neighbour in the ring of ranks, each overlapped with the attention over the last (Liu et al. 2023, "Ring Attention
// with Blockwise Transformers").
enum class KeysBy { all_gather, ring };

// Attention of each chunk of queries to each chunk of keys that the causal mask does not hide; the results are merged. A rank's own chunks
// are one block where only the order of positions matters: without a window, documents, ALiBi and dropout.
// Every rank has the same number of blocks of the same shapes (plan/sequence_share.h). Only the statistics of the
// probabilities' rows are kept, and backward brings the keys and values again.
std::unique_ptr<AttentionCore> attention_by_blocks(KeysBy way);

}  // namespace mbench::nn
