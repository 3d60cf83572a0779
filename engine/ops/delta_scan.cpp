#include "engine/ops/delta_scan.h"

namespace mbench::ops {
namespace {

void need_delta(std::string_view op, const ScanShape& s, const Tensor& states) {
  check(!s.d, op, "d of the gated delta rule, need none");
  s.check(op);
  check(s.first + 2 * s.group() <= s.in.shape()[3], op, "decays and betas in columns [{}, {}), need some of {}",
        s.first, s.first + 2 * s.group(), s.in.shape()[3]);
  need_shape(op, "states", states, s.states());
  need_dtype(op, "states", states, DType::f32);
}

// f(length of the chunks, how many there are, share of what the causal order leaves).
template <class F>
void for_delta_lengths(const ScanShape& s, F&& f) {
  const std::int64_t full = s.seq() / s.chunk, rest = s.seq() % s.chunk;
  const auto share = [](std::int64_t n) { return (static_cast<double>(n) + 1) / (2 * static_cast<double>(n)); };
  if (full > 0) f(s.chunk, full, share(s.chunk));
  if (rest > 0) f(rest, std::int64_t{1}, share(rest));
}

// Raw decays and betas.
double bytes_of_raw(const ScanShape& s) {
  return static_cast<double>(2 * s.steps().numel()) * static_cast<double>(size_of(s.in.dtype()));
}

}  // namespace

void DeltaScan::check() const {
  need_delta(name, shape, states);
  need_shape(name, "y", y, shape.output());
  need_dtype(name, "y", y, shape.xbc.dtype());
}

std::vector<ScanGemm> DeltaScan::gemms() const {
  const ScanShape& s = shape;
  const std::int64_t n = s.state_dim, p = s.head_dim;
  std::vector<ScanGemm> all;
  for_delta_lengths(s, [&](std::int64_t length, std::int64_t chunks, double share) {
    const std::int64_t heads = chunks * s.batch() * s.heads(), groups = chunks * s.batch() * s.groups();
    all.push_back({length, length, n, 2 * groups, share});  // keys and queries with keys
    all.push_back({length, p, n, 2 * heads});               // keys and queries with the state before
    all.push_back({length, p, length, 2 * heads, share});   // the triangular system, and outputs within the chunk
    all.push_back({n, p, length, heads});                   // what a chunk adds to its state
  });
  return all;
}

Cost DeltaScan::cost() const {
  return {flops_of(gemms()), bytes_of(shape.xbc) + bytes_of_raw(shape) + 2 * bytes_of(states) + bytes_of(y), true};
}

void DeltaScanGrad::check() const {
  need_delta(name, shape, states);
  need_shape(name, "dy", dy, shape.output());
  need_dtype(name, "dy", dy, shape.xbc.dtype());
  need_same(name, "dxbc", dxbc, shape.xbc);
  need_same(name, "din", din, shape.in);
  for (const auto& [argument, vector] : {std::pair("da_log", &da_log), std::pair("ddt_bias", &ddt_bias)})
    if (*vector) need_shape(name, argument, *vector, {shape.heads()});
}

std::vector<ScanGemm> DeltaScanGrad::gemms() const {
  const ScanShape& s = shape;
  const std::int64_t n = s.state_dim, p = s.head_dim;
  std::vector<ScanGemm> all;
  for_delta_lengths(s, [&](std::int64_t length, std::int64_t chunks, double share) {
    const std::int64_t heads = chunks * s.batch() * s.heads(), groups = chunks * s.batch() * s.groups();
    all.push_back({length, length, n, 2 * groups, share});  // scores again
    all.push_back({length, p, n, 3 * heads});               // keys and queries with states and their gradients
    all.push_back({length, p, length, 3 * heads, share});   // the system, its transposed one, and outputs' gradients
    all.push_back({length, length, p, 2 * heads, share});   // gradients of scores
    all.push_back({length, n, p, 3 * heads});               // of keys and queries from states
    all.push_back({n, p, length, 2 * heads});               // of states
    all.push_back({length, n, length, 4 * heads, share});   // of keys and queries within the chunk
  });
  return all;
}

Cost DeltaScanGrad::cost() const {
  return {flops_of(gemms()), 2 * bytes_of(shape.xbc) + 2 * bytes_of_raw(shape) + 2 * bytes_of(states) + bytes_of(dy),
          true};
}

}  // namespace mbench::ops
