// A matrix in FP8, and what a step keeps of its weights in it.
#pragma once
#include <map>
#include <utility>

#include "engine/ops/fp8_matmul.h"

namespace mbench::nn {

// [rows, cols] as GEMMs read it: along cols, and transposed, [cols, rows], along rows. Either may be missing. Where a device multiplies
// turned operands, both have the same codes.
struct Fp8Tensor {
  ops::Fp8Operand straight, transposed;
  // [5] f32: largest value, scale, and its inverse at 4, 16 bytes on, where only this tensor has the scale. NVFP4: [2], the largest values
  // of the two.
  Tensor figures{};
};

struct Fp8Weights {
  struct Kept {
    Fp8Tensor tensor;
    std::int64_t step = -1;  // the step that it is of
  };
  std::map<std::pair<const void*, std::int64_t>, Kept> kept;  // by Fp8Gemms and part of the weight
};

}  // namespace mbench::nn
