// The ops of the engine and the virtual table a backend fills in.
//
// An op is a struct of arguments with `name`, `check()` (shapes and dtypes; throws) and `cost()`. Every op goes through
// run() (run.h). Backends only compute. To add an op: a header here, a place in AllOps, one source per backend (see
// CONTRIBUTING.md).
#pragma once
#include <memory>

#include "engine/ops/activation.h"
#include "engine/ops/adafactor.h"
#include "engine/ops/adam.h"
#include "engine/ops/adam_blockwise.h"
#include "engine/ops/add.h"
#include "engine/ops/attention.h"
#include "engine/ops/attention_mask.h"
#include "engine/ops/attention_merge.h"
#include "engine/ops/attention_sink.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/bias_dropout_add.h"
#include "engine/ops/bias_gelu.h"
#include "engine/ops/clip_scale.h"
#include "engine/ops/combine.h"
#include "engine/ops/copy.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/dispatch.h"
#include "engine/ops/dispatch_plan.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/expert_bias.h"
#include "engine/ops/expert_ranks.h"
#include "engine/ops/fp8_matmul.h"
#include "engine/ops/fp8_parts.h"
#include "engine/ops/gelu_erf.h"
#include "engine/ops/grouped_matmul.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/muon.h"
#include "engine/ops/quantise.h"
#include "engine/ops/random_normal.h"
#include "engine/ops/rms_norm.h"
#include "engine/ops/rotary.h"
#include "engine/ops/route.h"
#include "engine/ops/router_correction.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"
#include "engine/ops/scale_rows.h"
#include "engine/ops/sgd.h"
#include "engine/ops/sigmoid.h"
#include "engine/ops/softcap.h"
#include "engine/ops/softmax.h"
#include "engine/ops/squared_relu.h"
#include "engine/ops/sum_blocks.h"
#include "engine/ops/sum_squares.h"
#include "engine/ops/swiglu.h"
#include "engine/ops/tanh.h"

namespace mbench {

template <class... Op>
struct OpList {};

using AllOps =
    OpList<ops::Matmul, ops::BiasAdd, ops::BiasGrad, ops::LayerNorm, ops::LayerNormGrad, ops::BiasGelu,
           ops::BiasGeluGrad, ops::Dropout, ops::DropoutGrad, ops::BiasDropoutAdd, ops::AttentionMask, ops::Softmax,
           ops::SoftmaxGrad, ops::Attention, ops::AttentionGrad, ops::AttentionMerge, ops::Embedding,
           ops::EmbeddingGrad, ops::RowMax, ops::ExpSum, ops::CrossEntropyLoss, ops::CrossEntropyGrad, ops::Adam,
           ops::ClipScale, ops::AdamBlockwise, ops::AdafactorSums, ops::AdafactorMoments, ops::AdafactorSquares,
           ops::AdafactorUpdate, ops::Sgd, ops::SumSquares, ops::Add, ops::Copy, ops::Fill, ops::RandomNormal,
           ops::Tanh, ops::TanhGrad, ops::CopyBlocks, ops::RmsNorm, ops::RmsNormGrad, ops::Rotary, ops::SwiGlu,
           ops::SwiGluGrad, ops::SquaredRelu, ops::SquaredReluGrad, ops::GeluErf, ops::GeluErfGrad, ops::DispatchPlan,
           ops::DispatchGrad, ops::Combine, ops::CombineGrad, ops::Route, ops::RouteGrad, ops::RouterLoss,
           ops::AddCounts, ops::MoveCorrection, ops::ExpertRanks, ops::Dispatch, ops::GroupedMatmul, ops::SumBlocks,
           ops::AbsMax, ops::Fp8Scale, ops::ScaleRows, ops::ScaleRowsGrad, ops::UpdateScales, ops::Quantise,
           ops::QuantiseBlocks, ops::Fp8Transpose, ops::Fp8Matmul, ops::BlockMaxima, ops::QuantisePart, ops::Activate,
           ops::ActivateGrad, ops::Scale, ops::Softcap, ops::SoftcapGrad, ops::Sigmoid, ops::SigmoidGrad,
           ops::AttentionSink, ops::AttentionSinkGrad, ops::MaxExpSum, ops::ExpertBias, ops::ExpertBiasGrad,
           ops::MuonMomentum, ops::MuonNormalise, ops::MuonUpdate>;

// How a device holds its backend's ops: a slot for each op. Slots are members of their own, and not one class with a
// run() for each op. Compilers resolve so many overloads slowly: 33 s of GCC 12 in every source that made a table.
template <class Op>
struct SlotFor {
  std::unique_ptr<OpSlot<Op>> slot;
};
template <class List>
class SlotsFor;
template <class... Op>
class SlotsFor<OpList<Op...>> : public SlotFor<Op>... {};
class OpTable : public SlotsFor<AllOps> {};

template <class Backend, class Op>
class SlotOf final : public OpSlot<Op> {
 public:
  explicit SlotOf(Backend& backend) : backend_(backend) {}
  void run(const Op& op) override { compute(backend_, op); }

 private:
  Backend& backend_;
};

// The table of a backend: run(op) is compute(backend, op), a free function found by its arguments' types. A backend
// whose ops differ declares `template <class Op> void compute(Backend&, const Op&);` for all ops, next to its own type.
// It specialises that function where each op is computed: an op of AllOps that it lacks is an undefined compute<Op> to
// the linker. A backend that treats all ops alike defines it once.
template <class Backend>
class TableOf : public OpTable {
 public:
  explicit TableOf(Backend& backend) { fill(backend, AllOps()); }

 private:
  template <class... Op>
  void fill(Backend& backend, OpList<Op...>) {
    ((SlotFor<Op>::slot = std::make_unique<SlotOf<Backend, Op>>(backend)), ...);
  }
};

}  // namespace mbench
