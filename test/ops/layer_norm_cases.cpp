#include "engine/ops/layer_norm.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::LayerNorm& op, Doubles& v) {
  const Values& x = v[op.x];
  Values &y = v.out(op.y), &means = v.out(op.mean), &rstds = v.out(op.rstd);
  const auto n = static_cast<std::size_t>(op.x.shape().cols());
  const Values gamma = op.gamma ? v[op.gamma] : Values(n, 1), beta = op.beta ? v[op.beta] : Values(n, 0);
  const auto count = static_cast<double>(n);
  for (std::size_t r = 0; r < means.size(); ++r) {
    double mean = 0, var = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[r * n + i] / count;
    for (std::size_t i = 0; i < n; ++i) var += (x[r * n + i] - mean) * (x[r * n + i] - mean) / count;
    means[r] = mean, rstds[r] = 1 / std::sqrt(var + op.eps);
    for (std::size_t i = 0; i < n; ++i) y[r * n + i] = (x[r * n + i] - mean) * rstds[r] * gamma[i] + beta[i];
  }
}

ops::LayerNorm make(Tensors& t, const Shape& s, DType type) {
  const Tensor x = t.in(s, type, -2, 3), gamma = t.in({s.cols()}, type, 0.5, 1.5), beta = t.in({s.cols()}, type);
  return {x, gamma, beta, t.out(s, type), t.out({s.rows()}), t.out({s.rows()}), 1e-5f};
}

void reference(const ops::LayerNormGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &x = v[op.x], &mean = v[op.mean], &rstd = v[op.rstd];
  const auto n = static_cast<std::size_t>(op.x.shape().cols());
  const Values gamma = op.gamma ? v[op.gamma] : Values(n, 1);
  Values none(n, 0);
  Values &dx = v.out(op.dx), &dgamma = op.dgamma ? v.out(op.dgamma) : none, &dbeta = op.dbeta ? v.out(op.dbeta) : none;
  const auto count = static_cast<double>(n);
  for (std::size_t r = 0; r < mean.size(); ++r) {
    double sum = 0, projected = 0;
    const auto normed = [&](std::size_t i) { return (x[r * n + i] - mean[r]) * rstd[r]; };
    for (std::size_t i = 0; i < n; ++i) {
      const double d = dy[r * n + i] * gamma[i];
      sum += d / count, projected += d * normed(i) / count;
      dgamma[i] += dy[r * n + i] * normed(i);
      dbeta[i] += dy[r * n + i];
    }
    for (std::size_t i = 0; i < n; ++i)
      dx[r * n + i] = rstd[r] * (dy[r * n + i] * gamma[i] - sum - normed(i) * projected) +
                      (op.residual ? v[op.residual][r * n + i] : 0);
  }
}

ops::LayerNormGrad make_grad(Tensors& t, const Shape& s, DType type, bool residual, DType sums) {
  const std::int64_t rows = s.rows(), n = s.cols();
  ops::LayerNormGrad op;
  op.dy = t.in(s, type), op.x = t.in(s, type, -2, 3);
  op.mean = t.in({rows}, DType::f32, 0.4, 0.6), op.rstd = t.in({rows}, DType::f32, 0.6, 0.8);
  op.gamma = t.in({n}, type, 0.5, 1.5);
  if (residual) op.residual = t.in(s, type);
  op.dx = t.over({op.dy, op.residual});
  op.dgamma = t.inout({n}, sums), op.dbeta = t.inout({n}, sums);
  return op;
}

// Of norms without beta, or without either.
enum class Has { gamma, nothing };
constexpr std::pair<Has, const char*> kHas[] = {{Has::gamma, "without beta"}, {Has::nothing, "without gamma and beta"}};

ops::LayerNorm make_with(Tensors& t, const Shape& s, DType type, Has has) {
  const Tensor x = t.in(s, type, -2, 3), gamma = has == Has::gamma ? t.in({s.cols()}, type, 0.5, 1.5) : Tensor();
  return {x, gamma, Tensor(), t.out(s, type), t.out({s.rows()}), t.out({s.rows()}), 1e-5f};
}

ops::LayerNormGrad make_grad_with(Tensors& t, const Shape& s, DType type, Has has) {
  ops::LayerNormGrad op;
  op.dy = t.in(s, type), op.x = t.in(s, type, -2, 3);
  op.mean = t.in({s.rows()}, DType::f32, 0.4, 0.6), op.rstd = t.in({s.rows()}, DType::f32, 0.6, 0.8);
  op.dx = t.over({op.dy});
  if (has == Has::gamma) op.gamma = t.in({s.cols()}, type, 0.5, 1.5), op.dgamma = t.inout({s.cols()}, DType::f32);
  return op;
}

// One that is longer than the registers of a block.
const std::vector<Shape> kMoreRows = {{1, 2}, {6, 256}, {1, 5000}, {6, 5000}};

const Cases<ops::LayerNorm> layer_norm(reference, [](CaseList<ops::LayerNorm>& cases) {
  const Within within{.cpu = {1e-5}, .kernel = {2e-5, 4e-6}, .gpu = 4};
  const auto add = [&](DType type, const Shape& s) {
    cases.add(
        label(type, s), [=](Tensors& t) { return make(t, s, type); }, within);
  };
  for_types_and(kRows, add);
  for_types_and(kMoreRows, add);
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(
        label(type, s), [=](Tensors& t) { return make(t, s, type); }, within);
  });
  for (const Shape& s : {Shape{1, 2}, Shape{3, 5, 7}, Shape{70, 5}, Shape{2, 67}})
    cases.gradient(
        s.str(), [=](Tensors& t) { return make(t, s, DType::f32); },
        [=](Tensors& t, const ops::LayerNorm& op) {
          ops::LayerNormGrad grad = make_grad(t, s, DType::f32, false, DType::f32);
          grad.x = op.x, grad.mean = op.mean, grad.rstd = op.rstd, grad.gamma = op.gamma;
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}, {op.gamma, grad.dgamma}, {op.beta, grad.dbeta}}}};
        },
        {2e-4, 2e-4});
  for (const auto& [has, which] : kHas) {
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(
          fmt::format("{} {}", label(type, s), which),
          [=, has = has](Tensors& t) { return make_with(t, s, type, has); }, within);
    });
    cases.gradient(
        fmt::format("[3, 5, 7] {}", which),
        [has = has](Tensors& t) {
          return make_with(t, {3, 5, 7}, DType::f32, has);
        },
        [has = has](Tensors& t, const ops::LayerNorm& op) {
          ops::LayerNormGrad grad = make_grad_with(t, {3, 5, 7}, DType::f32, has);
          grad.x = op.x, grad.mean = op.mean, grad.rstd = op.rstd, grad.gamma = op.gamma;
          Chain chain{op.y, grad.dy, {{op.x, grad.dx}}};
          if (op.gamma) chain.inputs.push_back({op.gamma, grad.dgamma});
          return Backward{grad, chain};
        },
        {2e-4, 2e-4});
  }
  cases.timed("hidden", [](Tensors& t) { return make(t, kHidden, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16); });
  for (const Shape& s : {kHugeHidden, kLongHidden})
    cases.huge(s.str(), [=](Tensors& t) { return make(t, s, DType::bf16); });
});

const Cases<ops::LayerNormGrad> layer_norm_grad(reference, [](CaseList<ops::LayerNormGrad>& cases) {
  const Within within{.cpu = {1e-4, 2e-6}, .kernel = {3e-5, 4e-6}, .gpu = 4};
  const auto add = [&](DType type, const Shape& s, bool residual, DType sums, bool emulated) {
    const std::string name =
        fmt::format("{}{} into {}", label(type, s), residual ? " and a residual" : "", name_of(sums));
    const auto made = [=](Tensors& t) { return make_grad(t, s, type, residual, sums); };
    emulated ? cases.add(name, made, within) : cases.unemulated(name, made, within);
  };
  for (const DType type : kFloatTypes) {
    for (const Shape& s : kRows) {
      add(type, s, true, DType::f32, true);
      if (type != DType::f32) add(type, s, false, type, true);
    }
    for (const Shape& s : kMoreRows) add(type, s, false, type, true);
    for (const Shape& s : kLargeRows) {
      add(type, s, false, DType::f32, false);
      if (type != DType::f32) add(type, s, true, type, false);
    }
    for (const DType sums : sum_types(type))
      for (const bool residual : {false, true}) add(type, {50, 77}, residual, sums, false);
  }
  for (const std::int64_t n : {7, 64})
    add(DType::bf16, {75, n}, true, DType::f32, true);  // more chunks than are added side by side
  add(DType::f32, {2, 6400}, true, DType::f32, true);   // vectors, but more than registers hold
  for (const auto& [has, which] : kHas)
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(
          fmt::format("{} {}", label(type, s), which),
          [=, has = has](Tensors& t) { return make_grad_with(t, s, type, has); }, within);
    });
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kHidden, DType::f32, true, DType::f32); });
  cases.enqueued(2, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16, false, DType::f32); });
  for (const Shape& s : {kHugeHidden, kLongHidden})
    cases.huge(s.str(), [=](Tensors& t) { return make_grad(t, s, DType::bf16, true, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
