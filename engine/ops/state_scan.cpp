#include "engine/ops/state_scan.h"

#include <algorithm>

namespace mbench::ops {
namespace {

// With half of the elements above the diagonal hidden.
double causal_share(std::int64_t length) {
  return length == 0 ? 1 : (static_cast<double>(length) + 1) / (2 * static_cast<double>(length));
}

void need_states(std::string_view op, const ScanShape& s, const Tensor& steps, const Tensor& sums,
                 const Tensor& states) {
  s.check(op);
  check(static_cast<bool>(s.d), op, "d is missing, need [{}]", s.heads());
  for (const auto& [argument, tensor, shape] :
       {std::tuple("steps", &steps, s.steps()), std::tuple("sums", &sums, s.steps()),
        std::tuple("states", &states, s.states())}) {
    need_shape(op, argument, *tensor, shape);
    need_dtype(op, argument, *tensor, DType::f32);
  }
}

// f(length of the chunks, how many there are): full ones, and a short last one.
template <class F>
void for_lengths(const ScanShape& s, F&& f) {
  const std::int64_t full = s.seq() / s.chunk, rest = s.seq() % s.chunk;
  if (full > 0) f(s.chunk, full);
  if (rest > 0) f(rest, std::int64_t{1});
}

double bytes_between(const ScanShape& s, const Tensor& steps, const Tensor& states) {
  const double a_step = static_cast<double>(steps.numel() * static_cast<std::int64_t>(size_of(s.in.dtype())));
  return bytes_of(s.xbc) + a_step + 2 * bytes_of(steps) + 3 * bytes_of(states);
}

}  // namespace

void ScanShape::check(std::string_view op) const {
  need_float(op, "xbc", xbc);
  mbench::check(xbc.shape().rank() == 4 && in.shape().rank() == 4, op,
                "xbc and in, got {} and {}, need [seq, batch, groups, width]", xbc.shape(), in.shape());
  mbench::check(chunk > 0 && head_dim > 0 && state_dim > 0, op, "chunk {}, head_dim {}, state_dim {}, need at least 1",
                chunk, head_dim, state_dim);
  mbench::check(groups() > 0 && heads() % groups() == 0, op, "heads, got {}, need a multiple of {} groups", heads(),
                groups());
  need_shape(op, "xbc", xbc, {seq(), batch(), groups(), group_width() + 2 * state_dim});
  need_dtype(op, "in", in, xbc.dtype());
  need_shape(op, "in", in, {seq(), batch(), groups(), in.shape()[3]});
  mbench::check(first >= 0 && first + group() <= in.shape()[3], op, "steps in columns [{}, {}), need some of {}", first,
                first + group(), in.shape()[3]);
  for (const auto& [argument, vector] :
       {std::pair("a_log", &a_log), std::pair("dt_bias", &dt_bias), std::pair("d", &d)}) {
    if (vector == &d && !d) continue;  // of the gated delta rule
    need_shape(op, argument, *vector, {heads()});
    need_dtype(op, argument, *vector, xbc.dtype());
  }
}

double flops_of(const std::vector<ScanGemm>& gemms) {
  double flops = 0;
  for (const ScanGemm& gemm : gemms) flops += gemm.flops();
  return flops;
}

void StateScan::check() const {
  need_states(name, shape, steps, sums, states);
  if (!y) return;
  need_shape(name, "y", y, shape.output());
  need_dtype(name, "y", y, shape.xbc.dtype());
}

std::vector<ScanGemm> StateScan::gemms() const {
  const ScanShape& s = shape;
  const std::int64_t n = s.state_dim, p = s.head_dim;
  std::vector<ScanGemm> all;
  for_lengths(s, [&](std::int64_t length, std::int64_t chunks) {
    const std::int64_t heads = chunks * s.batch() * s.heads(), groups = chunks * s.batch() * s.groups();
    all.push_back({n, p, length, heads});  // what a chunk adds to its state
    if (!y) return;
    all.push_back({length, length, n, groups, causal_share(length)});  // C B^T
    all.push_back({length, p, length, heads, causal_share(length)});   // with decays, times x
    all.push_back({length, p, n, heads});                              // C and the state before
  });
  return all;
}

Cost StateScan::cost() const {
  return {flops_of(gemms()), bytes_between(shape, steps, states) + bytes_of(y), true};
}

void StateScanGrad::check() const {
  need_states(name, shape, steps, sums, states);
  need_same(name, "dstates", dstates, states);
  need_shape(name, "dy", dy, shape.output());
  need_dtype(name, "dy", dy, shape.xbc.dtype());
  need_same(name, "dxbc", dxbc, shape.xbc);
  need_same(name, "din", din, shape.in);
  for (const auto& [argument, vector] :
       {std::pair("da_log", &da_log), std::pair("ddt_bias", &ddt_bias), std::pair("dd", &dd)})
    if (*vector) need_shape(name, argument, *vector, {shape.heads()});
}

std::vector<ScanGemm> StateScanGrad::gemms() const {
  const ScanShape& s = shape;
  const std::int64_t n = s.state_dim, p = s.head_dim;
  std::vector<ScanGemm> all;
  for_lengths(s, [&](std::int64_t length, std::int64_t chunks) {
    const std::int64_t heads = chunks * s.batch() * s.heads(), groups = chunks * s.batch() * s.groups();
    const double share = causal_share(length);
    all.push_back({n, p, length, heads});                   // of the states: C^T dy
    all.push_back({length, length, n, groups, share});      // C B^T again
    all.push_back({length, length, p, heads, share});       // dy x^T
    all.push_back({length, p, length, heads, share});       // dx within the chunk
    all.push_back({length, p, n, 2 * heads});               // B and C with states and their gradients
    all.push_back({length, n, p, 2 * heads});               // dB and dC from them
    all.push_back({length, n, length, 2 * groups, share});  // dB and dC within the chunk
  });
  return all;
}

Cost StateScanGrad::cost() const {
  return {flops_of(gemms()), 2 * bytes_between(shape, steps, states) + bytes_of(dy), true};
}

}  // namespace mbench::ops
