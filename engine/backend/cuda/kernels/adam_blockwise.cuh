// One AdamW step with moments in 8 bits: a thread block for each block of 256 elements, a thread for each element.
#pragma once
#include <cmath>
#include <type_traits>

#include "engine/backend/cuda/kernels/borders.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/adam_blockwise.h"

namespace mbench::cuda {

template <class TP, class TG, class TM>
struct AdamBlockwiseArguments {
  TP* param;
  const TG* grad;
  std::uint8_t *m, *v;
  float *m_scale, *v_scale;
  TM* model;  // null: none
  float lr, beta1, beta2, eps, weight_decay, grad_scale, m_correction, v_correction;
  std::int64_t n, blocks;
};

template <class TP, class TG, class TM>
__global__ void __launch_bounds__(256) adam_blockwise(AdamBlockwiseArguments<TP, TG, TM> a, Borders undecayed) {
  __shared__ SharedArray<float, 256> of_m, of_v;
  __shared__ SharedArray<float, kWarp> parts;
  const int thread = static_cast<int>(threadIdx.x);
  of_m[thread] = ops::dynamic_value(true, thread);
  of_v[thread] = ops::dynamic_value(false, thread);
  __syncthreads();
  for (std::int64_t block = blockIdx.x; block < a.blocks; block += gridDim.x) {
    const std::int64_t i = block * 256 + thread;
    const bool inside = i < a.n;
    float m = 0, v = 0;
    if (inside) {
      const float g = a.grad_scale * to_f32(a.grad[i]);
      m = a.beta1 * (of_m[a.m[i]] * a.m_scale[block]) + (1 - a.beta1) * g;
      v = a.beta2 * (of_v[a.v[i]] * a.v_scale[block]) + (1 - a.beta2) * g * g;
      const float decay = undecayed.inside(i) ? 0.0f : a.weight_decay;
      float p = to_f32(a.param[i]);
      p -= a.lr * (m * a.m_correction / (sqrtf(v * a.v_correction) + a.eps) + decay * p);
      a.param[i] = from_f32<TP>(p);
      if (a.model != nullptr) a.model[i] = from_f32<TM>(p);
    }
    // Its barriers also separate reading the scales from writing them.
    const float m_scale = row_reduce(fabsf(m), 0.0f, parts, Max());
    const float v_scale = row_reduce(v, 0.0f, parts, Max());
    if (inside) {
      a.m[i] = static_cast<std::uint8_t>(ops::nearest_code(&of_m[0], m * (m_scale > 0 ? 1 / m_scale : 0.0f)));
      a.v[i] = static_cast<std::uint8_t>(ops::nearest_code(&of_v[0], v * (v_scale > 0 ? 1 / v_scale : 0.0f)));
    }
    if (thread == 0) a.m_scale[block] = m_scale, a.v_scale[block] = v_scale;
  }
}

template <class Stream>
void enqueue(Stream& stream, const ops::AdamBlockwise& op) {
  if (op.param.numel() == 0) return;
  const double t = static_cast<double>(op.step);
  with_float(op.name, op.grad.dtype(), [&](auto grad_type) {
    with_float(op.name, op.model ? op.model.dtype() : DType::f32, [&](auto model_type) {
      using TG = decltype(grad_type);
      using TM = decltype(model_type);
      const auto launch = [&](auto param_type) {
        using TP = decltype(param_type);
        AdamBlockwiseArguments<TP, TG, TM> a{};
        a.lr = op.lr, a.beta1 = op.beta1, a.beta2 = op.beta2, a.eps = op.eps;
        a.weight_decay = op.weight_decay, a.grad_scale = op.grad_scale;
        a.m_correction = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta1), t)));
        a.v_correction = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta2), t)));
        // Pieces begin where ranges do, and so at the start of a block.
        for_pieces(op.undecayed, op.param.numel(), [&](std::int64_t at, std::int64_t n, const Borders& borders) {
          const std::int64_t block = at / 256;
          a.param = pointer<TP>(op.param) + at, a.grad = pointer<TG>(op.grad) + at;
          a.m = pointer<std::uint8_t>(op.m) + at, a.v = pointer<std::uint8_t>(op.v) + at;
          a.m_scale = pointer<float>(op.m_scale) + block, a.v_scale = pointer<float>(op.v_scale) + block;
          a.model = op.model ? pointer<TM>(op.model) + at : nullptr;
          a.n = n, a.blocks = (n + 255) / 256;
          Launch shape;
          shape.grid_x = static_cast<unsigned>(std::min(a.blocks, kEnoughBlocks));
          shape.block_x = 256;
          stream.launch(op.name, shape, adam_blockwise<TP, TG, TM>, a, borders);
        });
      };
      // Weights updated in bf16 have no copy, so one type of copy is enough.
      if constexpr (std::is_same_v<TM, float>)
        if (op.param.dtype() == DType::bf16) return launch(bf16{});
      launch(float{});
    });
  });
}

}  // namespace mbench::cuda
