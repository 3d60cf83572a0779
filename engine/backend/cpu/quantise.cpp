#include "engine/ops/quantise.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
namespace {

// f(E()) with the storage type of FP8.
template <class F>
void with_fp8(DType t, F&& f) {
  t == DType::e4m3 ? f(e4m3{}) : f(e5m2{});
}

// The largest of the values that are numbers: in any order the same.
template <class T>
float abs_max(CpuOps& cpu, const T* x, std::int64_t n) {
  const std::int64_t tiles = (n + kTile - 1) / kTile;
  auto* partial = static_cast<float*>(cpu.scratch.bytes(static_cast<std::size_t>(tiles) * sizeof(float)));
  parallel_tiles(n, [&](std::int64_t begin, std::int64_t count) {
    float buffer[kTile], most = 0;
    const float* z = load(x + begin, buffer, count);
    for (std::int64_t i = 0; i < count; ++i) most = std::fabs(z[i]) > most ? std::fabs(z[i]) : most;
    partial[begin / kTile] = most;
  });
  float most = 0;
  for (std::int64_t t = 0; t < tiles; ++t) most = std::max(most, partial[t]);
  return most;
}

// Rows of a matrix that are turned round together, so that both sides are in the caches.
constexpr std::int64_t kTurned = 64;

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::AbsMax& op) {
  with_type(op.x.dtype(), [&](auto type) {
    float& amax = *op.amax.as<float>();
    amax = std::max(amax, abs_max(cpu, op.x.as<decltype(type)>(), op.x.numel()));
  });
}

template <>
void compute(CpuOps&, const ops::Fp8Scale& op) {
  for (std::int64_t i = 0; i < op.amax.numel(); ++i) {
    const float scale = ops::fp8_scale(op.amax.as<float>()[i], largest_of(op.type), op.power_of_two);
    op.scale.as<float>()[i] = scale;
    op.inverse.as<float>()[i] = 1 / scale;
  }
}

template <>
void compute(CpuOps&, const ops::UpdateScales& op) {
  const std::int64_t n = op.amax.numel(), steps = op.history.shape()[0];
  float *amax = op.amax.as<float>(), *history = op.history.as<float>();
  std::copy(amax, amax + n, history + op.row * n);
  for (std::int64_t i = 0; i < n; ++i) {
    float most = 0;
    for (std::int64_t step = 0; step < steps; ++step) most = std::max(most, history[step * n + i]);
    if (most > 0) {
      const float scale = ops::fp8_scale(most, largest_of(op.type));
      op.scale.as<float>()[i] = scale;
      op.inverse.as<float>()[i] = 1 / scale;
    }
    amax[i] = 0;
  }
}

template <>
void compute(CpuOps& cpu, const ops::Quantise& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1];
  const float scale = *op.scale.as<float>();
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    if (op.amax) {
      float& amax = *op.amax.as<float>();
      amax = std::max(amax, abs_max(cpu, op.x.as<T>(), op.x.numel()));
    }
    with_fp8(op.type(), [&](auto code_type) {
      using E = decltype(code_type);
      auto *y = op.y ? op.y.as<std::uint8_t>() : nullptr,
           *turned = op.transposed ? op.transposed.as<std::uint8_t>() : nullptr;
      parallel_rows((rows + kTurned - 1) / kTurned, kTurned * cols, [&](std::int64_t chunk) {
        float buffer[kTile];
        for (std::int64_t at = 0; at < cols; at += kTile)
          for (std::int64_t r = chunk * kTurned; r < std::min(rows, (chunk + 1) * kTurned); ++r) {
            const std::int64_t n = std::min(kTile, cols - at);
            const float* x = load(op.x.as<T>() + r * cols + at, buffer, n);
            for (std::int64_t i = 0; i < n; ++i) {
              const std::uint8_t code = fp8_from_float<E>(scale * x[i]);
              if (y) y[r * cols + at + i] = code;
              if (turned) turned[(at + i) * rows + r] = code;
            }
          }
      });
    });
  });
}

template <>
void compute(CpuOps&, const ops::QuantiseBlocks& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1], kBlock = op.kBlock;
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* x = op.x.as<T>();
    // The block of those rows and columns by one scale, both ways as `to` and `turned` ask.
    const auto block = [&](std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1, const Tensor& to,
                           const Tensor& turned) {
      float most = 0;
      for (std::int64_t r = r0; r < r1; ++r)
        for (std::int64_t c = c0; c < c1; ++c) {
          const float size = std::fabs(to_float(x[r * cols + c]));
          most = size > most ? size : most;
        }
      const DType kind = to ? to.dtype() : turned.dtype();
      const float scale = ops::fp8_scale(most, largest_of(kind), true);
      with_fp8(kind, [&](auto code_type) {
        for (std::int64_t r = r0; r < r1; ++r)
          for (std::int64_t c = c0; c < c1; ++c) {
            const std::uint8_t code = fp8_from_float<decltype(code_type)>(scale * to_float(x[r * cols + c]));
            if (to) to.as<std::uint8_t>()[r * cols + c] = code;
            if (turned) turned.as<std::uint8_t>()[c * rows + r] = code;
          }
      });
      return 1 / scale;
    };
    const std::int64_t row_blocks = op.blocks(rows), col_blocks = op.blocks(cols);
    const auto upto = [](std::int64_t begin, std::int64_t n) { return std::min(n, begin + 128); };
    if (op.squares) {
      parallel_rows(row_blocks, kBlock * cols, [&](std::int64_t i) {
        for (std::int64_t j = 0; j < col_blocks; ++j) {
          const float inverse =
              block(i * kBlock, upto(i * kBlock, rows), j * kBlock, upto(j * kBlock, cols), op.y, op.transposed);
          if (op.y) op.inverse.as<float>()[i * op.inverse.shape()[1] + j] = inverse;
          if (op.transposed) op.transposed_inverse.as<float>()[j * op.transposed_inverse.shape()[1] + i] = inverse;
        }
      });
      return;
    }
    if (op.y)
      parallel_rows(rows, cols, [&](std::int64_t r) {
        for (std::int64_t j = 0; j < col_blocks; ++j)
          op.inverse.as<float>()[j * rows + r] = block(r, r + 1, j * kBlock, upto(j * kBlock, cols), op.y, Tensor());
      });
    if (op.transposed)
      parallel_rows(row_blocks, kBlock * cols, [&](std::int64_t i) {
        for (std::int64_t c = 0; c < cols; ++c)
          op.transposed_inverse.as<float>()[i * cols + c] =
              block(i * kBlock, upto(i * kBlock, rows), c, c + 1, Tensor(), op.transposed);
      });
  });
}

template <>
void compute(CpuOps&, const ops::Fp8Transpose& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1];
  const auto* x = op.x.as<std::uint8_t>();
  auto* y = op.y.as<std::uint8_t>();
  parallel_rows((rows + kTurned - 1) / kTurned, kTurned * cols, [&](std::int64_t chunk) {
    for (std::int64_t c = 0; c < cols; ++c)
      for (std::int64_t r = chunk * kTurned; r < std::min(rows, (chunk + 1) * kTurned); ++r)
        y[c * rows + r] = x[r * cols + c];
  });
}

}  // namespace mbench::cpu
