// C = A B^T + beta * C of FP8 operands, f32 accumulation: each operand's codes times the inverse of its scales
// (quantise.h). Both have their inner dim contiguous; on GPUs all three start at multiples of 16 bytes. At most one
// operand is e5m2, as on NVIDIA's tensor cores. The CPU converts the codes exactly to the values that they stand for,
// and multiplies in f32.
#pragma once
#include "engine/ops/quantise.h"

namespace mbench::ops {

struct Fp8Operand {
  Tensor codes;    // [outer, inner], or [inner, outer] if turned; of NVFP4 [outer, inner / 2]
  Tensor inverse;  // of scales: [1] f32, or as QuantiseBlocks has them
  Fp8Blocks blocks = Fp8Blocks::tensor;
  Tensor amax{};  // [1] f32, of NVFP4: see QuantiseBlocks
  // Whether codes lie along the outer dim. Only one scale for the tensor allows it, and only some devices multiply it
  // so (Device::multiplies_turned_fp8).
  bool turned = false;

  std::int64_t outer() const { return codes.shape()[turned ? 1 : 0]; }
  std::int64_t inner() const { return codes.shape()[turned ? 0 : 1] * (of_nvfp4(blocks) ? 2 : 1); }
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

  std::int64_t m() const { return a.outer(); }
  std::int64_t n() const { return b.outer(); }
  std::int64_t k() const { return a.inner(); }
  void check() const {
    for (const Fp8Operand* x : {&a, &b}) {
      const bool nv = of_nvfp4(x->blocks);
      nv ? need_dtype(name, "operand", x->codes, DType::u8) : need_fp8(name, "operand", x->codes);
      if (nv) need_f32(name, "amax", x->amax, {1});
      const Shape& s = x->codes.shape();
      mbench::check(s.rank() == 2 && s[0] % kMultiple == 0 && s[1] % kMultiple == 0, name,
                    "operand, got {}, need a matrix of multiples of {}", s, kMultiple);
      mbench::check(!x->turned || x->blocks == Fp8Blocks::tensor, name,
                    "operand, got a turned one with scales of blocks, need one scale");
      mbench::check(x->blocks != Fp8Blocks::mx || s[1] % QuantiseBlocks::kMxBlock == 0, name,
                    "inner dim, got {}, need a multiple of {}", s[1], QuantiseBlocks::kMxBlock);
      QuantiseBlocks::need_scales(name, "inverse", x->inverse, x->outer(), x->inner(), x->blocks);
    }
    mbench::check(b.inner() == k(), name, "inner dims, got {} and {}", k(), b.inner());
    mbench::check(of_nvfp4(a.blocks) == of_nvfp4(b.blocks), name, "operands, got one of NVFP4, need two or none");
    mbench::check(a.codes.dtype() != DType::e5m2 || b.codes.dtype() != DType::e5m2, name,
                  "types, got e5m2 twice, need e4m3 for one");
    for (const Fp8Blocks all : {Fp8Blocks::tensor, Fp8Blocks::whole_rows, Fp8Blocks::mx})
      mbench::check((a.blocks == all) == (b.blocks == all), name,
                    "scales, got two kinds, need one: of tensors, of whole rows, of blocks of 128, or of MX");
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
