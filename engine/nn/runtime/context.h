// What modules run in: the device, the plan, the groups, the step; and one micro batch of inputs.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/fiber.h"
#include "engine/base/philox.h"
#include "engine/nn/attention/rotary.h"
#include "engine/nn/linear/fp8_tensor.h"
#include "engine/nn/runtime/activation_offload.h"
#include "engine/nn/runtime/groups.h"
#include "engine/nn/runtime/paged_stash.h"
#include "engine/nn/runtime/part_graphs.h"
#include "engine/ops/arguments.h"
#include "engine/plan/plan.h"

namespace mbench::nn {

// Megatron's global memory buffer: a persistent buffer of each dtype that only grows, shared by everything that asks for it
// (megatron/core/utils.py, GlobalMemoryBuffer).
class GlobalBuffer {
 public:
  Tensor get(Device& device, const Shape& shape, DType dtype) {
    Tensor& buffer = buffers_[dtype];
    if (!buffer || buffer.numel() < shape.numel()) {
      buffer.reset();
      buffer = device.empty({shape.numel()}, dtype, Category::workspace, "global memory buffer");
    }
    return buffer.part(0, shape);
  }

 private:
  std::map<DType, Tensor> buffers_;
};

// How unevenly routers sent tokens, where the data decide: for each layer and micro batch, the largest expert's tokens
// over the mean.
struct RouterLoad {
  double sum = 0, largest = 0;
  std::int64_t count = 0;
  std::int64_t reruns = 0;  // steps that were run again because more rows came than there was room for
  // counts: [experts], the tokens of each.
  void add(std::span<const std::int64_t> counts);
};

class Linear;

// What makes the gradient of a linear layer's weight after all backwards: the layer's input, as it arrived, and the
// gradient of its GEMM's output.
struct DeferredGemm {
  const Linear* layer;
  Tensor input, gradient;
  bool gathered = false;  // the input has the rows of all ranks
};

struct Context {
  Device& device;
  const Plan& plan;
  const Groups& groups;
  GlobalBuffer buffer;
  std::int64_t step = 0;  // optimizer steps since the start: which dropout masks are drawn
  RotaryAngles angles{};
  std::vector<std::pair<DocumentsOrNone, Tensor>> document_tables{};       // see document_bounds()
  std::map<std::pair<std::int64_t, std::int64_t>, Tensor> placeholders{};  // of weights' gradients, by [out, in]
  Fp8Weights fp8_weights{};
  RouterLoad router_load{};
  std::vector<DeferredGemm> deferred{};  // of this step
  // [1] f32: the routers' losses, summed over the layers and micro batches of a step. Only where something asks for
  // them.
  Tensor router_losses{};
  Tensor step_on_device{};  // [1] i64, where steps or parts of them are replayed: the same as `step`
  PartGraphs graphs{};
  ActivationOffload offload{};
  // Set during a backward that is split: what it leaves to the action that makes the gradients of weights, in order.
  std::vector<std::function<void()>>* later = nullptr;
  std::size_t first_of_part = 0;  // in it: what the part of the model that runs has left
  // Where a forward and a backward take turns (Plan: ChunkPlan::pauses): the one of them that runs.
  enum class Way { forward, backward } way = Way::forward;
  Fiber* fiber = nullptr;
  std::function<void()> beside{};         // runs once, while the next tokens travel (BesideTokens)
  std::array<std::uint64_t, 2> passes{};  // of each way: which use of a layer runs that is used again and again (Pass)
  std::uint64_t roundings = 0;            // operands of NVFP4 that were rounded at random in this step
  PagedStash stash{};
  // With ExpertRoom: whether more rows came to this rank in this step than it has room for, and whether the step is run again.
  bool over_budget = false, rerun = false;

  const Keeps& keeps() const { return plan.keeps(); }
  // Where a weight's gradient is written. Gradients that a framework copies before it reduces them it adds to others, where they wait for
  // the last micro batch (FSDP2's set_requires_gradient_sync(False)).
  WeightGradients weight_gradients() const;
  // The rows that a rank's experts have room for; 0: as many as come.
  std::int64_t expert_room() const { return rerun ? 0 : plan.expert_room.rows; }
  const TrainingPlan& training() const { return plan.training; }
  float dropout() const { return plan.training.dropout; }
  DType dtype() const { return plan.precision.model; }
  // The positions of this rank's part of the sequence along cp: the rows of a micro batch.
  SequenceShare share() const { return plan.share_of(groups.coordinate(Axis::cp)); }
  // How many of those rows this rank holds between branches, and the first of them.
  std::int64_t local_seq() const;
  std::int64_t first_row() const;
  // The row of this rank's share that samples are classified from. Whether it is that position of the sequence: else another rank of cp has
  // it, and what is made of the row does not count.
  std::int64_t class_row() const;
  bool has_class_position() const;
  Shape hidden_shape() const { return {local_seq(), plan.training.micro_batch, plan.model.hidden}; }

  // The GEMM of a weight's gradient: runs it, or leaves it to a later action, in the same part of the model. What it needs it holds.
  template <class Gemm>
  void weight_gradient(Gemm&& gemm) {
    if (later)
      leave(std::forward<Gemm>(gemm));
    else
      gemm();
  }
  void leave(std::function<void()> gemm);
  // Does what was left so far.
  void make_left();
  // While tokens travel: `beside`, gradients of weights that were put off, and then the forward's or backward's other goes on. Only
  // `beside` where none takes turns with it, and in a forward that a backward runs again.
  void travel(Way own);

  // [2, seq] i64: the first position of each position's document, and the first behind it. Made when first used and kept.
  Tensor document_bounds(const DocumentsOrNone& documents);

  Tensor activation(const Shape& shape, std::string_view what) {
    return device.empty(shape, dtype(), Category::activations, what);
  }
};

// Runs `work` while the next tokens travel, or in end() where none did.
class BesideTokens {
 public:
  BesideTokens(Context& context, std::function<void()> work) : beside_(context.beside) { beside_ = std::move(work); }
  ~BesideTokens() { beside_ = {}; }
  BesideTokens(const BesideTokens&) = delete;
  BesideTokens& operator=(const BesideTokens&) = delete;
  void end() {
    if (const auto work = std::exchange(beside_, {})) work();
  }

 private:
  std::function<void()>& beside_;
};

// While it lives, the layer that runs is in its use `number` of a micro batch, from 0: each use draws dropout masks of its own.
class Pass {
 public:
  Pass(Context& context, std::uint64_t number) : at_(context.passes[static_cast<std::size_t>(context.way)]) {
    at_ = number;
  }
  ~Pass() { at_ = 0; }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

 private:
  std::uint64_t& at_;
};

// One micro batch on the device. Ids are [rows, batch], of the positions of this rank's share of the sequence.
struct MicroBatch {
  std::int64_t sample0 = 0;  // first sample within the global batch
  Tensor tokens, positions;
  Tensor labels, weights;  // of words; where these are predicted
  float inv_weight_sum = 1;
  // Where steps are replayed: [losses, 2] f32, for each loss its inv_weight_sum, and that times its gradient's scale.
  // The losses are words, words further on by depth, and classes of samples. Else empty: the numbers next to it are the
  // step's.
  Tensor factors;
  Tensor token_types, classes;       // where the model's parts need them; `classes` are of samples, [batch]
  float classes_inv_weight_sum = 1;  // likewise
  Tensor keep;                       // likewise, [chunks of the sequence, batch, their keys]; see keys_of()
  Tensor attention_mask;             // where the graph keeps one
  // For multi-token prediction, by depth: the words that a depth predicts. It reads the words that the depth before
  // predicts.
  struct Ahead {
    Tensor labels, weights;
    float inv_weight_sum = 1;
    float gradient_scale = 1;
    Tensor loss;
  };
  std::vector<Ahead> ahead;
  Tensor loss;               // [1] f32, written by the head
  float gradient_scale = 1;  // of d(loss): loss scale over the number of micro batches

  Tensor factors_of(std::int64_t loss) const { return factors ? factors.slice(loss, 1).view({2}) : Tensor(); }
};

// [batch, keys], 1 = a real key: of the whole sequence, or of a chunk of it, counted along the sequence. Empty where
// the model hides none.
Tensor keys_of(const MicroBatch& batch);
Tensor keys_of(const MicroBatch& batch, std::int64_t chunk);

// Dropout at a named site of the model, e.g. "layers.3.attention.dropout".
ops::DropoutSpec dropout_at(const Context& context, std::uint64_t site);
std::uint64_t site_of(const std::string& name);

}  // namespace mbench::nn
