// Products of bf16 operands on a CPU's own bf16 instructions (AMX or AVX512_BF16), computed by oneDNN with f32 sums. A CPU without
// them, or a build without oneDNN, widens operands to f32 and asks BLAS (matmul.cpp).
#pragma once
#include <memory>
#include <string>

#include "engine/backend/cpu/scratch.h"
#include "engine/ops/matmul.h"

namespace mbench::cpu {

// Which arithmetic a device takes for products of bf16 operands. Either is the whole answer: there is no mixture by chance.
enum class Bf16 {
  native,   // the CPU's bf16 instructions where it has them and oneDNN is built in, else widened
  widened,  // f32 on every CPU
};

class Bf16Products {
 public:
  virtual ~Bf16Products() = default;
  // Computes the product, with its bias if it has no other epilogue; working memory comes from `scratch`. False, and nothing is
  // done, for what is left to BLAS: operands that are not both bf16, a result in f16, no terms to sum, and a form for which
  // oneDNN has no code of its own.
  virtual bool multiply(const ops::Matmul& op, Scratch& scratch) = 0;
};

// Null where this CPU or this build has none.
std::unique_ptr<Bf16Products> open_bf16_products();

// "AMX" or "AVX512_BF16": what open_bf16_products() would use. Empty if it would be null.
std::string bf16_instructions();
// The library with its version, or that it is not built in.
std::string onednn_library();

}  // namespace mbench::cpu
