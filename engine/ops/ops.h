// The ops of the engine and the virtual table a backend fills in.
//
// An op is a struct of arguments with `name`, `check()` (shapes and dtypes; throws) and `cost()`. run() is
// the one front: it checks, charges the meter and calls the device's table. Backends only compute. To add an
// op: a header here, a line in AllOps, one source per backend (see CONTRIBUTING.md).
#pragma once
#include "engine/device/device.h"
#include "engine/ops/adam.h"
#include "engine/ops/add.h"
#include "engine/ops/attention.h"
#include "engine/ops/attention_mask.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/bias_dropout_add.h"
#include "engine/ops/bias_gelu.h"
#include "engine/ops/copy.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/random_normal.h"
#include "engine/ops/softmax.h"
#include "engine/ops/sum_squares.h"
#include "engine/ops/tanh.h"

namespace mbench {

template <class... Op>
struct OpList {};

using AllOps = OpList<ops::Matmul, ops::BiasAdd, ops::BiasGrad, ops::LayerNorm, ops::LayerNormGrad,
                      ops::BiasGelu, ops::BiasGeluGrad, ops::Dropout, ops::DropoutGrad, ops::BiasDropoutAdd,
                      ops::AttentionMask, ops::Softmax, ops::SoftmaxGrad, ops::Attention, ops::AttentionGrad,
                      ops::Embedding, ops::EmbeddingGrad, ops::RowMax, ops::ExpSum, ops::CrossEntropyLoss,
                      ops::CrossEntropyGrad, ops::Adam, ops::SumSquares, ops::Add, ops::Copy, ops::Fill,
                      ops::RandomNormal, ops::Tanh, ops::TanhGrad>;

template <class Op>
class OpSlot {
 public:
  virtual ~OpSlot() = default;
  virtual void run(const Op& op) = 0;
};

template <class List>
class OpSlots;
template <class... Op>
class OpSlots<OpList<Op...>> : public OpSlot<Op>... {
 public:
  using OpSlot<Op>::run...;
};

// A backend derives from this and overrides run() for every op of AllOps.
class OpTable : public OpSlots<AllOps> {};

// A table whose run() of every op is one call of sink.take(op): for devices that treat all ops alike.
template <class Sink, class Base = OpTable, class List = AllOps>
class ForwardedOps;
template <class Sink, class Base>
class ForwardedOps<Sink, Base, OpList<>> : public Base {
 public:
  explicit ForwardedOps(Sink& sink) : sink_(sink) {}

 protected:
  Sink& sink_;
};
template <class Sink, class Base, class Op, class... Rest>
class ForwardedOps<Sink, Base, OpList<Op, Rest...>> : public ForwardedOps<Sink, Base, OpList<Rest...>> {
 public:
  using ForwardedOps<Sink, Base, OpList<Rest...>>::ForwardedOps;
  void run(const Op& op) override { this->sink_.take(op); }
};

template <class Op>
void run(Device& device, const Op& op) {
  op.check();
  device.meter().charge(op.cost());
  if (Timeline* timeline = device.timeline(); timeline && device.immediate()) {
    const double begin = device.now();
    device.ops().run(op);
    timeline->add(Track::compute, Op::name, begin, device.now());
    return;
  }
  device.ops().run(op);
}

}  // namespace mbench
