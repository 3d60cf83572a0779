// One side of a linear layer's GEMM, and how it gets to where the GEMM is.
#pragma once
#include <functional>

#include "engine/device/tensor.h"
#include "engine/ops/fp8_matmul.h"

namespace mbench::nn {

struct Operand {
  Tensor plain{};         // in the model's type: activations [seq, batch, width], weights [out, in]
  ops::Fp8Operand fp8{};  // in its place, a matrix in FP8: [seq * batch, width], or [out, in]
};

// Gets all of an activation, or the rows [first, first + count) of its sequence.
using EachOperand = std::function<void(const Operand& part, std::int64_t first, std::int64_t count)>;

// An activation that a GEMM is waiting for. It is the layer's input in forward, and the gradient of its output in backward.
class Arriving {
 public:
  virtual ~Arriving() = default;
  // Of all of it: [seq, batch, width].
  virtual Shape shape() const = 0;
  // Calls `multiply` with all of it, or with its parts as they arrive.
  virtual void each(const EachOperand& multiply) = 0;
  // After each(): what the GEMM of the weight's gradient reads of it.
  virtual Operand for_weight_gradient() const = 0;
  // All of it in the model's type, for what is not the GEMM. Empty where it arrived in parts, or in FP8.
  virtual Tensor plain() const = 0;
};

// The input of a forward, which backward needs once more, in flight.
class ArrivingAgain {
 public:
  virtual ~ArrivingAgain() = default;
  virtual Operand finish() = 0;
};

}  // namespace mbench::nn
