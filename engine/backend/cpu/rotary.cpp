#include "engine/ops/rotary.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
namespace {

// Pairs (a[i], b[i]) by the angles of their position.
template <class T>
void turn(T* a_at, T* b_at, const float* cosines, const float* sines, float sign, std::int64_t n) {
  float ab[kTile], bb[kTile], at[kTile], bt[kTile];
  for (std::int64_t begin = 0; begin < n; begin += kTile) {
    const std::int64_t count = std::min(kTile, n - begin);
    const float *a = load(a_at + begin, ab, count), *b = load(b_at + begin, bb, count);
    float *to_a = target(a_at + begin, at), *to_b = target(b_at + begin, bt);
    const float *c = cosines + begin, *s = sines + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float x = a[i], y = b[i], sine = sign * s[i];
      to_a[i] = x * c[i] - y * sine;
      to_b[i] = y * c[i] + x * sine;
    }
    store(to_a, a_at + begin, count);
    store(to_b, b_at + begin, count);
  }
}

}  // namespace

template <>
void compute(CpuOps&, const ops::Rotary& op) {
  const Shape& s = op.x.shape();
  const std::int64_t half = op.turned() / 2, planes = s[0] * half, tokens = s[0] * s[1];
  const float* angles = op.angles.as<float>();
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(tokens, s[2] * s[3], [&](std::int64_t token) {
      const float* cosines = angles + token / s[1] * half;
      for (std::int64_t group = 0; group < s[2]; ++group)
        for (std::int64_t head = 0; head < op.heads; ++head) {
          T* at = op.x.as<T>() + (token * s[2] + group) * s[3] + head * op.head_dim + op.first;
          turn(at, at + half, cosines, cosines + planes, op.back ? -1.0f : 1.0f, half);
        }
    });
  });
}

}  // namespace mbench::cpu
