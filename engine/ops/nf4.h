// Weights in four bits: NF4, the 4-bit NormalFloat of QLoRA (Dettmers et al. 2023, arXiv:2305.14314), as bitsandbytes stores it.
//
//   QuantiseNf4       Blocks of 64 elements: a code of 4 bits each, and the block's largest |x|, its scale.
//   DequantiseNf4     x is about value of the code * scale of its block.
//   QuantiseScales    Double quantisation: those scales less their mean in 8 bits, by blocks of 256 (the signed map of AdamBlockwise).
//   DequantiseScales  The scales again.
//
// The values are quantiles of the normal distribution, from -1 to 1, with an exact 0 (the paper's appendix E; bitsandbytes'
// create_normal_map). The first of two elements has the upper half of a byte.
#pragma once
#include "engine/ops/adam_blockwise.h"
#include "engine/ops/arguments.h"

namespace mbench::ops {

constexpr float nf4_value(int code) {
  const float values[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};
  return values[code];
}
struct Nf4Map {
  float values[16];
};
constexpr Nf4Map nf4_map() {
  Nf4Map map{};
  for (int code = 0; code < 16; ++code) map.values[code] = nf4_value(code);
  return map;
}
inline constexpr Nf4Map kNf4 = nf4_map();

// The code of the value nearest to x, among those 16; of two equally near the lower one.
constexpr int nf4_code(const float* values, float x) {
  int code = 0;
  for (int step = 8; step > 0; step /= 2)
    if (x > (values[code + step - 1] + values[code + step]) * 0.5f) code += step;
  return code;
}
// What elements of a block are multiplied with before they get their codes.
constexpr float nf4_multiplier(float scale) {
  return scale > 0 ? 1 / scale : 0;
}

inline constexpr std::int64_t kNf4Block = 64;
inline constexpr std::int64_t kScalesBlock = 256;
constexpr std::int64_t nf4_blocks(std::int64_t elements) {
  return (elements + kNf4Block - 1) / kNf4Block;
}
constexpr std::int64_t nf4_bytes(std::int64_t elements) {
  return (elements + 1) / 2;
}
constexpr std::int64_t scales_blocks(std::int64_t scales) {
  return (scales + kScalesBlock - 1) / kScalesBlock;
}

// Codes and scales of `elements`.
inline void need_nf4(std::string_view op, std::int64_t elements, const Tensor& codes, const Tensor& scales) {
  need_shape(op, "codes", codes, {nf4_bytes(elements)});
  need_dtype(op, "codes", codes, DType::u8);
  need_shape(op, "scales", scales, {nf4_blocks(elements)});
  need_dtype(op, "scales", scales, DType::f32);
}

struct QuantiseNf4 {
  static constexpr std::string_view name = "quantise_nf4";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor x;       // n elements
  Tensor codes;   // [ceil(n / 2)] u8
  Tensor scales;  // [ceil(n / 64)] f32
  void check() const {
    need_float(name, "x", x);
    need_nf4(name, x.numel(), codes, scales);
  }
  Cost cost() const { return {8.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(codes) + bytes_of(scales)}; }
};

struct DequantiseNf4 {
  static constexpr std::string_view name = "dequantise_nf4";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor codes, scales;  // as above
  Tensor y;              // n elements
  void check() const {
    need_float(name, "y", y);
    need_nf4(name, y.numel(), codes, scales);
  }
  Cost cost() const { return {static_cast<double>(y.numel()), bytes_of(y) + bytes_of(codes) + bytes_of(scales)}; }
};

// Scales in 8 bits.
inline void need_codes_of_scales(std::string_view op, const Tensor& scales, const Tensor& codes, const Tensor& most,
                                 const Tensor& mean) {
  const std::int64_t n = scales.numel();
  need_shape(op, "scales", scales, {n});
  need_shape(op, "codes", codes, {n});
  need_dtype(op, "codes", codes, DType::u8);
  need_shape(op, "most", most, {scales_blocks(n)});
  need_shape(op, "mean", mean, {1});
  for (const Tensor* t : {&scales, &most, &mean}) need_dtype(op, "scales, most and mean", *t, DType::f32);
}

struct QuantiseScales {
  static constexpr std::string_view name = "quantise_scales";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor scales;  // [n] f32
  Tensor codes;   // [n] u8
  Tensor most;    // [ceil(n / 256)] f32: a block's largest |scale - mean|
  Tensor mean;    // [1] f32
  void check() const { need_codes_of_scales(name, scales, codes, most, mean); }
  Cost cost() const {
    return {12.0 * static_cast<double>(scales.numel()), 2 * bytes_of(scales) + bytes_of(codes) + bytes_of(most)};
  }
};

struct DequantiseScales {
  static constexpr std::string_view name = "dequantise_scales";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor codes, most, mean;  // as above
  Tensor scales;             // [n] f32
  // Where these are a part of a matrix's scales: `row` of each of its rows, which have `stride`, from the matrix's scale `first` on. `most`
  // is then the whole matrix's. 0: they are all.
  std::int64_t row = 0, stride = 0, first = 0;
  // The block of 256 that a scale is of.
  constexpr std::int64_t block_of(std::int64_t i) const { return block_of(i, row, stride, first); }
  static constexpr std::int64_t block_of(std::int64_t i, std::int64_t row, std::int64_t stride, std::int64_t first) {
    return (row == 0 ? i : first + i / row * stride + i % row) / kScalesBlock;
  }
  void check() const {
    if (row == 0) return need_codes_of_scales(name, scales, codes, most, mean);
    const std::int64_t n = scales.numel();
    mbench::check(n % row == 0 && row <= stride && block_of(n - 1) < most.numel(), name,
                  "scales of a part of a matrix, got {} in rows of {} of {} from {} on, and {} blocks", n, row, stride,
                  first, most.numel());
    need_shape(name, "codes", codes, {n});
    need_dtype(name, "codes", codes, DType::u8);
    need_shape(name, "mean", mean, {1});
    for (const Tensor* t : {&scales, &most, &mean}) need_dtype(name, "scales, most and mean", *t, DType::f32);
  }
  Cost cost() const {
    return {2.0 * static_cast<double>(scales.numel()), bytes_of(scales) + bytes_of(codes) + bytes_of(most)};
  }
};

}  // namespace mbench::ops
