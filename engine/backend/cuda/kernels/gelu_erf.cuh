// y = z Phi(z), z = x + bias, and its gradient; the bias may be missing.
#pragma once
#include "engine/backend/cuda/kernels/bias_activation.h"
#include "engine/ops/gelu_erf.h"

namespace mbench::cuda {

template <class T>
struct GeluErfFunction {
  static __device__ float phi(float z) { return 0.5f * erfcf(-0.70710678f * z); }
  static __device__ float value(float z) { return z * phi(z); }
  static __device__ float slope(float z) { return phi(z) + z * 0.39894228f * exp_for<T>(-0.5f * z * z); }
};

template <class Stream>
void enqueue(Stream& stream, const ops::GeluErf& op) {
  launch_activation<GeluErfFunction>(stream, op);
}

template <class Stream>
void enqueue(Stream& stream, const ops::GeluErfGrad& op) {
  launch_activation_grad<GeluErfFunction>(stream, op);
}

}  // namespace mbench::cuda
