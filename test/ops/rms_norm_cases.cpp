#include "engine/ops/rms_norm.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::RmsNorm& op, Doubles& v) {
  const Values &x = v[op.x], &gamma = v[op.gamma];
  Values &y = v.out(op.y), &rstds = v.out(op.rstd);
  const std::size_t n = gamma.size();
  for (std::size_t r = 0; r < rstds.size(); ++r) {
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += x[r * n + i] * x[r * n + i] / static_cast<double>(n);
    rstds[r] = 1 / std::sqrt(squares + op.eps);
    for (std::size_t i = 0; i < n; ++i) y[r * n + i] = x[r * n + i] * rstds[r] * gamma[i];
  }
}

ops::RmsNorm make(Tensors& t, const Shape& s, DType type) {
  const Tensor x = t.in(s, type, -2, 3), gamma = t.in({s.cols()}, type, 0.5, 1.5);
  return {x, gamma, t.out(s, type), t.out({s.rows()}), 1e-5f};
}

void reference(const ops::RmsNormGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &x = v[op.x], &rstd = v[op.rstd], &gamma = v[op.gamma];
  Values &dx = v.out(op.dx), &dgamma = v.out(op.dgamma);
  const std::size_t n = gamma.size();
  for (std::size_t r = 0; r < rstd.size(); ++r) {
    double projected = 0;
    const auto normed = [&](std::size_t i) { return x[r * n + i] * rstd[r]; };
    for (std::size_t i = 0; i < n; ++i) {
      projected += dy[r * n + i] * gamma[i] * normed(i) / static_cast<double>(n);
      dgamma[i] += dy[r * n + i] * normed(i);
    }
    for (std::size_t i = 0; i < n; ++i)
      dx[r * n + i] = rstd[r] * (dy[r * n + i] * gamma[i] - normed(i) * projected) +
                      (op.residual ? v[op.residual][r * n + i] : 0);
  }
}

ops::RmsNormGrad make_grad(Tensors& t, const Shape& s, DType type, bool residual, DType sums) {
  ops::RmsNormGrad op;
  op.dy = t.in(s, type), op.x = t.in(s, type, -2, 3);
  op.rstd = t.in({s.rows()}, DType::f32, 0.6, 0.8);
  op.gamma = t.in({s.cols()}, type, 0.5, 1.5);
  if (residual) op.residual = t.in(s, type);
  op.dx = t.over({op.dy, op.residual});
  op.dgamma = t.inout({s.cols()}, sums);
  return op;
}

// One that is longer than the registers of a block.
const std::vector<Shape> kMoreRows = {{1, 2}, {6, 256}, {1, 5000}, {6, 5000}};

const Cases<ops::RmsNorm> rms_norm(reference, [](CaseList<ops::RmsNorm>& cases) {
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
        [=](Tensors& t, const ops::RmsNorm& op) {
          ops::RmsNormGrad grad = make_grad(t, s, DType::f32, false, DType::f32);
          grad.x = op.x, grad.rstd = op.rstd, grad.gamma = op.gamma;
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}, {op.gamma, grad.dgamma}}}};
        },
        {2e-4, 2e-4});
  cases.timed("hidden", [](Tensors& t) { return make(t, kHidden, DType::f32); });
  cases.timed("hidden bf16", [](Tensors& t) { return make(t, kHidden, DType::bf16); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16); });
  for (const Shape& s : {kHugeHidden, kLongHidden})
    cases.huge(s.str(), [=](Tensors& t) { return make(t, s, DType::bf16); });
});

const Cases<ops::RmsNormGrad> rms_norm_grad(reference, [](CaseList<ops::RmsNormGrad>& cases) {
  const Within within{.cpu = {1e-4, 2e-6}, .kernel = {3e-5, 4e-6}, .gpu = 4};
  const auto add = [&](DType type, const Shape& s, bool residual, DType sums, bool emulated) {
    const std::string name =
        fmt::format("{}{} into {}", label(type, s), residual ? " and a residual" : "", name_of(sums));
    const auto made = [=](Tensors& t) { return make_grad(t, s, type, residual, sums); };
    emulated ? cases.add(name, made, within) : cases.unemulated(name, made, within);
  };
  for (const DType type : kFloatTypes) {
    for (const Shape& s : kRows) add(type, s, true, DType::f32, true);
    for (const Shape& s : kMoreRows) add(type, s, false, type, true);
    for (const Shape& s : kLargeRows) add(type, s, false, DType::f32, false);
    for (const DType sums : sum_types(type))
      for (const bool residual : {false, true}) add(type, {50, 77}, residual, sums, false);
  }
  for (const std::int64_t n : {7, 64})
    add(DType::bf16, {75, n}, true, DType::f32, true);  // more chunks than are added side by side
  add(DType::f32, {2, 6400}, true, DType::f32, true);   // vectors, but more than registers hold
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kHidden, DType::f32, true, DType::f32); });
  cases.enqueued(2, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16, false, DType::f32); });
  for (const Shape& s : {kHugeHidden, kLongHidden})
    cases.huge(s.str(), [=](Tensors& t) { return make_grad(t, s, DType::bf16, true, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
