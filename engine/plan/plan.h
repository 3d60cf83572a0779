// The Plan: how one point is laid out, written by the strategies and read by the engine. Data only. It holds no Point: what a module does
// follows from the plan.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/documents.h"
#include "engine/base/dtype.h"
#include "engine/framework/framework.h"
#include "engine/plan/mesh.h"
#include "engine/plan/optimizer_plan.h"
#include "engine/plan/placement.h"
#include "engine/plan/schedule.h"
#include "engine/plan/sequence_share.h"
#include "engine/plan/state.h"
#include "engine/point/adapter.h"
#include "engine/point/architecture.h"
#include "engine/point/capture.h"
#include "engine/point/choices.h"
#include "engine/point/offloaded_activations.h"
#include "engine/point/regions.h"
#include "engine/point/router.h"

namespace mbench {

// What is trained, the same in every layout.
struct TrainingPlan {
  std::int64_t seq = 0;
  std::int64_t micro_batch = 0;    // samples of a micro batch on a data-parallel rank
  std::int64_t micro_batches = 0;  // of a step, on a data-parallel rank
  std::uint64_t seed = 0;
  float dropout = 0;
  double learning_rate = 0;
  std::int64_t lr_warmup = 0;
  double weight_decay = 0;
  double clip_grad = 0;
  // What is packed into every sequence. Null: a sequence is one document.
  DocumentsOrNone documents = nullptr;
  bool reset_positions = true;  // positions restart in each document
  // The documents where positions restart in them.
  const Documents* positions_by() const { return reset_positions ? documents.get() : nullptr; }
};

// Consecutive layers on one stage. A stage has more than one chunk under the interleaved schedule.
struct ChunkPlan {
  int stage = 0;
  int position = 0;  // among all chunks, in the order of the layers
  std::int64_t first_layer = 0, layers = 0;
  bool first = false;  // holds the embedding
  bool last = false;   // holds the head
  // Holds the norm behind the last layer. That is the head's chunk, or, where depths of multi-token prediction read the norm, the last
  // layer's chunk.
  bool norm = false;
  std::int64_t depths = 0;  // of multi-token prediction: all of the model's, or none
  // How many hidden activations [seq, batch, hidden] are in a message from the chunk before, and in one to the chunk behind. They are the
  // model's and, between depths and a head on another chunk, also one for each depth.
  int receives = 1, sends = 1;
  // How often a forward of it stops while tokens travel, and a backward: with overlap_moe, twice a layer with experts.
  int pauses = 0;
  int expert_layers = 0;  // layers with experts, those of depths among them

  // Whether what the layer before the loss keeps is wanted at once, because the backward follows its forward. Where micro batches take turns
  // another forward comes in between.
  bool backward_follows() const { return last && pauses == 0; }

  // Whether another chunk has the same parts, whichever layers they are.
  bool like(const ChunkPlan& o) const {
    return layers == o.layers && first == o.first && last == o.last && norm == o.norm && depths == o.depths &&
           receives == o.receives && sends == o.sends && pauses == o.pauses;
  }
};

struct PrecisionPlan {
  Precision units = Precision::f32;  // whose rate GEMMs run at: f32 and tf32 have the same types
  DType model = DType::f32;          // weights and activations
  DType gradients = DType::f32;      // as they accumulate and are reduced
  bool loss_scaling = false;         // dynamic; a step whose gradients overflow is skipped
  DType moments = DType::f32;        // Adam's
  DType main = DType::f32;           // what the optimizer updates; the model's own weights if they have this type
  // GEMMs of the layers' linear parts in FP8, where there is a recipe. The rest is as in 16 bits.
  std::optional<Fp8Recipe> fp8 = std::nullopt;
  std::int64_t first_in_16_bits = 0, last_in_16_bits = 0;  // layers at the start and the end whose GEMMs are not
  bool fp8_parameters = false;  // these GEMMs' weights are kept in FP8 only / in 16 bits, with an FP8 copy
  // The device multiplies FP8 operands with one scale as they lie, so that none is transposed (ops::Fp8Operand).
  bool turned_fp8 = false;

  // Whether the GEMMs of a layer stay in 16 bits where others have a recipe.
  bool in_16_bits(std::int64_t layer, std::int64_t layers) const {
    return fp8 && (layer < first_in_16_bits || layer >= layers - last_in_16_bits);
  }
  bool main_weights() const { return model != main; }  // f32 originals in addition to the model's
};

// Static room for the rows of a rank's experts, whichever come, as Megatron-Core's experts without synchronization have it. Rows beyond it
// are dropped, and the step is run again without a bound.
struct ExpertRoom {
  std::int64_t rows = 0;  // 0: as many as come

  // Pages for what experts keep until their backward (engine/nn/runtime/paged_stash.h), of tensors whose rows have so many bytes: how many
  // lie in the device's memory and how many in its host's.
  struct Pages {
    std::int64_t row_bytes = 0, device = 0, host = 0;
    bool operator==(const Pages&) const = default;
  };
  std::vector<std::vector<Pages>> pages;  // [stage]; empty: what experts keep stays where it is
  // Whether simulated rows want more pages than lie on the device, so that micro batches differ in which they find.
  bool spills = false;

  static constexpr std::int64_t kPageRows = 64;  // Megatron-LM's default of --moe-paged-stash-page-size
  static std::int64_t pages_of(std::int64_t rows) { return (rows + kPageRows - 1) / kPageRows; }
  bool on_host() const;  // whether any stage has pages there
};

// Who prepares samples on the host.
struct LoaderPlan {
  int workers = 0;      // threads that prepare them ahead of the step; 0: the step itself does
  bool pinned = false;  // samples lie in page-locked memory, where a device has any use for it
};

struct Plan {
  ModelSpec model;
  std::int64_t vocab = 0;  // rows of the tables of words, padding included
  TrainingPlan training;
  Mesh mesh;
  // The framework whose program a step runs as (strategies/graph.cpp sets it).
  std::shared_ptr<const Framework> framework;
  const Keeps& keeps() const { return framework->keeps; }
  AttentionKind attention = AttentionKind::core;
  CpCommunication cp_communication = CpCommunication::ring;
  EpCommunication ep_communication = EpCommunication::all_to_all;
  PrecisionPlan precision;
  AdapterSpec adapter;  // with one, all weights but its own are frozen
  RouterMode router;    // where the model has experts
  bool equal_shares =
      true;  // with balanced routing: all experts have the same number of rows, whatever tokens a rank dispatches
  double routing_imbalance = 1;  // of the fullest rank's rows over the mean, in simulation
  ExpertRoom expert_room;

  Flow hidden;  // activations between branches, [seq, batch, hidden]
  // What a role means; see role(). For experts, the weight [experts, out, in] is over etp x ep. The column's `input` to `consumed` brings
  // tokens from hidden activations to where they are dispatched. The row's `gemm` to `output` brings sums of experts' outputs back.
  std::array<LinearPlan, kRoles> linear;
  // [layer, multi-token prediction's last]: what its forward drops, to be recomputed in backward.
  std::vector<Regions> recompute;
  // What of the rest lies in host memory until its backward, and how many elements a tensor has at least that goes there.
  OffloadedActivations offloaded;
  std::int64_t min_offloaded_elements = 0;
  // What layers exchange over tp is sent in parts, overlapped with the GEMMs that consume or produce it (engine/nn/runtime/tensor_overlap.h).
  bool tp_comm_overlap = false;
  TpGathers tp_gathers = TpGathers::block;

  std::vector<std::vector<ChunkPlan>> chunks;  // [stage][chunk]
  std::vector<Schedule> schedule;              // [stage]
  // For this many micro batches of a step, the last stage computes the gradient of the logits' weight after its last backward.
  std::int64_t deferred_gemms = 0;
  // A backward makes gradients of weights while its tokens travel, and the last ones at its end.
  bool delay_wgrad = false;
  StatePlan state;
  // Whether gradients are sent during the last backward, and updated weights during the next forward.
  bool overlap_grad_reduce = true, overlap_param_gather = true;
  LoaderPlan loader;
  // Steps are recorded once and replayed, or parts of their layers are. What they read from the host is written to the device before.
  bool capture = false;
  CapturedParts captured;
  // Replicas are threads of one process. Only the first has inputs, loss and optimizer (nn.DataParallel).
  bool single_process = false;
  OptimizerPlan optimizer;
  std::size_t gradient_bucket_bytes = 0;  // granularity of a gradient's reduction

  // The stage that has a chunk, by its place in the order of the layers.
  int stage_at(int position) const;
  // Whether backwards leave the gradients of weights to actions of their own.
  bool splits_backward() const;
  // The stages that hold a table of words. They are the first, the stage with the depths of multi-token prediction (without depths the last
  // stage), and the last where its head is tied.
  std::vector<int> stages_with_words() const;
  const LinearPlan& role(Role role) const { return linear[static_cast<std::size_t>(role)]; }
  // A linear layer whose weight is whole on every rank, with activations that flow as given.
  static LinearPlan whole_on(const Flow& flow) { return {Spread(), flow, flow, flow, flow}; }
  // Activations that have all positions of a context-parallel rank's share on each of its ranks, and are otherwise as hidden ones.
  Flow whole_share() const;
  // The positions of the sequence that a rank of cp has. They are two chunks where attention goes block by block over ranks, one chunk
  // where every rank has the whole sequence in attention.
  SequenceShare share_of(int cp_rank) const;
};

}  // namespace mbench
