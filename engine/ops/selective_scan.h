// The scan of the first Mamba (Gu and Dao 2023, section 3.3), whose A is of each channel. For a channel with a state h of [state_dim], a
// step dt = softplus(raw + bias) and A = -exp(a_log):
//
//   h(t) = exp(dt(t) A) h(t - 1) + dt(t) x(t) B(t),   y(t) = (C(t)^T h(t) + D x(t)) silu(z(t))
//
// All channels share B and C. States are kept where a chunk of the sequence begins, so that chunks can be scanned side by side, and
// backward makes the states between them again.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

inline constexpr std::int64_t kMostSelectiveChunk = 64;  // positions
inline constexpr std::int64_t kMostSelectiveStates = 256;

struct SelectiveShape {
  Tensor x;           // [seq, batch, groups, n]: the inputs; all groups * n columns are channels
  Tensor in;          // [seq, batch, groups, width]: the first n columns are the gates z
  Tensor steps;       // [seq, batch, channels]: raw
  Tensor bc;          // [seq, batch, columns]: B from column `first` on, and then C
  Tensor a_log;       // [channels * state_dim]
  Tensor dt_bias, d;  // [channels]
  std::int64_t state_dim = 0, chunk = 0, first = 0;

  std::int64_t seq() const { return x.shape()[0]; }
  std::int64_t batch() const { return x.shape()[1]; }
  std::int64_t groups() const { return x.shape()[2]; }
  std::int64_t group_width() const { return x.shape()[3]; }
  std::int64_t channels() const { return groups() * group_width(); }
  std::int64_t chunks() const { return (seq() + chunk - 1) / chunk; }
  Shape states() const { return {chunks(), batch(), channels(), state_dim}; }
  void check(std::string_view op) const;
  // Of what is read and handed from chunk to chunk.
  double bytes() const;
  // For each position, channel and element of a state.
  double elements() const { return static_cast<double>(x.numel()) * static_cast<double>(state_dim); }
};

struct SelectiveScan {
  static constexpr std::string_view name = "selective_scan";
  static constexpr TimePart part = TimePart::attention;
  SelectiveShape shape;
  Tensor states;  // [chunks, batch, channels, state_dim] f32: where a chunk begins
  Tensor y;       // like x; none where only the states are asked for
  void check() const;
  Cost cost() const { return {(y ? 8 : 5) * shape.elements(), shape.bytes() + bytes_of(y)}; }
  // Of the FLOPs those that are exponentials: the decays. Each takes a CPU as long as ten others.
  double exponentials() const { return shape.elements(); }
};

struct SelectiveScanGrad {
  static constexpr std::string_view name = "selective_scan_grad";
  static constexpr TimePart part = TimePart::attention;
  SelectiveShape shape;
  Tensor dy, states;
  Tensor dstates;               // like states: gradients of the states where chunks end
  Tensor dx;                    // like x
  Tensor din;                   // like in; only the columns of gates are written
  Tensor dsteps;                // like steps
  Tensor dbc;                   // like bc; only the columns of B and C are written
  Tensor da_log, ddt_bias, dd;  // accumulate; none where they are frozen
  void check() const;
  Cost cost() const { return {22 * shape.elements(), 2 * shape.bytes() + bytes_of(dy)}; }
  double exponentials() const { return shape.elements(); }  // as forward has them: backward may keep them for a chunk
};

}  // namespace mbench::ops
