// Attention cores of a sequence that is split over the ranks of cp: each makes the outputs of this rank's positions, with the
// keys and values of all.
#pragma once
#include "engine/nn/attention_core.h"

namespace mbench {

// An all-to-all before and after `core`: it works on all positions, for some of the heads (Jacobs et al. 2023, "DeepSpeed
// Ulysses"). Ranks must have equal ranges of positions, and their number divide the groups of heads.
std::unique_ptr<AttentionCore> heads_for_positions(std::unique_ptr<AttentionCore> core);

// How a rank comes by the keys and values of the others: at once, or in turn from its neighbour in the ring of ranks, the next
// ones beside the attention over the last (Liu et al. 2023, "Ring Attention with Blockwise Transformers").
enum class KeysBy { all_gather, ring };

// Chunk of queries by chunk of keys, those that causal attention hides left out; what comes of each is merged. Every rank has
// the same number of blocks of the same shapes (plan/sequence_share.h). Of the probabilities nothing is kept but their rows'
// statistics, and backward brings the keys and values again.
std::unique_ptr<AttentionCore> attention_by_blocks(KeysBy way);

}  // namespace mbench
