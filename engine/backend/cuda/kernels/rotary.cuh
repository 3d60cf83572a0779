// Pairs of columns of heads turned by the angles of their position, in place.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/rotary.h"

namespace mbench::cuda {

// Pair p of all: pair p % half of head p / half; heads are counted within groups, groups within tokens.
template <class T>
struct RotaryEach {
  static constexpr int kWidth = width_of<T>();
  T* x;
  const float *cosines, *sines;  // [seq, half]
  std::int64_t half, heads, head_dim, groups, width, batch;
  float sign;
  bool aligned() const {
    return cuda::aligned<kWidth>(x) && cuda::aligned<kWidth>(cosines, sines) && half % kWidth == 0 &&
           head_dim % kWidth == 0 && width % kWidth == 0;
  }
  template <int V>
  __device__ void apply(std::int64_t p) const {
    const std::int64_t i = p % half, head = p / half, group = head / heads;
    const std::int64_t angle = group / groups / batch * half + i;
    T* at = x + group * width + head % heads * head_dim + i;
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
    launch_flat(stream, op.name, op.elements() / 2,
                RotaryEach<T>{pointer<T>(op.x) + op.first, angles, angles + s[0] * half, half, op.heads,
                              op.head_dim, s[2], s[3], s[1], op.back ? -1.0f : 1.0f});
  });
}

}  // namespace mbench::cuda
