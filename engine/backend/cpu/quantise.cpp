#include "engine/ops/quantise.h"

#include <algorithm>
#include <cmath>
#include <optional>

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

// Column c of 16 rows of a matrix from `x` on, through the Hadamard transform.
template <class T>
void hadamard_column(const T* x, std::int64_t cols, std::int64_t c, float* v) {
  for (std::int64_t i = 0; i < 16; ++i) v[i] = to_float(x[i * cols + c]);
  ops::Hadamard16::apply(v);
}

// The largest |value| of the transform.
template <class T>
float hadamard_abs_max(CpuOps& cpu, const T* x, std::int64_t rows, std::int64_t cols) {
  const std::int64_t strips = rows / 16;
  auto* partial = static_cast<float*>(cpu.scratch.bytes(static_cast<std::size_t>(strips) * sizeof(float)));
  parallel_rows(strips, 16 * cols, [&](std::int64_t s) {
    float v[16], most = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      hadamard_column(x + s * 16 * cols, cols, c, v);
      for (const float z : v) most = std::fabs(z) > most ? std::fabs(z) : most;
    }
    partial[s] = most;
  });
  return strips == 0 ? 0 : *std::max_element(partial, partial + strips);
}

// Rows of a matrix that are turned round together, so that both sides are in the caches.
constexpr std::int64_t kTurned = 64;

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::AbsMax& op) {
  const auto put = [](const Tensor& amax, float most) { *amax.as<float>() = std::max(*amax.as<float>(), most); };
  with_type(op.x.dtype(), [&](auto type) {
    const auto* x = op.x.as<decltype(type)>();
    if (op.amax) put(op.amax, abs_max(cpu, x, op.x.numel()));
    if (op.hadamard) put(op.hadamard, hadamard_abs_max(cpu, x, op.x.shape()[0], op.x.shape()[1]));
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
  const std::int64_t row = op.step ? *op.step.as<std::int64_t>() % steps : op.row;
  float *amax = op.amax.as<float>(), *history = op.history.as<float>();
  std::copy(amax, amax + n, history + row * n);
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

namespace {

// An operand [outer, inner] by blocks of MX; element (o, i) of it is x[o * outer_stride + i * inner_stride]. Outer rows are
// taken by tiles of scales, whose rows beyond the matrix get scales of zero.
template <class T>
void quantise_mx_operand(const T* x, std::int64_t outer, std::int64_t inner, std::int64_t outer_stride,
                         std::int64_t inner_stride, const Tensor& y, const Tensor& scales) {
  using Op = ops::QuantiseBlocks;
  auto *codes = y.as<std::uint8_t>(), *all = scales.as<std::uint8_t>();
  parallel_rows(Op::blocks(outer), Op::kBlock * inner, [&](std::int64_t tile) {
    const std::int64_t bytes = scales.shape()[1];
    std::fill(all + tile * bytes, all + (tile + 1) * bytes, std::uint8_t{0});
    for (std::int64_t o = tile * Op::kBlock; o < std::min(outer, (tile + 1) * Op::kBlock); ++o)
      for (std::int64_t i0 = 0; i0 < inner; i0 += Op::kMxBlock) {
        const std::int64_t n = std::min(Op::kMxBlock, inner - i0);
        float z[Op::kMxBlock], most = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          z[i] = to_float(x[o * outer_stride + (i0 + i) * inner_stride]);
          most = std::fabs(z[i]) > most ? std::fabs(z[i]) : most;
        }
        const std::uint8_t scale = ops::mx_scale(most, largest_of(DType::e4m3));
        const float up = ops::mx_multiplier(scale);
        for (std::int64_t i = 0; i < n; ++i) codes[o * inner + i0 + i] = fp8_from_float<e4m3>(up * z[i]);
        all[Op::mx_place(o, i0 / Op::kMxBlock, inner)] = scale;
      }
  });
}

void quantise_mx(const ops::QuantiseBlocks& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1];
  with_type(op.x.dtype(), [&](auto type) {
    const auto* x = op.x.as<decltype(type)>();
    if (op.y) quantise_mx_operand(x, rows, cols, cols, 1, op.y, op.inverse);
    if (op.transposed) quantise_mx_operand(x, cols, rows, 1, cols, op.transposed, op.transposed_inverse);
  });
}

// The codes of one block of 16 along the inner dim of an operand, and where its scale goes.
class NvOperand {
 public:
  NvOperand(const Tensor& codes, const Tensor& scales, const Tensor& amax, std::int64_t inner)
      : codes_(codes.as<std::uint8_t>()), scales_(scales.as<std::uint8_t>()), amax_(*amax.as<float>()), inner_(inner) {
    std::fill(scales_, scales_ + scales.numel(), std::uint8_t{0});
  }
  void draw(const ops::RandomRounding& rounding, bool transposed) {
    key_ = rounding.key;
    if (rounding.step) key_->step = static_cast<std::uint32_t>(*rounding.step.as<std::int64_t>());
    if (transposed) key_->site += ops::RandomRounding::kTransposed;
  }
  // `most`: the largest |value| of what shares the scale.
  void write(std::int64_t outer, std::int64_t block, const float* values, float most) {
    const ops::NvScale scale = ops::nv_scale(most, amax_);
    scales_[ops::QuantiseBlocks::nv_place(outer, block, inner_)] = scale.code;
    const std::int64_t first = outer * inner_ + block * kNv;
    for (std::int64_t i = 0; i < kNv; i += 2)
      codes_[(first + i) / 2] = static_cast<std::uint8_t>(code(first + i, values[i] * scale.multiplier) |
                                                          code(first + i + 1, values[i + 1] * scale.multiplier) << 4);
  }
  static constexpr std::int64_t kNv = ops::QuantiseBlocks::kNvBlock;

 private:
  std::uint8_t code(std::int64_t element, float x) const {
    return key_ ? e2m1_from_float(x, Philox::word(*key_, static_cast<std::uint64_t>(element))) : e2m1_from_float(x);
  }
  std::uint8_t *codes_, *scales_;
  float amax_;
  std::int64_t inner_;
  std::optional<RngKey> key_;
};

float largest_of_values(const float* v, std::int64_t n) {
  float most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::fabs(v[i]) > most ? std::fabs(v[i]) : most;
  return most;
}

// By tiles of 16 x 16, which have a block of each of their rows and each of their columns.
void quantise_nvfp4(const ops::QuantiseBlocks& op) {
  constexpr std::int64_t kNv = NvOperand::kNv;
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1];
  std::optional<NvOperand> y, transposed;
  if (op.y) y.emplace(op.y, op.inverse, op.amax, cols);
  if (op.transposed) transposed.emplace(op.transposed, op.transposed_inverse, op.transposed_amax, rows);
  if (op.rounding && y) y->draw(*op.rounding, false);
  if (op.rounding && transposed) transposed->draw(*op.rounding, true);
  with_type(op.x.dtype(), [&](auto type) {
    const auto* x = op.x.as<decltype(type)>();
    parallel_rows(rows / kNv, kNv * cols, [&](std::int64_t i) {
      float tile[kNv][kNv], turned[kNv];
      for (std::int64_t j = 0; j < cols / kNv; ++j) {
        for (std::int64_t r = 0; r < kNv; ++r)
          for (std::int64_t c = 0; c < kNv; ++c) tile[r][c] = to_float(x[(i * kNv + r) * cols + j * kNv + c]);
        const float square = op.by == ops::Fp8Blocks::nv_squares ? largest_of_values(tile[0], kNv * kNv) : 0;
        for (std::int64_t r = 0; y && r < kNv; ++r)
          y->write(i * kNv + r, j, tile[r], std::max(square, largest_of_values(tile[r], kNv)));
        for (std::int64_t c = 0; transposed && c < kNv; ++c) {
          for (std::int64_t r = 0; r < kNv; ++r) turned[r] = tile[r][c];
          if (op.hadamard) ops::Hadamard16::apply(turned);
          transposed->write(j * kNv + c, i, turned, std::max(square, largest_of_values(turned, kNv)));
        }
      }
    });
  });
}

}  // namespace

template <>
void compute(CpuOps&, const ops::QuantiseBlocks& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1], kBlock = op.kBlock;
  if (op.by == ops::Fp8Blocks::mx) return quantise_mx(op);
  if (of_nvfp4(op.by)) return quantise_nvfp4(op);
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
    const bool whole = op.by == ops::Fp8Blocks::whole_rows;
    const std::int64_t high = whole ? rows : kBlock, wide = whole ? cols : kBlock,  // of a block
        row_blocks = (rows + high - 1) / high, col_blocks = (cols + wide - 1) / wide;
    if (op.by == ops::Fp8Blocks::squares) {
      parallel_rows(row_blocks, kBlock * cols, [&](std::int64_t i) {
        for (std::int64_t j = 0; j < col_blocks; ++j) {
          const float inverse = block(i * kBlock, std::min(rows, (i + 1) * kBlock), j * kBlock,
                                      std::min(cols, (j + 1) * kBlock), op.y, op.transposed);
          if (op.y) op.inverse.as<float>()[i * op.inverse.shape()[1] + j] = inverse;
          if (op.transposed) op.transposed_inverse.as<float>()[j * op.transposed_inverse.shape()[1] + i] = inverse;
        }
      });
      return;
    }
    if (op.y)
      parallel_rows(rows, cols, [&](std::int64_t r) {
        for (std::int64_t j = 0; j < col_blocks; ++j)
          op.inverse.as<float>()[j * rows + r] =
              block(r, r + 1, j * wide, std::min(cols, (j + 1) * wide), op.y, Tensor());
      });
    if (op.transposed)
      parallel_rows(cols, rows, [&](std::int64_t c) {
        for (std::int64_t i = 0; i < row_blocks; ++i)
          op.transposed_inverse.as<float>()[i * cols + c] =
              block(i * high, std::min(rows, (i + 1) * high), c, c + 1, Tensor(), op.transposed);
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
