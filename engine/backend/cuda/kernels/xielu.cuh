// xIELU of x + bias and its gradient; the bias may be missing. The gradients of its two numbers are summed in two stages: each block leaves
// its sums, which are then added in a fixed order.
#pragma once
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/xielu.h"

namespace mbench::cuda {

inline constexpr std::int64_t kXIeluBlocks = 1024;  // of the gradient, at most

__device__ inline float softplus(float a) {
  return a > ops::kSoftplusLinear ? a : log1pf(expf(a));
}
__device__ inline float softplus_slope(float a) {
  return a > ops::kSoftplusLinear ? 1.0f : 1.0f / (1.0f + expf(-a));
}

// What multiplies squares above zero, and below_zero() below it.
struct XIeluFactors {
  float p, n;
  template <class T>
  static __device__ XIeluFactors of(const T* alpha_p, const T* alpha_n) {
    return {softplus(to_f32(*alpha_p)), ops::kXIeluBeta + softplus(to_f32(*alpha_n))};
  }
  static __device__ float below_zero(float z) { return expm1f(z < ops::kXIeluEps ? z : ops::kXIeluEps) - z; }
  __device__ float value(float z) const { return (z > 0.0f ? p * z * z : n * below_zero(z)) + ops::kXIeluBeta * z; }
  __device__ float slope(float z) const {
    return (z > 0.0f ? 2.0f * p * z : n * expm1f(z < ops::kXIeluEps ? z : ops::kXIeluEps)) + ops::kXIeluBeta;
  }
};

template <int V>
struct XIeluColumn {
  Floats<V> bias;
  XIeluFactors factors;
};

template <class T>
struct XIeluEach {
  static constexpr int kWidth = width_of<T>();
  const T *x, *bias, *alpha_p, *alpha_n;
  T* y;
  std::int64_t cols;
  bool aligned() const { return cuda::aligned<kWidth>(x, bias, y); }
  template <int V>
  __device__ XIeluColumn<V> column(std::int64_t col) const {
    return {bias != nullptr ? load<V>(bias + col) : filled<V>(0), XIeluFactors::of(alpha_p, alpha_n)};
  }
  template <int V>
  __device__ void apply(const XIeluColumn<V>& kept, std::int64_t row, std::int64_t col) const {
    Floats<V> z = load<V>(x + row * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = kept.factors.value(z.v[k] + kept.bias.v[k]);
    store(y + row * cols + col, z);
  }
};

template <class T>
struct XIeluGradArguments {
  const T *dy, *x, *bias, *alpha_p, *alpha_n;
  T* dx;
  float* partial;  // [blocks, (alpha_p, alpha_n)]
  std::int64_t n, cols;
};

// `n` is of whole vectors, and so is a row.
template <class T, int V>
__global__ void __launch_bounds__(kFlatThreads) xielu_grad(XIeluGradArguments<T> a) {
  __shared__ SharedArray<Pair, kWarp> parts;
  const XIeluFactors f = XIeluFactors::of(a.alpha_p, a.alpha_n);
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  Pair sums{0, 0};
  for (std::int64_t i = thread * V; i < a.n; i += threads * V) {
    Floats<V> d = load<V>(a.dy + i);
    const Floats<V> x = load<V>(a.x + i), b = a.bias != nullptr ? load<V>(a.bias + i % a.cols) : filled<V>(0);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float z = x.v[k] + b.v[k];
      if (z > 0.0f)
        sums.a += d.v[k] * z * z;
      else
        sums.b += d.v[k] * XIeluFactors::below_zero(z);
      d.v[k] *= f.slope(z);
    }
    store(a.dx + i, d);
  }
  sums = row_reduce(sums, Pair{0, 0}, parts, Sum());
  if (threadIdx.x > 0) return;
  a.partial[2 * blockIdx.x] = sums.a * softplus_slope(to_f32(*a.alpha_p));
  a.partial[2 * blockIdx.x + 1] = sums.b * softplus_slope(to_f32(*a.alpha_n));
}

template <class Stream>
void enqueue(Stream& stream, const ops::XIelu& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   XIeluEach<T>{pointer<T>(op.x), pointer<T>(op.bias), pointer<T>(op.alpha_p), pointer<T>(op.alpha_n),
                                pointer<T>(op.y), cols});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::XIeluGrad& op) {
  const std::int64_t n = op.x.numel(), cols = op.x.shape().cols();
  if (n == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    XIeluGradArguments<T> a{pointer<T>(op.dy),
                            pointer<T>(op.x),
                            pointer<T>(op.bias),
                            pointer<T>(op.alpha_p),
                            pointer<T>(op.alpha_n),
                            pointer<T>(op.dx),
                            nullptr,
                            n,
                            cols};
    const bool wide = cols % V == 0 && aligned<V>(a.dy, a.x, a.bias, a.dx);
    Launch shape = flat_shape(n, wide ? V : 1);
    shape.grid_x = static_cast<unsigned>(std::min<std::int64_t>(shape.grid_x, kXIeluBlocks));
    a.partial = static_cast<float*>(stream.scratch(2 * shape.grid_x * sizeof(float)));
    if (wide)
      stream.launch(op.name, shape, xielu_grad<T, V>, a);
    else
      stream.launch(op.name, shape, xielu_grad<T, 1>, a);
    if (!op.dalpha_p) return;
    with_float(op.name, op.dalpha_p.dtype(), [&](auto of_p) {
      with_float(op.name, op.dalpha_n.dtype(), [&](auto of_n) {
        using P = decltype(of_p);
        using N = decltype(of_n);
        stream.launch(op.name, add_chunks_shape(1, true), add_chunks<P, N>, static_cast<const float*>(a.partial),
                      static_cast<std::int64_t>(shape.grid_x), std::int64_t{2}, std::int64_t{1},
                      pointer<P>(op.dalpha_p), pointer<N>(op.dalpha_n));
      });
    });
  });
}

}  // namespace mbench::cuda
