// The router of an MoE: a warp for each token, which repeatedly takes the best of its values. The values are in shared memory. Taken ones
// become NaN there; other NaNs have been made -infinity before.
#pragma once
#include <algorithm>

#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/route.h"

namespace mbench::cuda {

inline constexpr int kRouteWarps = 4;
inline constexpr float kLeastSum = 1e-20f;
// Blocks of the losses' first stage.
inline constexpr std::int64_t kLossBlocks = 1024;

__device__ inline float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

// Softmax statistics of a row of logits, the same in every lane.
struct RowScores {
  float top, sum;
  bool is_softmax;
  __device__ float softmax(float logit) const { return expf(logit - top) / sum; }
  __device__ float of(float logit) const { return is_softmax ? softmax(logit) : sigmoid(logit); }
};

template <class T>
__device__ inline RowScores scores_of(const T* logits, std::int64_t n, bool is_softmax) {
  RowScores scores{kLowest, 0, is_softmax};
  for (std::int64_t e = threadIdx.x; e < n; e += kWarp) scores.top = Max()(scores.top, to_f32(logits[e]));
  scores.top = warp_reduce(scores.top, Max());
  for (std::int64_t e = threadIdx.x; e < n; e += kWarp) scores.sum += expf(to_f32(logits[e]) - scores.top);
  scores.sum = warp_reduce(scores.sum, Sum());
  return scores;
}

// Takes the largest of values[begin ... begin + n) that are not taken yet, the first of equal ones, for the warp.
template <class Values>
__device__ inline int take_best(Values values, int begin, int n) {
  float best = 0;
  int at = -1;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kWarp) {
    const float value = values[begin + i];
    if (value == value && (at < 0 || value > best)) {
      best = value;
      at = i;
    }
  }
#pragma unroll
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, best, mask);
    const int other_at = __shfl_xor_sync(kAllLanes, at, mask);
    if (other_at >= 0 && (at < 0 || other > best || (other == best && other_at < at))) {
      best = other;
      at = other_at;
    }
  }
  if (at % kWarp == static_cast<int>(threadIdx.x)) values[begin + at] = kNotANumber;
  __syncwarp();
  return at;
}

template <class T>
struct RouteArguments {
  const T* logits;
  const float* correction;  // may be null
  std::int64_t* experts;
  float* weights;
  std::int64_t rows, batch;
  ops::BalancedChoice choice;
  int n, k, groups, chosen_groups;
  bool is_softmax, renormalise, best_two, balanced, by_score;
  float scale;
  ops::HiddenMap map;
};

// values: [n], then [groups], of this warp.
template <class T, class Values>
__device__ inline void fill_values(const RouteArguments<T>& a, const T* logits, const RowScores& scores, Values values,
                                   int begin) {
  const int lane = static_cast<int>(threadIdx.x), size = a.n / a.groups;
  for (int e = lane; e < a.n; e += kWarp) {
    float value = to_f32(logits[e]);
    if (a.by_score) value = scores.of(value) + (a.correction != nullptr ? a.correction[e] : 0.0f);
    values[begin + e] = value == value ? value : kLowest;
  }
  __syncwarp();
  if (a.chosen_groups == a.groups) return;
  const int of_group = begin + a.n;
  for (int g = lane; g < a.groups; g += kWarp) {
    float best = kLowest, second = kLowest;
    for (int i = 0; i < size; ++i) {
      const float value = values[begin + g * size + i];
      if (value > best) {
        second = best;
        best = value;
      } else if (value > second) {
        second = value;
      }
    }
    values[of_group + g] = a.best_two ? best + second : best;
  }
  __syncwarp();
  for (int i = 0; i < a.chosen_groups; ++i) take_best(values, of_group, a.groups);
  for (int e = lane; e < a.n; e += kWarp) {
    const float left = values[of_group + e / size];
    if (left == left) values[begin + e] = kNotANumber;
  }
  __syncwarp();
}

template <class T>
__global__ void __launch_bounds__(kRouteWarps* kWarp) route(RouteArguments<T> a) {
  const std::int64_t row = own_row();
  if (row >= a.rows) return;
  const int lane = static_cast<int>(threadIdx.x), begin = static_cast<int>(threadIdx.y) * (a.n + a.groups);
  const T* logits = a.logits + row * a.n;
  float* weights = a.weights + row * a.k;
  const RowScores scores = scores_of(logits, a.n, a.is_softmax);
  auto values = dynamic_shared<float>();
  if (!a.balanced) fill_values(a, logits, scores, values, begin);
  const std::int64_t token =
      (a.map.sample0 + row % a.batch) * a.map.seq + a.map.position(row / a.batch);  // its global index
  float sum = 0;
  for (int j = 0; j < a.k; ++j) {
    const std::int64_t expert = a.balanced ? a.choice.expert(token, j) : take_best(values, begin, a.n);
    const float score = scores.of(to_f32(logits[expert]));
    sum += score;
    if (j % kWarp != lane) continue;
    a.experts[row * a.k + j] = expert;
    weights[j] = score;
  }
  const float factor = a.renormalise ? a.scale / (sum + kLeastSum) : a.scale;
  for (int j = lane; j < a.k; j += kWarp) weights[j] *= factor;  // its own weights
}

// partial[warp]: sums, over its rows, of counts * probability and of logsumexp^2.
template <class T>
__global__ void __launch_bounds__(kRouteWarps* kWarp)
    router_loss(const T* all_logits, const std::int64_t* counts, std::int64_t rows, std::int64_t n, bool is_softmax,
                double* partial) {
  double balance = 0, z = 0;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row = own_row(); row < rows; row += step) {
    const T* logits = all_logits + row * n;
    float top = kLowest;
    for (std::int64_t e = threadIdx.x; e < n; e += kWarp) top = Max()(top, to_f32(logits[e]));
    top = warp_reduce(top, Max());
    double exps = 0, all = 0, counted = 0;
    for (std::int64_t e = threadIdx.x; e < n; e += kWarp) {
      const float logit = to_f32(logits[e]), exp = expf(logit - top);
      const double score = is_softmax ? exp : sigmoid(logit);
      exps += exp;
      all += score;
      counted += score * static_cast<double>(counts[e]);
    }
    exps = warp_reduce(exps, Sum());
    all = warp_reduce(all, Sum());
    counted = warp_reduce(counted, Sum());
    const double log_sum = top + log(exps);
    balance += counted / (all + kLeastSum);
    z += log_sum * log_sum;
  }
  if (threadIdx.x != 0) return;
  partial[2 * own_row()] = balance;
  partial[2 * own_row() + 1] = z;
}

// One block.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    add_router_losses(const double* partial, std::int64_t count, double balance_factor, double z_factor, float* sum) {
  __shared__ SharedArray<double, kWarp> parts;
  double of_balance = 0, of_z = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += Threads) {
    of_balance += partial[2 * i];
    of_z += partial[2 * i + 1];
  }
  of_balance = row_reduce(of_balance, 0.0, parts, Sum());
  of_z = row_reduce(of_z, 0.0, parts, Sum());
  if (threadIdx.x != 0) return;
  *sum += static_cast<float>(of_balance * balance_factor + of_z * z_factor);
}

template <class T>
struct RouteGradArguments {
  const float* dweights;
  const T* logits;
  const std::int64_t *experts, *counts;  // counts null: no balance loss
  T* dlogits;                            // may be logits
  std::int64_t rows, n, k;
  bool is_softmax, renormalise;
  float scale, balance, z;
};

// With D the gradient by the scores: dlogits = score' * D; for a softmax p, p (D - sum of p D).
template <class T>
__global__ void __launch_bounds__(kRouteWarps* kWarp) route_grad(RouteGradArguments<T> a) {
  const std::int64_t row = own_row(), lane = threadIdx.x;
  if (row >= a.rows) return;
  const T* logits = a.logits + row * a.n;
  const std::int64_t* experts = a.experts + row * a.k;
  const float* dweights = a.dweights + row * a.k;
  const RowScores scores = scores_of(logits, a.n, a.is_softmax);
  const float z = a.z * (scores.top + logf(scores.sum));
  const auto count_of = [&](std::int64_t e) { return a.balance * static_cast<float>(a.counts[e]); };
  // What the balance loss adds. With a sigmoid, the probability is the score over the sum of all scores.
  float all = 1, mean = 0;
  if (!a.is_softmax && a.counts != nullptr) {
    all = 0;
    for (std::int64_t e = lane; e < a.n; e += kWarp) {
      const float score = sigmoid(to_f32(logits[e]));
      all += score;
      mean += count_of(e) * score;
    }
    all = warp_reduce(all, Sum()) + kLeastSum;
    mean = warp_reduce(mean, Sum()) / all;
  }
  const auto of_balance = [&](std::int64_t e) { return a.counts != nullptr ? (count_of(e) - mean) / all : 0.0f; };
  float sum = 0, gemm = 0;
  for (std::int64_t j = lane; j < a.k; j += kWarp) {
    const float score = scores.of(to_f32(logits[experts[j]]));
    sum += score;
    gemm += score * dweights[j];
  }
  sum = warp_reduce(sum, Sum()) + kLeastSum;
  gemm = warp_reduce(gemm, Sum());
  const float scale = a.renormalise ? a.scale / sum : a.scale, shared = a.renormalise ? gemm / sum : 0.0f;
  float dot = 0;
  if (a.is_softmax) {
    for (std::int64_t j = lane; j < a.k; j += kWarp)
      dot += scores.softmax(to_f32(logits[experts[j]])) * scale * (dweights[j] - shared);
    for (std::int64_t e = lane; e < a.n; e += kWarp) dot += scores.softmax(to_f32(logits[e])) * of_balance(e);
    dot = warp_reduce(dot, Sum());
  }
  __syncwarp();  // the chosen logits have been read
  for (std::int64_t e = lane; e < a.n; e += kWarp) {
    float gradient = of_balance(e);
    for (std::int64_t j = 0; j < a.k; ++j)
      if (experts[j] == e) gradient += scale * (dweights[j] - shared);
    const float logit = to_f32(logits[e]), softmax = scores.softmax(logit);
    float out = softmax * (gradient - dot + z);
    if (!a.is_softmax) {
      const float score = sigmoid(logit);
      out = score * (1.0f - score) * gradient + softmax * z;
    }
    a.dlogits[row * a.n + e] = from_f32<T>(out);
  }
}

inline Launch warp_rows_shape(std::int64_t rows, int warps) {
  Launch shape;
  shape.block_x = kWarp;
  shape.block_y = static_cast<unsigned>(warps);
  shape.grid_x = static_cast<unsigned>((rows + warps - 1) / warps);
  return shape;
}

template <class Stream>
void enqueue(Stream& stream, const ops::Route& op) {
  const std::int64_t rows = op.logits.shape().rows(), n = op.number(), k = op.experts.shape().cols();
  const ops::RouterRule& rule = op.rule;
  const auto bytes = static_cast<std::size_t>(n + rule.groups) * sizeof(float);  // of a warp
  Launch shape = warp_rows_shape(rows, bytes * kRouteWarps <= (std::size_t{48} << 10) ? kRouteWarps : 1);
  if (!rule.balanced) shape.shared = shape.block_y * bytes;
  with_float(op.name, op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    RouteArguments<T> a{};
    a.logits = pointer<T>(op.logits), a.correction = pointer<float>(op.correction);
    a.experts = pointer<std::int64_t>(op.experts), a.weights = pointer<float>(op.weights);
    a.rows = rows, a.batch = rule.balanced ? op.logits.shape()[1] : 1;
    a.choice = ops::BalancedChoice::of(rule, n, k);
    a.n = static_cast<int>(n), a.k = static_cast<int>(k);
    a.groups = static_cast<int>(rule.groups), a.chosen_groups = static_cast<int>(rule.chosen_groups);
    a.is_softmax = rule.score == ops::RouterScore::softmax;
    a.renormalise = rule.renormalise;
    a.best_two = rule.group_score == ops::GroupScore::best_two;
    a.balanced = rule.balanced;
    // Scores have the same order as the logits, and logits lose nothing by rounding.
    a.by_score = op.correction || (rule.groups > 1 && a.best_two);
    a.scale = rule.scale;
    a.map = op.map;
    stream.launch(op.name, shape, route<T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::RouterLoss& op) {
  const std::int64_t rows = op.logits.shape().rows();
  Launch shape = warp_rows_shape(rows, kRouteWarps);
  shape.grid_x = static_cast<unsigned>(std::clamp<std::int64_t>(shape.grid_x, 1, kLossBlocks));
  const std::int64_t warps = static_cast<std::int64_t>(shape.grid_x) * kRouteWarps;
  auto* partial = static_cast<double*>(stream.scratch(static_cast<std::size_t>(2 * warps) * sizeof(double)));
  with_float(op.name, op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    stream.launch(op.name, shape, router_loss<T>, pointer<T>(op.logits), pointer<std::int64_t>(op.counts), rows,
                  op.logits.shape().cols(), op.score == ops::RouterScore::softmax, partial);
  });
  constexpr int kThreads = 256;
  Launch one;
  one.block_x = kThreads;
  stream.launch(op.name, one, add_router_losses<kThreads>, partial, warps, op.balance_factor(), op.z_factor(),
                pointer<float>(op.sum));
}

template <class Stream>
void enqueue(Stream& stream, const ops::RouteGrad& op) {
  const std::int64_t rows = op.logits.shape().rows();
  with_float(op.name, op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    RouteGradArguments<T> a{};
    a.dweights = pointer<float>(op.dweights), a.logits = pointer<T>(op.logits);
    a.experts = pointer<std::int64_t>(op.experts);
    a.counts = op.losses.balance != 0 ? pointer<std::int64_t>(op.counts) : nullptr;
    a.dlogits = pointer<T>(op.dlogits);
    a.rows = rows, a.n = op.logits.shape().cols(), a.k = op.experts.shape().cols();
    a.is_softmax = op.rule.score == ops::RouterScore::softmax;
    a.renormalise = op.rule.renormalise;
    a.scale = op.rule.scale, a.balance = op.balance_factor(), a.z = op.z_factor();
    stream.launch(op.name, warp_rows_shape(rows, kRouteWarps), route_grad<T>, a);
  });
}

}  // namespace mbench::cuda
