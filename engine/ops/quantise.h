// FP8 operands of GEMMs (base/fp8.h): code = fp8(scale * x), and x is about code * inverse, inverse = 1 / scale.
//
//   AbsMax          The largest |x| of a tensor.
//   Fp8Scale        Scales from such maxima (tensorwise).
//   UpdateScales    Scales from the largest of the last steps (delayed).
//   Quantise        Quantises a matrix by one scale.
//   QuantiseBlocks  Quantises a matrix by a scale for each block of 1 x 128, 128 x 128, 1 x 32, 1 x 16 or 16 x 16 elements.
//   Fp8Transpose    Transposes the codes of a matrix.
//
// GEMMs on GPUs take both operands with their inner dim contiguous (cuBLASLt's FP8 GEMMs on Hopper). So a matrix is
// needed both as it is, [rows, cols], and transposed, [cols, rows]. Either may be left out.
#pragma once
#include <limits>
#include <optional>

#include "engine/base/fp8.h"
#include "engine/base/philox.h"
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

// The scale of a block of MX with that largest |x|, as E8M0: about amax / largest, not below it (Transformer Engine's
// MXFP8BlockScaling multiplies by the reciprocal, and so does this).
constexpr std::uint8_t mx_scale(float amax, float largest) {
  return e8m0_from_float(amax * (1 / largest));
}
// What elements of a block are multiplied with: 1 / scale, 2^(127 - code); at most 2^127.
constexpr float mx_multiplier(std::uint8_t scale) {
  return scale == 0xFF ? e8m0_to_float(scale) : e8m0_to_float(static_cast<std::uint8_t>(254 - scale));
}

inline void need_fp8(std::string_view op, std::string_view argument, const Tensor& t) {
  check(is_fp8(t.dtype()), op, "dtype of {}, got {}, need e4m3 or e5m2", argument, name_of(t.dtype()));
}
inline void need_f32(std::string_view op, std::string_view argument, const Tensor& t, const Shape& shape) {
  need_shape(op, argument, t, shape);
  need_dtype(op, argument, t, DType::f32);
}

// Rounds at random with draws of a site and a step. `step`: [1] i64, or empty: in place of the key's, where a recorded step is
// replayed. An element's place in the operand names its draw. The transposed operand draws from another site.
struct RandomRounding {
  RngKey key;
  Tensor step{};
  constexpr static std::uint64_t kTransposed = 0x9E3779B97F4A7C15u;  // added to the site
};

// 16 values times the orthogonal Hadamard matrix of order 16 (Sylvester's), with a fixed change of signs before it, in place.
struct Hadamard16 {
  static constexpr std::uint32_t kSigns = 0xB2E4;  // bit i: value i changes its sign
  static constexpr void apply(float* v) {
    for (int i = 0; i < 16; ++i) v[i] = (kSigns >> i & 1u) != 0 ? -0.25f * v[i] : 0.25f * v[i];
    stage<1>(v), stage<2>(v), stage<4>(v), stage<8>(v);
  }

 private:
  // Its length is a constant, so that compilers unroll it, and a kernel keeps the values in registers.
  template <int Half>
  static constexpr void stage(float* v) {
    for (int i = 0; i < 8; ++i) {
      const int at = i / Half * 2 * Half + i % Half;
      const float a = v[at], b = v[at + Half];
      v[at] = a + b, v[at + Half] = a - b;
    }
  }
};

// The code of a block's scale of NVFP4, and what its elements are multiplied with: 6 * 448 / amax / scale; 0 where the scale is.
struct NvScale {
  std::uint8_t code = 0;
  float multiplier = 0;
};
constexpr NvScale nv_scale(float block, float amax) {
  constexpr float kTop = kLargestE2m1 * 448;
  if (!(amax > 0) || amax > std::numeric_limits<float>::max()) return {};
  const float encode =
      kTop / amax < std::numeric_limits<float>::max() ? kTop / amax : std::numeric_limits<float>::max();
  NvScale scale{fp8_from_float<e4m3>(block * (1 / kLargestE2m1) * encode)};
  const float value = fp8_to_float<e4m3>(scale.code);
  if (value > 0) scale.multiplier = encode / value;
  return scale;
}

struct AbsMax {
  static constexpr std::string_view name = "abs_max";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor x;
  // [1] f32: the largest of what it held and |x|; NaN is ignored. `hadamard`: likewise of H x, as QuantiseBlocks has it, where x is
  // a matrix. Either may be empty.
  Tensor amax, hadamard{};
  void check() const {
    need_float(name, "x", x);
    mbench::check(amax || hadamard, name, "amax and hadamard, got neither, need one");
    if (amax) need_f32(name, "amax", amax, {1});
    if (!hadamard) return;
    need_f32(name, "hadamard", hadamard, {1});
    mbench::check(x.shape().rank() == 2 && x.shape()[0] % 16 == 0, name,
                  "x, got {}, need a matrix of a multiple of 16 rows", x.shape());
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
  Tensor step{};  // [1] i64, or empty: the row is its remainder by the number of rows
  void check() const {
    if (step) need_shape(name, "step", step, {1}), need_dtype(name, "step", step, DType::i64);
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

// The elements that share a scale.
enum class Fp8Blocks {
  tensor,      // all of them
  whole_rows,  // all along the inner dim
  rows,        // 128 along the inner dim
  squares,     // 128 x 128
  mx,          // 32 along the inner dim, MXFP8
  nv,          // 16 along the inner dim, NVFP4
  nv_squares,  // 16 x 16, NVFP4
};
constexpr bool of_nvfp4(Fp8Blocks by) {
  return by == Fp8Blocks::nv || by == Fp8Blocks::nv_squares;
}

// The inner dim is cols for y and rows for the transposed operand. So all kinds but squares quantise a matrix twice.
// cuBLASLt reads scales in these shapes:
//
//   whole_rows  f32 [outer].
//   rows        f32 [blocks along the inner dim, outer].
//   squares     f32 [outer blocks, blocks along the inner dim].
//   others      8 bits [outer blocks of 128, tiles along the inner dim, 512].
//
// The last dim of squares is padded to a multiple of 4. A tile of 512 has the scales of 128 rows x 4 blocks, see place();
// beyond the matrix they are zero. nv_squares has the scale of a square in each of its rows.
//
// Scales of whole rows (torchao's rowwise), rows, squares (Float8BlockScaling) and mx (MXFP8BlockScaling) are powers of two. Those of mx are rounded up from
// largest |x| / 448, so that nothing saturates. The others are rounded down.
//
// NVFP4 (NVFP4BlockScaling; arXiv:2509.25149) has codes of e2m1, two to a byte, e4m3 scales, and amax, the largest |x| of the
// operand. x is about code * scale * amax / (6 * 448). See nv_scale().
struct QuantiseBlocks {
  static constexpr std::string_view name = "quantise_blocks";
  static constexpr TimePart part = TimePart::elementwise;
  static constexpr std::int64_t kBlock = 128;
  static constexpr std::int64_t kMxBlock = 32;
  static constexpr std::int64_t kNvBlock = 16;
  static constexpr std::int64_t kTile = 512;  // scales of 128 x 4 blocks
  static constexpr std::int64_t blocks(std::int64_t n) { return (n + kBlock - 1) / kBlock; }
  static Shape scales_of(std::int64_t outer, std::int64_t inner, Fp8Blocks by) {
    switch (by) {
      case Fp8Blocks::tensor:
        return {1};
      case Fp8Blocks::whole_rows:
        return {outer};
      case Fp8Blocks::rows:
        return {blocks(inner), outer};
      case Fp8Blocks::squares:
        return {blocks(outer), (blocks(inner) + 3) / 4 * 4};
      case Fp8Blocks::mx:
        return {blocks(outer), blocks(inner) * kTile};
      case Fp8Blocks::nv:
      case Fp8Blocks::nv_squares:
        return {blocks(outer), blocks(2 * inner) * kTile};
    }
    return {};
  }
  static constexpr DType scale_type(Fp8Blocks by) {
    return by == Fp8Blocks::mx ? DType::u8 : of_nvfp4(by) ? DType::e4m3 : DType::f32;
  }
  // Codes of an operand [outer, inner].
  static Shape codes_of(std::int64_t outer, std::int64_t inner, Fp8Blocks by) {
    return {outer, of_nvfp4(by) ? inner / 2 : inner};
  }
  static constexpr DType code_type(Fp8Blocks by) { return of_nvfp4(by) ? DType::u8 : DType::e4m3; }
  // Where the scale of `block` of row `outer` stands (cuBLAS documentation, 1D block scaling factors layout). Tiles follow each
  // other row by row. In a tile 32 rows have 16 bytes each: their own 4 scales, and those of the rows 32, 64 and 96 below.
  static constexpr std::int64_t mx_place(std::int64_t outer, std::int64_t block, std::int64_t inner) {
    return place(outer, block, blocks(inner));
  }
  static constexpr std::int64_t nv_place(std::int64_t outer, std::int64_t block, std::int64_t inner) {
    return place(outer, block, blocks(2 * inner));
  }
  static constexpr std::int64_t place(std::int64_t outer, std::int64_t block, std::int64_t tiles_across) {
    return (outer / kBlock * tiles_across + block / 4) * kTile + outer % 32 * 16 + outer % kBlock / 32 * 4 + block % 4;
  }
  Tensor x;                               // [rows, cols]
  Tensor y, inverse;                      // [rows, cols] e4m3 (NVFP4: [rows, cols / 2] u8), or both empty
  Tensor transposed, transposed_inverse;  // [cols, rows] likewise
  Fp8Blocks by = Fp8Blocks::rows;
  // Of NVFP4. With `hadamard` the transposed operand is of H x: blocks of 16 rows of x go through Hadamard16, so that outliers
  // spread. With `rounding` codes round at random.
  Tensor amax{}, transposed_amax{};  // [1] f32 for each operand that there is; with `hadamard` of H x
  bool hadamard = false;
  std::optional<RandomRounding> rounding{};
  void check() const {
    mbench::check(by != Fp8Blocks::tensor, name, "blocks, got a whole tensor, need rows, squares or mx");
    need_float(name, "x", x);
    const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
    mbench::check(y || transposed, name, "y and transposed, got neither, need one");
    if (y) {
      need_operand("y", y, amax, rows, cols);
      need_scales(name, "inverse", inverse, rows, cols, by);
    }
    if (transposed) {
      need_operand("transposed", transposed, transposed_amax, cols, rows);
      need_scales(name, "transposed_inverse", transposed_inverse, cols, rows, by);
    }
  }
  void need_operand(std::string_view argument, const Tensor& codes, const Tensor& most, std::int64_t outer,
                    std::int64_t inner) const {
    need_shape(name, argument, codes, codes_of(outer, inner, by));
    need_dtype(name, argument, codes, code_type(by));
    if (!of_nvfp4(by)) return;
    need_f32(name, "amax", most, {1});
    mbench::check(outer % kNvBlock == 0 && inner % kNvBlock == 0, name, "operand, got {} x {}, need multiples of {}",
                  outer, inner, kNvBlock);
  }
  // Throws unless `scales` has one for each block of an operand [outer, inner].
  static void need_scales(std::string_view op, std::string_view argument, const Tensor& scales, std::int64_t outer,
                          std::int64_t inner, Fp8Blocks by) {
    need_shape(op, argument, scales, scales_of(outer, inner, by));
    need_dtype(op, argument, scales, scale_type(by));
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
