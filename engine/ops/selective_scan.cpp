#include "engine/ops/selective_scan.h"

namespace mbench::ops {
namespace {

void need_states(std::string_view op, const SelectiveShape& s, const Tensor& states) {
  s.check(op);
  need_shape(op, "states", states, s.states());
  need_dtype(op, "states", states, DType::f32);
}

}  // namespace

void SelectiveShape::check(std::string_view op) const {
  need_float(op, "x", x);
  mbench::check(x.shape().rank() == 4 && in.shape().rank() == 4, op,
                "x and in, got {} and {}, need [seq, batch, groups, width]", x.shape(), in.shape());
  mbench::check(chunk > 0 && chunk <= kMostSelectiveChunk, op, "chunk, got {}, need 1 to {}", chunk,
                kMostSelectiveChunk);
  mbench::check(state_dim > 0 && state_dim <= kMostSelectiveStates, op, "state_dim, got {}, need 1 to {}", state_dim,
                kMostSelectiveStates);
  need_shape(op, "in", in, {seq(), batch(), groups(), in.shape()[3]});
  mbench::check(group_width() <= in.shape()[3], op, "gates in {} columns, need at least {}", in.shape()[3],
                group_width());
  need_shape(op, "steps", steps, {seq(), batch(), channels()});
  mbench::check(bc.shape().rank() == 3, op, "bc, got {}, need [seq, batch, columns]", bc.shape());
  need_shape(op, "bc", bc, {seq(), batch(), bc.shape()[2]});
  mbench::check(first >= 0 && first + 2 * state_dim <= bc.shape()[2], op,
                "B and C in columns [{}, {}), need some of {}", first, first + 2 * state_dim, bc.shape()[2]);
  need_shape(op, "a_log", a_log, {channels() * state_dim});
  need_shape(op, "dt_bias", dt_bias, {channels()});
  need_shape(op, "d", d, {channels()});
  for (const Tensor* t : {&in, &steps, &bc, &a_log, &dt_bias, &d}) need_dtype(op, "an input", *t, x.dtype());
}

double SelectiveShape::bytes() const {
  const double states = 4.0 * static_cast<double>(chunks() * batch() * channels() * state_dim),
               b_and_c =
                   static_cast<double>(seq() * batch() * 2 * state_dim * static_cast<std::int64_t>(size_of(x.dtype())));
  return 2 * bytes_of(x) + bytes_of(steps) + b_and_c + 3 * states;  // inputs and gates
}

void SelectiveScan::check() const {
  need_states(name, shape, states);
  if (y) need_same(name, "y", y, shape.x);
}

void SelectiveScanGrad::check() const {
  need_states(name, shape, states);
  need_same(name, "dy", dy, shape.x);
  need_same(name, "dstates", dstates, states);
  need_same(name, "dx", dx, shape.x);
  need_same(name, "din", din, shape.in);
  need_same(name, "dsteps", dsteps, shape.steps);
  need_same(name, "dbc", dbc, shape.bc);
  if (da_log) need_shape(name, "da_log", da_log, shape.a_log.shape());
  if (ddt_bias) need_shape(name, "ddt_bias", ddt_bias, shape.dt_bias.shape());
  if (dd) need_shape(name, "dd", dd, shape.d.shape());
}

}  // namespace mbench::ops
