// y = f(x + bias) and its gradient for ReLU and SiLU; the bias may be missing.
#pragma once
#include "engine/backend/cuda/kernels/bias_activation.h"
#include "engine/ops/activation.h"

namespace mbench::cuda {

template <class T>
struct ReluFunction {
  static __device__ float value(float z) { return z > 0.0f ? z : 0.0f; }
  static __device__ float slope(float z) { return z > 0.0f ? 1.0f : 0.0f; }
};

template <class T>
struct SiluFunction {
  static __device__ float value(float z) { return divide_for<T>(z, 1.0f + exp_for<T>(-z)); }
  static __device__ float slope(float z) {
    const float s = divide_for<T>(1.0f, 1.0f + exp_for<T>(-z));
    return s * (1.0f + z * (1.0f - s));
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Activate& op) {
  if (op.kind == ops::ActivationKind::relu)
    launch_activation<ReluFunction>(stream, op);
  else
    launch_activation<SiluFunction>(stream, op);
}

template <class Stream>
void enqueue(Stream& stream, const ops::ActivateGrad& op) {
  if (op.kind == ops::ActivationKind::relu)
    launch_activation_grad<ReluFunction>(stream, op);
  else
    launch_activation_grad<SiluFunction>(stream, op);
}

}  // namespace mbench::cuda
