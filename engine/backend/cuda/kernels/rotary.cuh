// Rotates pairs of columns of heads by the angles of their position, in place.
#pragma once
#include <limits>

#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/rotary.h"

namespace mbench::cuda {

// Pair p of all is pair p % half of head p / half. Heads are counted within groups, groups within positions. `Count` holds p: a GPU divides
// 32-bit numbers several times as fast as 64-bit ones, and a thread divides three times for 64 bytes.
template <class T, class Count>
struct RotaryEach {
  static constexpr int kWidth = width_of<T>();
  T* x;
  const float *cosines, *sines;  // [seq, half]
  Count half, heads, groups;     // groups: of a position, in all samples
  std::int64_t head_dim, width;
  float sign;
  bool aligned() const {
    return cuda::aligned<kWidth>(x) && cuda::aligned<kWidth>(cosines, sines) && half % kWidth == 0 &&
           head_dim % kWidth == 0 && width % kWidth == 0;
  }
  template <int V>
  __device__ void apply(std::int64_t p) const {
    const Count pair = static_cast<Count>(p), head = pair / half, group = head / heads;
    const Count i = pair - head * half, own = head - group * heads;
    const std::int64_t angle = static_cast<std::int64_t>(group / groups) * half + i;
    T* at = x + group * width + own * head_dim + i;
    Floats<V> a = load<V>(at), b = load<V>(at + half);
    const Floats<V> c = load<V>(cosines + angle), s = load<V>(sines + angle);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float left = a.v[k], right = b.v[k], sine = sign * s.v[k];
      a.v[k] = left * c.v[k] - right * sine;
      b.v[k] = right * c.v[k] + left * sine;
    }
    store(at, a);
    store(at + half, b);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Rotary& op) {
  const Shape& s = op.x.shape();
  const std::int64_t half = op.turned() / 2;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const float* angles = pointer<float>(op.angles);
    const std::int64_t pairs = op.elements() / 2;
    const auto launch = [&](auto count) {
      using Count = decltype(count);
      launch_flat(stream, op.name, pairs,
                  RotaryEach<T, Count>{pointer<T>(op.x) + op.first, angles, angles + s[0] * half,
                                       static_cast<Count>(half), static_cast<Count>(op.heads),
                                       static_cast<Count>(s[2] * s[1]), op.head_dim, s[3], op.back ? -1.0f : 1.0f});
    };
    if (pairs <= std::numeric_limits<std::uint32_t>::max())
      launch(std::uint32_t{});
    else
      launch(std::int64_t{});
  });
}

}  // namespace mbench::cuda
