#include "engine/ops/cross_entropy.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::RowMax& op) {
  const std::int64_t cols = op.x.shape().cols(), valid = std::min(op.valid, cols);
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(op.x.shape().rows(), cols, [&](std::int64_t row) {
      float buffer[kTile];
      float top = -kInf;
      for (std::int64_t col = 0; col < valid; col += kTile) {
        const std::int64_t n = std::min(kTile, valid - col);
        const float* x = load(op.x.as<T>() + row * cols + col, buffer, n);
        top = std::max(top, max_of(n, [x](std::int64_t i) { return x[i]; }));
      }
      op.max.as<float>()[row] = top;
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::ExpSum& op) {
  const std::int64_t cols = op.logits.shape().cols(), valid = std::min(op.valid, cols);
  with_type(op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(op.logits.shape().rows(), cols, [&](std::int64_t row) {
      float buffer[kTile];
      const T* logits = op.logits.as<T>() + row * cols;
      const float top = op.max.as<float>()[row];
      // Before the exponentials, which may overwrite the logits.
      const std::int64_t target = op.targets.as<std::int64_t>()[row] - op.first_column;
      op.target.as<float>()[row] = target >= 0 && target < valid ? to_float(logits[target]) - top : 0.0f;
      double sum = 0;  // of f32 sums of a tile each
      for (std::int64_t col = 0; col < valid; col += kTile) {
        const std::int64_t n = std::min(kTile, valid - col);
        const float* x = load(logits + col, buffer, n);
        if (op.exp) {
          float* e = op.exp.as<float>() + row * cols + col;
          sum += sum_of(n, [x, e, top](std::int64_t i) { return e[i] = exp_f32(x[i] - top); });
        } else {
          sum += sum_of(n, [x, top](std::int64_t i) { return exp_f32(x[i] - top); });
        }
      }
      if (op.exp) std::fill(op.exp.as<float>() + row * cols + valid, op.exp.as<float>() + (row + 1) * cols, 0.0f);
      op.sum.as<float>()[row] = static_cast<float>(sum);
    });
  });
}

// With the bits of the two.
template <>
void compute(CpuOps& cpu, const ops::MaxExpSum& op) {
  compute(cpu, ops::RowMax{op.logits, op.max, op.valid});
  compute(cpu, ops::ExpSum{op.logits, op.max, op.targets, 0, op.valid, op.sum, op.target, Tensor()});
}

template <>
void compute(CpuOps& cpu, const ops::CrossEntropyLoss& op) {
  double loss = 0;
  for (std::int64_t i = 0; i < op.sum.numel(); ++i) {
    const double row = std::log(static_cast<double>(op.sum.as<float>()[i])) - op.target.as<float>()[i];
    loss += op.weight ? op.weight.as<float>()[i] * row : row;
  }
  *op.loss.as<float>() = static_cast<float>(loss * (op.factor ? *op.factor.as<float>() : op.inv_weight_sum));
}

template <>
void compute(CpuOps& cpu, const ops::CrossEntropyGrad& op) {
  const Tensor& source = op.source();
  const bool is_exp = static_cast<bool>(op.exp);
  const float scale = op.factor ? *op.factor.as<float>() : op.scale;
  const std::int64_t cols = source.shape().cols(), valid = std::min(op.valid, cols);
  with_type(source.dtype(), [&](auto source_type) {
    with_type(op.dlogits.dtype(), [&](auto out_type) {
      using T = decltype(source_type);
      using TD = decltype(out_type);
      parallel_rows(source.shape().rows(), cols, [&](std::int64_t row) {
        float buffer[kTile], out[kTile];
        const T* from = source.as<T>() + row * cols;
        TD* to = op.dlogits.as<TD>() + row * cols;
        const float weight = scale * (op.weight ? op.weight.as<float>()[row] : 1.0f);
        const float factor = weight / op.sum.as<float>()[row];
        const float top = is_exp ? 0.0f : op.max.as<float>()[row];
        const std::int64_t target_col = op.targets.as<std::int64_t>()[row] - op.first_column;
        for (std::int64_t col = 0; col < valid; col += kTile) {
          const std::int64_t n = std::min(kTile, valid - col);
          const float* x = load(from + col, buffer, n);
          float* y = target(to + col, out);
          if (is_exp) {
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i) y[i] = factor * x[i];
          } else {
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i) y[i] = factor * exp_f32(x[i] - top);
          }
          if (target_col >= col && target_col < col + n) y[target_col - col] -= weight;
          store(y, to + col, n);
        }
        std::fill(to + valid, to + cols, TD{});
      });
    });
  });
}

}  // namespace mbench::cpu
