// The ops of the engine and the virtual table a backend fills in.
//
// An op is a struct of arguments with `name`, `check()` (shapes and dtypes; throws) and `cost()`. Every op goes through
// run() (run.h). Backends only compute. To add an op: a header here, a place in AllOps (op_list.h), one source per backend
// (see CONTRIBUTING.md).
#pragma once
#include <array>
#include <cstddef>
#include <new>

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
#include "engine/ops/causal_conv.h"
#include "engine/ops/clip_scale.h"
#include "engine/ops/column_gate.h"
#include "engine/ops/combine.h"
#include "engine/ops/copy.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/delta_scan.h"
#include "engine/ops/dispatch.h"
#include "engine/ops/dispatch_plan.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/expert_bias.h"
#include "engine/ops/expert_ranks.h"
#include "engine/ops/fp8_matmul.h"
#include "engine/ops/fp8_parts.h"
#include "engine/ops/gated_norm.h"
#include "engine/ops/gelu_erf.h"
#include "engine/ops/grouped_matmul.h"
#include "engine/ops/head_norm.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/muon.h"
#include "engine/ops/nf4.h"
#include "engine/ops/op_list.h"
#include "engine/ops/quantise.h"
#include "engine/ops/random_normal.h"
#include "engine/ops/rms_norm.h"
#include "engine/ops/rotary.h"
#include "engine/ops/route.h"
#include "engine/ops/router_correction.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"
#include "engine/ops/scale_columns.h"
#include "engine/ops/scale_rows.h"
#include "engine/ops/selective_scan.h"
#include "engine/ops/sgd.h"
#include "engine/ops/short_conv.h"
#include "engine/ops/sigmoid.h"
#include "engine/ops/softcap.h"
#include "engine/ops/softmax.h"
#include "engine/ops/squared_relu.h"
#include "engine/ops/state_scan.h"
#include "engine/ops/sum_blocks.h"
#include "engine/ops/sum_squares.h"
#include "engine/ops/swiglu.h"
#include "engine/ops/tanh.h"
#include "engine/ops/xielu.h"

namespace mbench {

// How a device holds its backend's ops: a slot for each op, found by the op's place in AllOps. It is one array, which compiles fast.
// A class with a run() for each op takes GCC 12 33 s in every source that sees it, one with a base for each 1.1 s.
class OpTable {
 public:
  OpTable() = default;
  OpTable(const OpTable&) = delete;
  OpTable& operator=(const OpTable&) = delete;
  template <class Op>
  AnyOpSlot*& slot() {
    static_assert(place_of<Op>(AllOps()) < count_of(AllOps()), "an op that is not in AllOps (engine/ops/op_list.h)");
    return slots_[place_of<Op>(AllOps())];
  }

 private:
  std::array<AnyOpSlot*, count_of(AllOps())> slots_{};
};

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
    ((slot<Op>() = put<SlotOf<Backend, Op>>(place_of<Op>(AllOps()), backend)), ...);
  }
  // A search makes a table for each of its many recordings, so slots are not allocated one by one. A slot owns nothing, and is left as
  // it is when the table ends.
  template <class Slot>
  AnyOpSlot* put(std::size_t place, Backend& backend) {
    static_assert(sizeof(Slot) == sizeof(Room));
    return new (&rooms_[place]) Slot(backend);
  }
  struct alignas(void*) Room {
    std::byte bytes[sizeof(AnyOpSlot) + sizeof(Backend*)];
  };
  std::array<Room, count_of(AllOps())> rooms_;
};

}  // namespace mbench
