// Balances an MoE's experts without a loss (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 2.1.2). A
// correction is added to every expert's score, only for the choice. After each step it moves by what was counted in the
// step.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct AddCounts {  // load += counts
  static constexpr std::string_view name = "add_counts";
  Tensor counts;  // [experts] i64, as DispatchPlan makes them
  Tensor load;    // [experts] f32
  void check() const {
    need_dtype(name, "counts", counts, DType::i64);
    need_dtype(name, "load", load, DType::f32);
    need_shape(name, "load", load, counts.shape());
  }
  Cost cost() const { return {static_cast<double>(counts.numel()), bytes_of(counts) + 2 * bytes_of(load)}; }
};

// correction += speed where the load is below the mean, -= speed where it is above; load = 0.
struct MoveCorrection {
  static constexpr std::string_view name = "move_correction";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor load, correction;  // [experts] f32
  float mean = 0;           // of the load
  float speed = 0;
  void check() const {
    need_dtype(name, "load", load, DType::f32);
    need_same(name, "correction", correction, load);
  }
  Cost cost() const { return {2.0 * static_cast<double>(load.numel()), 2 * bytes_of(load) + 2 * bytes_of(correction)}; }
};

}  // namespace mbench::ops
