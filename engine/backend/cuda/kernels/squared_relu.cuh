// y = max(0, x + bias)^2 and its gradient; the bias may be missing.
#pragma once
#include "engine/backend/cuda/kernels/bias_activation.h"
#include "engine/ops/squared_relu.h"

namespace mbench::cuda {

template <class T>
struct SquaredReluFunction {
  static __device__ float value(float z) {
    const float positive = z > 0.0f ? z : 0.0f;
    return positive * positive;
  }
  static __device__ float slope(float z) { return 2.0f * (z > 0.0f ? z : 0.0f); }
};

template <class Stream>
void enqueue(Stream& stream, const ops::SquaredRelu& op) {
  launch_activation<SquaredReluFunction>(stream, op);
}

template <class Stream>
void enqueue(Stream& stream, const ops::SquaredReluGrad& op) {
  launch_activation_grad<SquaredReluFunction>(stream, op);
}

}  // namespace mbench::cuda
