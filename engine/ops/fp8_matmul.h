// C = A B^T + beta * C of FP8 operands, f32 accumulation: each operand's codes times the inverse of its scales
// (quantise.h). Both have their inner dim contiguous; on GPUs all three start at multiples of 16 bytes. At most one
// operand is e5m2, as on NVIDIA's tensor cores. The CPU converts the codes exactly to the values that they stand for,
// and multiplies in f32.
#pragma once
#include "engine/ops/quantise.h"

namespace mbench::ops {

enum class Fp8Blocks { tensor, rows, squares };  // one scale; one for each 1 x 128; one for each 128 x 128

struct Fp8Operand {
  Tensor codes;    // [outer, inner]
  Tensor inverse;  // [1], or as QuantiseBlocks has them
  Fp8Blocks blocks = Fp8Blocks::tensor;
};

struct Fp8Matmul {
  static constexpr std::string_view name = "fp8_matmul";
  static constexpr TimePart part = TimePart::gemms;
  // What cuBLASLt asks of every dim of an FP8 operand: rows of 16 bytes.
  static constexpr std::int64_t kMultiple = 16;
  Fp8Operand a;  // [m, k]
  Fp8Operand b;  // [n, k]
  Tensor c;      // [m, n] f32, bf16 or f16
  float beta = 0;

  std::int64_t m() const { return a.codes.shape()[0]; }
  std::int64_t n() const { return b.codes.shape()[0]; }
  std::int64_t k() const { return a.codes.shape()[1]; }
  void check() const {
    for (const Fp8Operand* x : {&a, &b}) {
      need_fp8(name, "operand", x->codes);
      const Shape& s = x->codes.shape();
      mbench::check(s.rank() == 2 && s[0] % kMultiple == 0 && s[1] % kMultiple == 0, name,
                    "operand, got {}, need a matrix of multiples of {}", s, kMultiple);
      need_f32(name, "inverse", x->inverse,
               x->blocks == Fp8Blocks::tensor ? Shape{1}
                                              : QuantiseBlocks::scales_of(s[0], s[1], x->blocks == Fp8Blocks::squares));
    }
    mbench::check(b.codes.shape()[1] == k(), name, "inner dims, got {} and {}", k(), b.codes.shape()[1]);
    mbench::check(a.codes.dtype() == DType::e4m3 || b.codes.dtype() == DType::e4m3, name,
                  "types, got e5m2 twice, need e4m3 for one");
    mbench::check((a.blocks == Fp8Blocks::tensor) == (b.blocks == Fp8Blocks::tensor), name,
                  "scales, got one of a tensor with those of blocks, need one kind");
    need_float(name, "c", c);
    need_shape(name, "c", c, {m(), n()});
  }
  Cost cost() const {
    Cost cost{2.0 * static_cast<double>(m()) * static_cast<double>(n()) * static_cast<double>(k()),
              bytes_of(a.codes) + bytes_of(b.codes) + bytes_of(a.inverse) + bytes_of(b.inverse) +
                  bytes_of(c) * (beta != 0 ? 2 : 1)};
    cost.matmul = true;
    return cost;
  }
};

}  // namespace mbench::ops
