#include "engine/ops/fp8_matmul.h"

#include <cblas.h>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
namespace {

using ops::Fp8Blocks;
using ops::Fp8Operand;

// Largest panels of what the codes stand for.
constexpr std::int64_t kRows = 512, kCols = 512, kDepth = 2048;
constexpr std::int64_t kBlock = ops::QuantiseBlocks::kBlock;

float inverse_at(const Fp8Operand& x, std::int64_t outer, std::int64_t inner) {
  const auto* inverse = reinterpret_cast<const float*>(x.inverse.data());
  switch (x.blocks) {
    case Fp8Blocks::tensor:
      return *inverse;
    case Fp8Blocks::whole_rows:
      return inverse[outer];
    case Fp8Blocks::rows:
      return inverse[inner / kBlock * x.codes.shape()[0] + outer];
    case Fp8Blocks::squares:
      return inverse[outer / kBlock * x.inverse.shape()[1] + inner / kBlock];
    case Fp8Blocks::nv:
    case Fp8Blocks::nv_squares:
      return fp8_to_float<e4m3>(x.inverse.as<std::uint8_t>()[ops::QuantiseBlocks::nv_place(
                 outer, inner / ops::QuantiseBlocks::kNvBlock, x.inner())]) *
             (*x.amax.as<float>() / (kLargestE2m1 * 448));
    case Fp8Blocks::mx:
      return e8m0_to_float(x.inverse.as<std::uint8_t>()[ops::QuantiseBlocks::mx_place(
          outer, inner / ops::QuantiseBlocks::kMxBlock, x.codes.shape()[1])]);
  }
  return 0;
}

struct Values {
  float of[256];
};
template <class E>
Values values_of_codes() {
  Values values;
  for (int code = 0; code < 256; ++code) values.of[code] = fp8_to_float<E>(static_cast<std::uint8_t>(code));
  return values;
}

// inner0 and depth are multiples of blocks.
void widen_nvfp4(const Fp8Operand& x, std::int64_t row0, std::int64_t inner0, std::int64_t rows, std::int64_t depth,
                 float* to) {
  constexpr std::int64_t kNv = ops::QuantiseBlocks::kNvBlock;
  const std::int64_t k = x.inner();
  parallel_rows(rows, depth, [&](std::int64_t r) {
    const auto* codes = x.codes.as<std::uint8_t>() + ((row0 + r) * k + inner0) / 2;
    for (std::int64_t i0 = 0; i0 < depth; i0 += kNv) {
      const float inverse = inverse_at(x, row0 + r, inner0 + i0);
      float* values = to + r * depth + i0;
      for (std::int64_t i = 0; i < kNv; ++i) {
        const std::uint8_t pair = codes[(i0 + i) / 2];
        values[i] = e2m1_to_float(i % 2 == 0 ? pair & 15 : pair >> 4) * inverse;
      }
    }
  });
}

// Of codes that lie along the outer dim, by one scale.
void widen_turned(const Fp8Operand& x, const Values& values, std::int64_t row0, std::int64_t inner0, std::int64_t rows,
                  std::int64_t depth, float* to) {
  constexpr std::int64_t kAtOnce = 64;  // rows whose codes share lines of the cache
  const std::int64_t outer = x.outer();
  const float inverse = inverse_at(x, 0, 0);
  parallel_rows((rows + kAtOnce - 1) / kAtOnce, kAtOnce * depth, [&](std::int64_t part) {
    const std::int64_t begin = part * kAtOnce, end = std::min(rows, begin + kAtOnce);
    for (std::int64_t i = 0; i < depth; ++i) {
      const auto* codes = x.codes.as<std::uint8_t>() + (inner0 + i) * outer + row0;
      for (std::int64_t r = begin; r < end; ++r) to[r * depth + i] = values.of[codes[r]] * inverse;
    }
  });
}

// [rows, depth] of an operand from (row0, inner0) on.
void widen(const Fp8Operand& x, std::int64_t row0, std::int64_t inner0, std::int64_t rows, std::int64_t depth,
           float* to) {
  if (of_nvfp4(x.blocks)) return widen_nvfp4(x, row0, inner0, rows, depth, to);
  static const Values of_e4m3 = values_of_codes<e4m3>(), of_e5m2 = values_of_codes<e5m2>();
  const Values& values = x.codes.dtype() == DType::e4m3 ? of_e4m3 : of_e5m2;
  if (x.turned) return widen_turned(x, values, row0, inner0, rows, depth, to);
  const std::int64_t k = x.codes.shape()[1], block = x.blocks == Fp8Blocks::mx ? ops::QuantiseBlocks::kMxBlock : kBlock;
  parallel_rows(rows, depth, [&](std::int64_t r) {
    const auto* codes = x.codes.as<std::uint8_t>() + (row0 + r) * k + inner0;
    for (std::int64_t i = 0; i < depth;) {
      const std::int64_t end = std::min(depth, ((inner0 + i) / block + 1) * block - inner0);
      const float inverse = inverse_at(x, row0 + r, inner0 + i);
      for (; i < end; ++i) to[r * depth + i] = values.of[codes[i]] * inverse;
    }
  });
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::Fp8Matmul& op) {
  const std::int64_t m = op.m(), n = op.n(), k = op.k();
  const std::int64_t rows = std::min(m, kRows), cols = std::min(n, kCols), depth = std::min(k, kDepth);
  auto* a = static_cast<float*>(
      cpu.scratch.bytes(static_cast<std::size_t>(rows * depth + cols * depth + rows * cols) * sizeof(float)));
  float *b = a + rows * depth, *c = b + cols * depth;
  for (std::int64_t i = 0; i < m; i += rows)
    for (std::int64_t j = 0; j < n; j += cols) {
      const std::int64_t mi = std::min(rows, m - i), nj = std::min(cols, n - j);
      for (std::int64_t p = 0; p < k; p += depth) {
        const std::int64_t kp = std::min(depth, k - p);
        widen(op.a, i, p, mi, kp, a);
        widen(op.b, j, p, nj, kp, b);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(mi), static_cast<int>(nj),
                    static_cast<int>(kp), 1, a, static_cast<int>(kp), b, static_cast<int>(kp), p > 0 ? 1.0f : 0.0f, c,
                    static_cast<int>(nj));
      }
      with_type(op.c.dtype(), [&](auto type) {
        using T = decltype(type);
        parallel_rows(mi, nj, [&](std::int64_t r) {
          T* to = op.c.as<T>() + (i + r) * n + j;
          for (std::int64_t e = 0; e < nj; ++e)
            to[e] = from_float<T>(c[r * nj + e] + (op.beta == 0 ? 0 : op.beta * to_float(to[e])));
        });
      });
    }
}

}  // namespace mbench::cpu
