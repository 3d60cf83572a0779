#include "engine/ops/route.h"

#include <omp.h>

#include "engine/backend/cpu/column_sum.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

constexpr float kTaken = kNan;  // values are numbers: a logit that is none is -infinity
constexpr float kLeast = 1e-20f;

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

struct Scores {
  float top = 0, sum = 1;  // of the softmax
  Scores(const float* logits, std::int64_t n) {
    top = max_of(n, [=](std::int64_t e) { return logits[e]; });
    const float least = top;
    sum = sum_of(n, [=](std::int64_t e) { return exp_f32(logits[e] - least); });
  }
  float softmax(float logit) const { return exp_f32(logit - top) / sum; }
  float of(ops::RouterScore kind, float logit) const {
    return kind == ops::RouterScore::softmax ? softmax(logit) : sigmoid(logit);
  }
  float log_sum() const { return top + std::log(sum); }
};

// The first of the largest that are not taken yet, which it takes.
std::int64_t take_best(float* values, std::int64_t n) {
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < n; ++i)
    if (!std::isnan(values[i]) && (best < 0 || values[i] > values[best])) best = i;
  values[best] = kTaken;
  return best;
}

float group_score(ops::GroupScore kind, const float* values, std::int64_t n) {
  float best = -kInf, second = -kInf;
  for (std::int64_t i = 0; i < n; ++i) {
    second = std::max(second, std::min(best, values[i]));
    best = std::max(best, values[i]);
  }
  return kind == ops::GroupScore::best ? best : best + second;
}

// values: [experts], then [groups].
void choose(const ops::Route& op, const float* logits, const Scores& scores, float* values, std::int64_t* chosen) {
  const ops::RouterRule& rule = op.rule;
  const std::int64_t n = op.number(), k = op.experts.shape().cols(), size = n / rule.groups;
  // The order of the scores is that of the logits, and of these nothing is lost by rounding.
  const bool by_score = op.correction || (rule.groups > 1 && rule.group_score == ops::GroupScore::best_two);
  for (std::int64_t e = 0; e < n; ++e) {
    float value = logits[e];
    if (by_score) value = scores.of(rule.score, value) + (op.correction ? op.correction.as<float>()[e] : 0.0f);
    values[e] = std::isnan(value) ? -kInf : value;
  }
  if (rule.chosen_groups < rule.groups) {
    float* of_group = values + n;
    for (std::int64_t g = 0; g < rule.groups; ++g) of_group[g] = group_score(rule.group_score, values + g * size, size);
    for (std::int64_t i = 0; i < rule.chosen_groups; ++i) take_best(of_group, rule.groups);
    for (std::int64_t g = 0; g < rule.groups; ++g)
      if (!std::isnan(of_group[g])) std::fill(values + g * size, values + (g + 1) * size, kTaken);
  }
  for (std::int64_t j = 0; j < k; ++j) chosen[j] = take_best(values, n);
}

void choose_by_position(const ops::Route& op, std::int64_t token, std::int64_t* chosen) {
  const std::int64_t k = op.experts.shape().cols(), batch = op.logits.shape()[1];
  const std::int64_t g = (op.map.sample0 + token % batch) * op.map.seq + op.map.position(token / batch);
  const ops::BalancedChoice choice = ops::BalancedChoice::of(op.rule, op.number(), k);
  for (std::int64_t j = 0; j < k; ++j) chosen[j] = choice.expert(g, j);
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::Route& op) {
  const std::int64_t n = op.number(), k = op.experts.shape().cols(), each = 2 * n + op.rule.groups;
  with_type(op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    float* scratch = cpu.scratch.floats(omp_get_max_threads() * each);
    parallel_rows(op.logits.shape().rows(), n, [&](std::int64_t token) {
      float* own = scratch + omp_get_thread_num() * each;
      const float* logits = load(static_cast<const T*>(op.logits.as<T>()) + token * n, own, n);
      std::int64_t* chosen = op.experts.as<std::int64_t>() + token * k;
      const Scores scores(logits, n);
      if (op.rule.balanced)
        choose_by_position(op, token, chosen);
      else
        choose(op, logits, scores, own + n, chosen);
      float* weights = op.weights.as<float>() + token * k;
      float sum = 0;
      for (std::int64_t j = 0; j < k; ++j) sum += weights[j] = scores.of(op.rule.score, logits[chosen[j]]);
      const float factor = op.rule.renormalise ? op.rule.scale / (sum + kLeast) : op.rule.scale;
      for (std::int64_t j = 0; j < k; ++j) weights[j] *= factor;
    });
  });
}

template <>
void compute(CpuOps&, const ops::RouterLoss& op) {
  const std::int64_t n = op.logits.shape().cols(), tokens = op.logits.shape().rows();
  const auto* counts = op.counts.as<std::int64_t>();
  const bool softmax = op.score == ops::RouterScore::softmax;
  const RowChunks chunks(tokens);
  double sums[RowChunks::kMost][2] = {};  // of each chunk: balance, z
  with_type(op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
#pragma omp parallel for schedule(static) if (op.logits.numel() > kParallelFrom)
    for (std::int64_t chunk = 0; chunk < chunks.count; ++chunk)
      for (std::int64_t token = chunks.begin(chunk); token < chunks.end(chunk); ++token) {
        const T* logits = op.logits.as<T>() + token * n;
        float top = -kInf;
        for (std::int64_t e = 0; e < n; ++e) top = std::max(top, to_float(logits[e]));
        double exps = 0, all = 0, counted = 0;
        for (std::int64_t e = 0; e < n; ++e) {
          const float logit = to_float(logits[e]), exp = exp_f32(logit - top);
          const double score = softmax ? exp : sigmoid(logit);
          exps += exp, all += score, counted += score * static_cast<double>(counts[e]);
        }
        const double log_sum = top + std::log(exps);
        sums[chunk][0] += counted / (all + kLeast);
        sums[chunk][1] += log_sum * log_sum;
      }
  });
  double balance = 0, z = 0;
  for (const auto& [of_balance, of_z] : sums) balance += of_balance, z += of_z;
  *op.sum.as<float>() += static_cast<float>(balance * op.balance_factor() + z * op.z_factor());
}

// With D the gradient to the scores: dlogits = score' * D, of a softmax p (D - sum of p D).
template <>
void compute(CpuOps& cpu, const ops::RouteGrad& op) {
  const std::int64_t n = op.logits.shape().cols(), k = op.experts.shape().cols(), each = 3 * n;
  const bool softmax = op.rule.score == ops::RouterScore::softmax;
  const float balance = op.balance_factor();
  const std::int64_t* counts = op.losses.balance != 0 ? op.counts.as<std::int64_t>() : nullptr;
  with_type(op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    float* scratch = cpu.scratch.floats(omp_get_max_threads() * each);
    parallel_rows(op.logits.shape().rows(), n, [&](std::int64_t token) {
      float* own = scratch + omp_get_thread_num() * each;
      const float* logits = load(static_cast<const T*>(op.logits.as<T>()) + token * n, own, n);
      float* gradient = own + n;  // to the scores
      float* out = target(op.dlogits.as<T>() + token * n, own + 2 * n);
      const std::int64_t* chosen = op.experts.as<std::int64_t>() + token * k;
      const float* dweights = op.dweights.as<float>() + token * k;
      const Scores scores(logits, n);
      const float z = op.z_factor() * scores.log_sum();
      const auto count_of = [&](std::int64_t e) {
        return counts != nullptr ? balance * static_cast<float>(counts[e]) : 0.0f;
      };
      // What the balance loss adds: of a sigmoid the probability is the score over the sum of all.
      float all = 1, mean = 0;
      if (!softmax && counts != nullptr) {
        all = kLeast + sum_of(n, [&](std::int64_t e) { return sigmoid(logits[e]); });
        mean = sum_of(n, [&](std::int64_t e) { return count_of(e) * sigmoid(logits[e]); }) / all;
      }
      for (std::int64_t e = 0; e < n; ++e) gradient[e] = counts != nullptr ? (count_of(e) - mean) / all : 0.0f;
      float sum = kLeast, gemm = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const float score = scores.of(op.rule.score, logits[chosen[j]]);
        sum += score, gemm += score * dweights[j];
      }
      const float scale = op.rule.renormalise ? op.rule.scale / sum : op.rule.scale;
      const float shared = op.rule.renormalise ? gemm / sum : 0.0f;
      for (std::int64_t j = 0; j < k; ++j) gradient[chosen[j]] += scale * (dweights[j] - shared);
      if (softmax) {
        const float dot = sum_of(n, [&](std::int64_t e) { return scores.softmax(logits[e]) * gradient[e]; });
        for (std::int64_t e = 0; e < n; ++e) out[e] = scores.softmax(logits[e]) * (gradient[e] - dot + z);
      } else {
        for (std::int64_t e = 0; e < n; ++e) {
          const float score = sigmoid(logits[e]);
          out[e] = score * (1.0f - score) * gradient[e] + scores.softmax(logits[e]) * z;
        }
      }
      store(out, op.dlogits.as<T>() + token * n, n);
    });
  });
}

}  // namespace mbench::cpu
