// The Plan: how one point is laid out, written by the strategies and read by the engine. Data only.
#pragma once
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/plan/mesh.h"
#include "engine/plan/placement.h"
#include "engine/plan/schedule.h"
#include "engine/spec/point.h"

namespace mbench {

// A run of layers on one stage; a stage has more than one under the interleaved schedule.
struct ChunkPlan {
  int stage = 0;
  int position = 0;  // among all chunks, in the order of the layers
  std::int64_t first_layer = 0, layers = 0;
  bool first = false;  // holds the embedding
  bool last = false;   // holds the head
};

struct LayerPlan {
  LinearPlan qkv, proj, fc1, fc2;
};

// What eager and fused graphs do differently, all of it. Eager keeps and materialises what Megatron-LM on
// PyTorch does, so that its peak memory is comparable with the published runs; fused keeps less and runs
// faster.
struct GraphStyle {
  bool fused_attention;  // one op from Q, K, V to context / product, softmax, dropout, product
  bool stored_masks;     // dropout masks kept, 1 byte an element / drawn again from their counters
  bool attention_mask;   // a [seq, seq] mask tensor kept for every micro batch / hidden keys known by rule
  bool global_buffer;    // Megatron's persistent buffer for scores and gathered activations
  bool logits_in_f32;    // cross entropy on an f32 copy, exponentials kept / gradient in place of the logits
  bool gradient_copy_in_f32;  // 16-bit gradients copied to f32 before the optimizer / read as they are
  bool fused_residual_grad;   // residual gradient added inside the norm's gradient / by an op of its own
  bool fused_epilogues;       // bias, GELU and their gradients in the matrix products / ops of their own
};

GraphStyle graph_style(Graph graph);

// What a forward drops, to be computed again in the backward.
struct SavePlan {
  bool drop_layers = false;          // full recompute: of a layer only its input is kept
  bool drop_attention_core = false;  // selective recompute: of the attention core only Q, K, V are kept
};

struct Plan {
  Point point;
  Mesh mesh;
  GraphStyle graph{};
  SavePlan save;

  Flow hidden{replicate, replicate};  // activations between blocks, [seq, batch, hidden]
  LinearPlan embedding;               // weight [vocab, hidden]: output is the sum over shards
  LinearPlan logits;                  // the same table as the output projection
  LayerPlan layer;

  std::vector<std::vector<ChunkPlan>> chunks;  // [stage][chunk]
  std::vector<Schedule> schedule;              // [stage]
  std::size_t gradient_bucket_bytes = 0;       // data-parallel all-reduce granularity

  int chunk_count() const { return static_cast<int>(chunks.size() * chunks[0].size()); }
  // The dtype of weights and activations, and of gradients as they accumulate.
  DType model_dtype() const;
  DType gradient_dtype() const;
  // Whether a replicated weight that acts on hidden activations sees only a part of the sequence, so that its
  // gradient must be summed over tp.
  bool hidden_is_sharded() const {
    return hidden.value.kind == Placement::Kind::shard && mesh.size(Axis::tp) > 1;
  }
};

}  // namespace mbench
