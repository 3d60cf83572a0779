// One AdamW step whose moments are kept in 8 bits, quantised by blocks of 256 elements (Dettmers et al. 2021, 8-bit
// Optimizers via Block-wise Quantization, arXiv:2110.02861; bitsandbytes' AdamW8bit). A moment is map[code] * scale of
// its block; the scale is the block's largest absolute value. A step dequantises, does what Adam (adam.h) does, and
// stores the nearest code, the lower of two equally near. The weights are updated from the moments before that
// rounding.
//
// The maps are "dynamic tree quantisation" (the paper's section 1.3 and Figure 2; create_dynamic_map of bitsandbytes).
// The position of an indicator bit gives a power of ten, the bits after it a linear fraction. Each exponent i of 0 to 6
// has 2^i values of either sign, or, in an unsigned map, 2^(i+1) of one sign. These are the middles of as many equal
// parts of [0.1, 1], times 10^(i-6). The maps also hold 0 and 1. In ascending order the values are codes 0 to 255.
#pragma once
#include "engine/ops/arguments.h"
#include "engine/ops/ranges.h"

namespace mbench::ops {

// The value of a code.
constexpr float dynamic_value(bool with_sign, int code) {
  const int zero = with_sign ? 127 : 0;
  if (code == zero) return 0;
  if (code == 255) return 1;
  // k: which value above zero, or below it. The values of exponent i come after first * (2^i - 1) others.
  const int first = with_sign ? 1 : 2, k = code > zero ? code - zero - 1 : zero - code - 1;
  int exponent = 0;
  double power = 1e-6;
  while (k >= first * ((2 << exponent) - 1)) ++exponent, power *= 10;
  const int count = first << exponent, at = k - first * ((1 << exponent) - 1);
  const double value = power * (0.1 + 0.9 * (at + 0.5) / count);
  return static_cast<float>(code > zero ? value : -value);
}

// The code of the value nearest to x, among ascending ones.
constexpr int nearest_code(const float* values, float x) {
  int low = 0, high = 255;  // the first code whose upper border is not below x
  while (low < high) {
    const int middle = (low + high) / 2;
    if (x > (values[middle] + values[middle + 1]) * 0.5f)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct DynamicMap {
  float values[256];
};
constexpr DynamicMap dynamic_map(bool with_sign) {
  DynamicMap map{};
  for (int code = 0; code < 256; ++code) map.values[code] = dynamic_value(with_sign, code);
  return map;
}
inline constexpr DynamicMap kSignedMap = dynamic_map(true), kUnsignedMap = dynamic_map(false);

struct AdamBlockwise {
  static constexpr std::string_view name = "adam_blockwise";
  static constexpr TimePart part = TimePart::optimizer;
  static constexpr std::int64_t kBlock = 256;
  Tensor param;  // f32: the main weights; bf16: the model's own, without main weights, updated and rounded to nearest
  Tensor grad;   // f32, bf16 or f16
  Tensor m, v;   // u8, codes of the signed and of the unsigned map
  Tensor m_scale, v_scale;  // [ceil(n / 256)] f32; a block whose scale is zero is zero, whatever its codes
  Tensor model;             // optional 16-bit weights that the model computes with: rewritten from param
  float lr = 0, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0;
  float grad_scale = 1;          // undoes loss scaling and clips
  std::int64_t step = 1;         // t, from 1
  ElementRanges undecayed = {};  // spared by weight_decay: biases and norms; each begins where a block does
  std::int64_t blocks() const { return (param.numel() + kBlock - 1) / kBlock; }
  void check() const {
    mbench::check(param.dtype() == DType::f32 || param.dtype() == DType::bf16, name,
                  "dtype of param, got {}, need f32 or bf16", name_of(param.dtype()));
    mbench::check(param.dtype() == DType::f32 || !model, name, "model with a param in {}, need none or param in f32",
                  name_of(param.dtype()));
    need_float(name, "grad", grad);
    need_shape(name, "grad", grad, param.shape());
    for (const Tensor* codes : {&m, &v}) {
      need_shape(name, "m and v", *codes, param.shape());
      need_dtype(name, "m and v", *codes, DType::u8);
    }
    for (const Tensor* scale : {&m_scale, &v_scale}) {
      need_shape(name, "scales", *scale, {blocks()});
      need_dtype(name, "scales", *scale, DType::f32);
    }
    if (model) need_shape(name, "model", model, param.shape());
    need_ranges(name, "undecayed", undecayed, param.numel());
    for (const ElementRange& r : undecayed)
      mbench::check(r.begin % kBlock == 0, name, "undecayed, got a range from {}, need whole blocks of {}", r.begin,
                    kBlock);
  }
  // Adds the search for the nearest code, 8 steps for each moment.
  Cost cost() const {
    return {(16.0 + 2 * 8 * 3) * static_cast<double>(param.numel()),
            2 * bytes_of(param) + 4 * bytes_of(m) + 4 * bytes_of(m_scale) + bytes_of(grad) + bytes_of(model)};
  }
};

}  // namespace mbench::ops
