#include "engine/ops/expert_bias.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// Rows of experts: nobody's before, between and after; an expert without rows; as many each, by number and by offsets; more experts
// than one launch of a GPU takes.
constexpr std::int64_t kRagged[] = {2, 5, 5, 22, 23}, kEqual[] = {0, 8, 16, 24}, kNone[] = {0, 0, 0},
                       kLong[] = {0, 1, 70, 71};
struct Sizes {
  const char* what;
  ops::RowsOfExperts of;
  std::int64_t experts, rows, n;
};
const Sizes kSizes[] = {{"ragged", {0, kRagged}, 4, 25, 40},   {"ragged", {0, kRagged}, 4, 23, 7},
                        {"equal", {0, kEqual}, 3, 24, 64},     {"without rows", {0, kNone}, 2, 3, 8},
                        {"a long one", {0, kLong}, 3, 71, 33}, {"each", {6}, 4, 24, 31},
                        {"each, many", {2}, 130, 260, 8},      {"each, wide", {3}, 2, 6, 1032}};

std::int64_t expert_of(const ops::RowsOfExperts& rows, std::int64_t experts, std::int64_t row) {
  for (std::int64_t e = 0; e < experts; ++e)
    if (row >= rows.begin(e) && row < rows.begin(e) + rows.count(e)) return e;
  return -1;
}

void reference(const ops::ExpertBias& op, Doubles& v) {
  const Values& bias = v[op.bias];
  Values& y = v.out(op.y);
  const std::int64_t n = op.y.shape().cols();
  for (std::int64_t row = 0; row < op.y.shape().rows(); ++row) {
    const std::int64_t e = expert_of(op.rows, op.bias.shape()[0], row);
    if (e < 0) continue;
    const double weight = op.share * (op.weights ? v[op.weights][static_cast<std::size_t>(row)] : 1.0);
    for (std::int64_t i = 0; i < n; ++i)
      y[static_cast<std::size_t>(row * n + i)] += weight * bias[static_cast<std::size_t>(e * n + i)];
  }
}

ops::ExpertBias make(Tensors& t, const Sizes& z, DType type, bool weighted) {
  ops::ExpertBias op;
  op.y = t.inout({z.rows, z.n}, type), op.bias = t.in({z.experts, z.n}, type), op.rows = z.of;
  if (weighted) op.weights = t.in({z.rows, 1}, DType::f32), op.share = 0.5f;
  return op;
}

void reference(const ops::ExpertBiasGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dbias = v.out(op.dbias);
  const std::int64_t n = op.dy.shape().cols();
  if (op.weights) v.out(op.dweights).assign(static_cast<std::size_t>(op.weights.numel()), 0);
  for (std::int64_t row = 0; row < op.dy.shape().rows(); ++row) {
    const std::int64_t e = expert_of(op.rows, op.dbias.shape()[0], row);
    if (e < 0) continue;
    const auto at = static_cast<std::size_t>(row);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto d = static_cast<std::size_t>(row * n + i), b = static_cast<std::size_t>(e * n + i);
      dbias[b] += (op.weights ? v[op.weights][at] : 1.0) * dy[d];
      if (op.weights) v.out(op.dweights)[at] += op.share * dy[d] * v[op.bias][b];
    }
  }
}

ops::ExpertBiasGrad make_grad(Tensors& t, const Sizes& z, DType type, DType sum, bool weighted) {
  ops::ExpertBiasGrad op;
  op.dy = t.in({z.rows, z.n}, type), op.dbias = t.inout({z.experts, z.n}, sum), op.rows = z.of;
  if (!weighted) return op;
  op.weights = t.in({z.rows, 1}, DType::f32), op.bias = t.in({z.experts, z.n}, type);
  op.dweights = t.out({z.rows, 1}), op.share = 0.5f;
  return op;
}

std::string name(const Sizes& z, DType type, bool weighted) {
  return fmt::format("{}, {} rows of {}, {}{}", z.what, z.rows, z.n, name_of(type), weighted ? ", weighted" : "");
}

const Sizes kFfnOfExperts{"ffn", {256}, 4, 1024, kBenchFfn}, kSmall{"small", {16}, 4, 64, 256},
    kHugeExperts{"huge", {1 << 16}, 16, 1 << 20, 4 * 12288};

const Cases<ops::ExpertBias> expert_bias(reference, [](CaseList<ops::ExpertBias>& cases) {
  for (const bool weighted : {false, true}) {
    for_types_and(kSizes, [&](DType type, const Sizes& z) {
      cases.add(name(z, type, weighted), [=](Tensors& t) { return make(t, z, type, weighted); }, {.cpu = {2e-6}});
    });
    const Sizes small{"ragged", {0, kRagged}, 4, 23, 3};
    cases.gradient(
        name(small, DType::f32, weighted), [=](Tensors& t) { return make(t, small, DType::f32, weighted); },
        [=](Tensors& t, const ops::ExpertBias& op) {
          ops::ExpertBiasGrad grad = make_grad(t, small, DType::f32, DType::f32, weighted);
          grad.weights = op.weights, grad.share = op.share;
          if (weighted) grad.bias = op.bias;
          // A rank's share of a bias that several add has all of its gradient.
          if (weighted) return Backward{grad, {op.y, grad.dy, {{op.weights, grad.dweights}}}};
          return Backward{grad, {op.y, grad.dy, {{op.bias, grad.dbias}}}};
        });
  }
  cases.timed("ffn", [](Tensors& t) { return make(t, kFfnOfExperts, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmall, DType::bf16, false); });
  cases.huge("experts", [](Tensors& t) { return make(t, kHugeExperts, DType::bf16, true); });
});

const Cases<ops::ExpertBiasGrad> expert_bias_grad(reference, [](CaseList<ops::ExpertBiasGrad>& cases) {
  const Within within{.cpu = {1e-4}, .kernel = {2e-5, 4e-6}, .gpu = 4};
  for (const bool weighted : {false, true})
    for (const DType type : kFloatTypes)
      for (const DType sum : sum_types(type))
        for (const Sizes& z : kSizes)
          cases.add(
              fmt::format("{} into {}", name(z, type, weighted), name_of(sum)),
              [=](Tensors& t) { return make_grad(t, z, type, sum, weighted); }, within);
  cases.timed("ffn", [](Tensors& t) { return make_grad(t, kFfnOfExperts, DType::f32, DType::f32, false); });
  cases.enqueued(2, [](Tensors& t) { return make_grad(t, kSmall, DType::bf16, DType::f32, false); });
  cases.huge("experts", [](Tensors& t) { return make_grad(t, kHugeExperts, DType::bf16, DType::f32, true); });
});

}  // namespace
}  // namespace mbench::test
