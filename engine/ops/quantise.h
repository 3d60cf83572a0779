// FP8 operands of GEMMs (base/fp8.h): code = fp8(scale * x), and x is about code * inverse, inverse = 1 / scale.
//
//   AbsMax          The largest |x| of a tensor.
//   Fp8Scale        Scales from such maxima (tensorwise).
//   UpdateScales    Scales from the largest of the last steps (delayed).
//   Quantise        Quantises a matrix by one scale.
//   QuantiseBlocks  Quantises a matrix by a scale for each block of 1 x 128, 128 x 1 or 128 x 128 elements.
//   Fp8Transpose    Transposes the codes of a matrix.
//
// GEMMs on GPUs take both operands with their inner dim contiguous (cuBLASLt's FP8 GEMMs on Hopper). So a matrix is
// needed both as it is, [rows, cols], and transposed, [cols, rows]. Either may be left out.
#pragma once
#include <limits>

#include "engine/base/fp8.h"
#include "engine/ops/arguments.h"

namespace mbench::ops {

// The scale that brings the largest |x| to the largest value of the type, as Transformer Engine's
// compute_scale_from_amax does. With `power_of_two` it is rounded down to a power of two. It is 1 where amax is 0 or
// not finite.
constexpr float fp8_scale(float amax, float largest, bool power_of_two = false) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (!(amax > 0) || amax > kMost) return 1;
  const float scale = amax < largest / kMost ? kMost : largest / amax;
  return power_of_two ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) & 0x7F800000u) : scale;
}

inline void need_fp8(std::string_view op, std::string_view argument, const Tensor& t) {
  check(is_fp8(t.dtype()), op, "dtype of {}, got {}, need e4m3 or e5m2", argument, name_of(t.dtype()));
}
inline void need_f32(std::string_view op, std::string_view argument, const Tensor& t, const Shape& shape) {
  need_shape(op, argument, t, shape);
  need_dtype(op, argument, t, DType::f32);
}

struct AbsMax {
  static constexpr std::string_view name = "abs_max";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor x;
  Tensor amax;  // [1] f32: the largest of what it held and |x|; NaN is ignored
  void check() const {
    need_float(name, "x", x);
    need_f32(name, "amax", amax, {1});
  }
  Cost cost() const { return {static_cast<double>(x.numel()), bytes_of(x)}; }
};

struct Fp8Scale {
  static constexpr std::string_view name = "fp8_scale";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor amax;            // [n] f32
  Tensor scale, inverse;  // likewise; the scales may take the maxima's place
  DType type = DType::e4m3;
  bool power_of_two = false;
  void check() const {
    need_f32(name, "amax", amax, {amax.numel()});
    need_f32(name, "scale", scale, amax.shape());
    need_f32(name, "inverse", inverse, amax.shape());
  }
  Cost cost() const { return {2.0 * static_cast<double>(amax.numel()), 3 * bytes_of(amax)}; }
};

// What Transformer Engine's DelayedScaling does with its maxima (amax_compute_algo "max", margin 0).
struct UpdateScales {
  static constexpr std::string_view name = "update_scales";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor amax;            // [n] f32: of the step that ends; zero after
  Tensor history;         // [steps, n] f32: row `row` gets amax
  Tensor scale, inverse;  // [n] f32, from the largest of each column of history; unchanged where that is 0
  std::int64_t row = 0;
  DType type = DType::e4m3;
  void check() const {
    need_f32(name, "amax", amax, {amax.numel()});
    for (const Tensor* t : {&scale, &inverse}) need_f32(name, "scales", *t, amax.shape());
    need_f32(name, "history", history, {history.shape()[0], amax.numel()});
    mbench::check(row >= 0 && row < history.shape()[0], name, "row, got {}, need below {}", row, history.shape()[0]);
  }
  Cost cost() const { return {static_cast<double>(history.numel()), bytes_of(history) + 6 * bytes_of(amax)}; }
};

struct Quantise {
  static constexpr std::string_view name = "quantise";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor x;           // [rows, cols]
  Tensor scale;       // [1] f32
  Tensor y;           // [rows, cols] e4m3 or e5m2, or empty
  Tensor transposed;  // [cols, rows], or empty
  Tensor amax{};      // [1] f32, or empty: as in AbsMax
  DType type() const { return y ? y.dtype() : transposed.dtype(); }
  void check() const {
    need_float(name, "x", x);
    const Shape &s = x.shape(), other{s[1], s[0]};
    need_f32(name, "scale", scale, {1});
    mbench::check(y || transposed, name, "y and transposed, got neither, need one");
    if (y) need_shape(name, "y", y, s), need_fp8(name, "y", y);
    if (transposed) need_shape(name, "transposed", transposed, other), need_fp8(name, "transposed", transposed);
    mbench::check(!y || !transposed || y.dtype() == transposed.dtype(), name, "y and transposed of different types");
    if (amax) need_f32(name, "amax", amax, {1});
  }
  Cost cost() const { return {2.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y) + bytes_of(transposed)}; }
};

// One scale for 128 elements along the inner dim of an operand: of y along cols, of the transposed one along rows. With
// `squares`, one for 128 x 128 elements. Scales are powers of two (Transformer Engine's Float8BlockScaling), laid out
// as cuBLASLt reads them. For 1 x 128 blocks that is [blocks along the inner dim, outer]. For 128 x 128 blocks it is
// [outer blocks, blocks along the inner dim], with the last dim padded to a multiple of 4.
struct QuantiseBlocks {
  static constexpr std::string_view name = "quantise_blocks";
  static constexpr TimePart part = TimePart::elementwise;
  static constexpr std::int64_t kBlock = 128;
  static constexpr std::int64_t blocks(std::int64_t n) { return (n + kBlock - 1) / kBlock; }
  static Shape scales_of(std::int64_t outer, std::int64_t inner, bool squares) {
    return squares ? Shape{blocks(outer), (blocks(inner) + 3) / 4 * 4} : Shape{blocks(inner), outer};
  }
  Tensor x;                               // [rows, cols]
  Tensor y, inverse;                      // [rows, cols] e4m3, or both empty
  Tensor transposed, transposed_inverse;  // [cols, rows] likewise
  bool squares = false;
  void check() const {
    need_float(name, "x", x);
    const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
    mbench::check(y || transposed, name, "y and transposed, got neither, need one");
    if (y) {
      need_shape(name, "y", y, {rows, cols});
      need_dtype(name, "y", y, DType::e4m3);
      need_f32(name, "inverse", inverse, scales_of(rows, cols, squares));
    }
    if (transposed) {
      need_shape(name, "transposed", transposed, {cols, rows});
      need_dtype(name, "transposed", transposed, DType::e4m3);
      need_f32(name, "transposed_inverse", transposed_inverse, scales_of(cols, rows, squares));
    }
  }
  Cost cost() const {
    return {4.0 * static_cast<double>(x.numel()),
            bytes_of(x) + bytes_of(y) + bytes_of(transposed) + bytes_of(inverse) + bytes_of(transposed_inverse)};
  }
};

struct Fp8Transpose {
  static constexpr std::string_view name = "fp8_transpose";
  static constexpr TimePart part = TimePart::copies;
  Tensor x;  // [rows, cols] e4m3 or e5m2
  Tensor y;  // [cols, rows]
  void check() const {
    need_fp8(name, "x", x);
    need_shape(name, "y", y, {x.shape()[1], x.shape()[0]});
    need_dtype(name, "y", y, x.dtype());
  }
  Cost cost() const { return {0, 2 * bytes_of(x)}; }
};

}  // namespace mbench::ops
