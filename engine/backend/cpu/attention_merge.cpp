#include "engine/ops/attention_merge.h"

#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// log(exp(a) + exp(b)); -infinity where neither has a key. NaN is kept.
float log_of_both(float a, float b) {
  const float top = a < b ? b : a, less = a < b ? a : b;
  return top == -kInf ? less : top + std::log1p(std::exp(less - top));
}

float share_of(float lse, float all) {
  return lse == -kInf ? 0.0f : std::exp(lse - all);
}

template <class T, class TP>
void merge_row(const ops::AttentionMerge& op, std::int64_t row) {
  const Shape& s = op.out.shape();
  const std::int64_t head = row % (s[1] * s[2]), at = head * s[0] + row / (s[1] * s[2]), n = s[3];
  float& lse = op.lse.as<float>()[at];
  const float part_lse = op.added_lse.as<float>()[at], all = log_of_both(lse, part_lse);
  const float kept = share_of(lse, all), added = share_of(part_lse, all);
  T* out_at = op.out.as<T>() + row * n;
  const TP* part_at = op.added.as<TP>() + row * n;
  for (std::int64_t begin = 0; begin < n; begin += kTile) {
    const std::int64_t count = std::min(kTile, n - begin);
    float ob[kTile], pb[kTile], yb[kTile];
    const float* out = load(static_cast<const T*>(out_at) + begin, ob, count);
    const float* part = load(part_at + begin, pb, count);
    float* y = target(out_at + begin, yb);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = kept * out[i] + added * part[i];
    store(y, out_at + begin, count);
  }
  lse = all;
}

}  // namespace

template <>
void compute(CpuOps&, const ops::AttentionMerge& op) {
  const Shape& s = op.out.shape();
  with_type(op.out.dtype(), [&](auto type) {
    with_type(op.added.dtype(), [&](auto part_type) {
      parallel_rows(s[0] * s[1] * s[2], s[3],
                    [&](std::int64_t row) { merge_row<decltype(type), decltype(part_type)>(op, row); });
    });
  });
}

}  // namespace mbench::cpu
