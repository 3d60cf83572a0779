#include "engine/ops/attention_sink.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

float sink_of(const Tensor& sinks, std::int64_t head) {
  float value = 0;
  with_type(sinks.dtype(), [&](auto type) {
    using T = decltype(type);
    float room[1];
    value = load(static_cast<const T*>(sinks.as<T>()) + head, room, 1)[0];
  });
  return value;
}

}  // namespace

template <>
void compute(CpuOps&, const ops::AttentionSink& op) {
  const Shape& s = op.out.shape();
  const std::int64_t seq = s[0], batch = s[1], heads = s[2], v = s[3];
  with_type(op.out.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(seq * batch * heads, v, [&](std::int64_t row) {
      const std::int64_t head = row % heads, sample = row / heads % batch, q = row / heads / batch;
      float& lse = op.lse.as<float>()[(sample * heads + head) * seq + q];
      const float sink = sink_of(op.sinks, head), top = std::max(lse, sink);
      const float all = top + std::log(std::exp(lse - top) + std::exp(sink - top)), share = std::exp(lse - all);
      lse = all;
      T* out = op.out.as<T>() + row * v;
      for (std::int64_t col = 0; col < v; col += kTile) {
        const std::int64_t n = std::min(kTile, v - col);
        float ob[kTile], yb[kTile];
        const float* from = load(static_cast<const T*>(out) + col, ob, n);
        float* to = target(out + col, yb);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] * share;
        store(to, out + col, n);
      }
    });
  });
}

template <>
void compute(CpuOps&, const ops::AttentionSinkGrad& op) {
  const Shape& s = op.out.shape();
  const std::int64_t seq = s[0], batch = s[1], heads = s[2], v = s[3];
  with_type(op.out.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(heads, seq * batch * v, [&](std::int64_t head) {
      const float sink = sink_of(op.sinks, head);
      double sum = 0;  // over rows in order, whatever the number of threads
      for (std::int64_t row = head; row < seq * batch * heads; row += heads) {
        const std::int64_t sample = row / heads % batch, q = row / heads / batch;
        const float weight = std::exp(sink - op.lse.as<float>()[(sample * heads + head) * seq + q]);
        float dot = 0;
        for (std::int64_t col = 0; col < v; col += kTile) {
          const std::int64_t n = std::min(kTile, v - col);
          float ob[kTile], db[kTile];
          const float* out = load(static_cast<const T*>(op.out.as<T>()) + row * v + col, ob, n);
          const float* dout = load(static_cast<const T*>(op.dout.as<T>()) + row * v + col, db, n);
          dot += sum_of(n, [=](std::int64_t i) { return out[i] * dout[i]; });
        }
        sum += static_cast<double>(weight) * dot;
      }
      with_type(op.dsinks.dtype(), [&](auto gradient) {
        using G = decltype(gradient);
        G* to = op.dsinks.as<G>() + head;
        float old[1], room[1];
        const float was = load(static_cast<const G*>(to), old, 1)[0];
        float* y = target(to, room);
        y[0] = was - static_cast<float>(sum);
        store(y, to, 1);
      });
    });
  });
}

}  // namespace mbench::cpu
