#include "engine/ops/rms_norm.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::Matrix;

// Element (r, i), rows counted through all matrices of a batch.
std::size_t at(const Matrix& m, std::int64_t r, std::int64_t i) {
  return static_cast<std::size_t>(m.offset + r / m.rows * m.batch_stride + r % m.rows * m.ld + i);
}

void reference(const ops::RmsNorm& op, Doubles& v) {
  const Values& x = v[op.x.data];
  Values &y = v.out(op.y.data), &rstds = v.out(op.rstd);
  const std::int64_t n = op.cols();
  const Values gamma = op.gamma ? v[op.gamma] : Values(static_cast<std::size_t>(n), 1);
  for (std::int64_t r = 0; r < op.rows(); ++r) {
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) squares += x[at(op.x, r, i)] * x[at(op.x, r, i)] / static_cast<double>(n);
    const double rstd = rstds[static_cast<std::size_t>(r)] = 1 / std::sqrt(squares + op.eps);
    for (std::int64_t i = 0; i < n; ++i)
      y[at(op.y, r, i)] = x[at(op.x, r, i)] * rstd * gamma[static_cast<std::size_t>(i)];
  }
}

ops::RmsNorm make(Tensors& t, const Shape& s, DType type) {
  const Tensor x = t.in(s, type, -2, 3), gamma = t.in({s.cols()}, type, 0.5, 1.5);
  return {Matrix(x), gamma, Matrix(t.out(s, type)), t.out({s.rows()}), 1e-5f};
}

void reference(const ops::RmsNormGrad& op, Doubles& v) {
  const Values &dy = v[op.dy.data], &x = v[op.x.data], &rstds = v[op.rstd];
  const auto width = static_cast<std::size_t>(op.cols());
  const Values none, gamma = op.gamma ? v[op.gamma] : Values(width, 1);
  Values unused(width, 0);
  const Values& residual = op.residual.data ? v[op.residual.data] : none;
  Values &dx = v.out(op.dx.data), &dgamma = op.dgamma ? v.out(op.dgamma) : unused;
  const std::int64_t n = op.cols();
  for (std::int64_t r = 0; r < op.rows(); ++r) {
    double projected = 0;
    const double rstd = rstds[static_cast<std::size_t>(r)];
    const auto normed = [&](std::int64_t i) { return x[at(op.x, r, i)] * rstd; };
    for (std::int64_t i = 0; i < n; ++i) {
      const std::size_t k = static_cast<std::size_t>(i);
      projected += dy[at(op.dy, r, i)] * gamma[k] * normed(i) / static_cast<double>(n);
      dgamma[k] += dy[at(op.dy, r, i)] * normed(i);
    }
    for (std::int64_t i = 0; i < n; ++i)
      dx[at(op.dx, r, i)] = rstd * (dy[at(op.dy, r, i)] * gamma[static_cast<std::size_t>(i)] - normed(i) * projected) +
                            (op.residual.data ? residual[at(op.residual, r, i)] : 0);
  }
}

ops::RmsNormGrad make_grad(Tensors& t, const Shape& s, DType type, bool residual, DType sums) {
  ops::RmsNormGrad op;
  const Tensor dy = t.in(s, type);
  op.dy = Matrix(dy), op.x = Matrix(t.in(s, type, -2, 3));
  op.rstd = t.in({s.rows()}, DType::f32, 0.6, 0.8);
  op.gamma = t.in({s.cols()}, type, 0.5, 1.5);
  Tensor by_passed;
  if (residual) by_passed = t.in(s, type), op.residual = Matrix(by_passed);
  op.dx = Matrix(t.over({dy, by_passed}));
  op.dgamma = t.inout({s.cols()}, sums);
  return op;
}

// Heads of n columns side by side, `first` columns of another kind before them and `after` behind them.
struct Packed {
  std::int64_t tokens, heads, n, first, after;
  Shape shape() const { return {tokens, first + heads * n + after}; }
  std::string str() const {
    return fmt::format("{} x {} heads of {} between {} and {}", tokens, heads, n, first, after);
  }
  Matrix part(const Tensor& t) const { return {t, heads, n, n, first, t.shape().cols()}; }
};

// From inside of one tensor to inside of another that is packed otherwise.
ops::RmsNorm make_packed(Tensors& t, const Packed& p, DType type) {
  const Packed to{p.tokens, p.heads, p.n, p.after, p.first + 8};
  const Tensor x = t.in(p.shape(), type, -2, 3), gamma = t.in({p.n}, type, 0.5, 1.5);
  return {p.part(x), gamma, to.part(t.inout(to.shape(), type)), t.out({p.tokens * p.heads}), 1e-5f, p.tokens};
}

// In place: dx is dy.
ops::RmsNormGrad make_packed_grad(Tensors& t, const Packed& p, DType type) {
  const Packed kept{p.tokens, p.heads, p.n, p.after, p.first + 8};
  ops::RmsNormGrad op;
  op.dy = op.dx = p.part(t.changed(t.in(p.shape(), type)));
  op.x = kept.part(t.in(kept.shape(), type, -2, 3));
  op.rstd = t.in({p.tokens * p.heads}, DType::f32, 0.6, 0.8);
  op.gamma = t.in({p.n}, type, 0.5, 1.5);
  op.dgamma = t.inout({p.n}, DType::f32);
  op.batch = p.tokens;
  return op;
}

// Whole vectors; ragged ones; a row alone, and one of many; longer than the registers of a warp hold.
const Packed kPacked[] = {{5, 3, 64, 0, 32}, {3, 2, 16, 8, 24}, {7, 3, 5, 2, 9}, {4, 1, 32, 0, 8}, {3, 2, 1032, 8, 0}};

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
  for_types_and(kPacked, [&](DType type, const Packed& p) {
    cases.add(
        fmt::format("{} {}", name_of(type), p.str()), [=](Tensors& t) { return make_packed(t, p, type); }, within);
  });
  for (const Shape& s : {Shape{1, 2}, Shape{3, 5, 7}, Shape{70, 5}, Shape{2, 67}})
    cases.gradient(
        s.str(), [=](Tensors& t) { return make(t, s, DType::f32); },
        [=](Tensors& t, const ops::RmsNorm& op) {
          ops::RmsNormGrad grad = make_grad(t, s, DType::f32, false, DType::f32);
          grad.x = op.x, grad.rstd = op.rstd, grad.gamma = op.gamma;
          return Backward{grad, {op.y.data, grad.dy.data, {{op.x.data, grad.dx.data}, {op.gamma, grad.dgamma}}}};
        },
        {2e-4, 2e-4});
  const auto without_gamma = [](Tensors& t, const Shape& s, DType type) {
    return ops::RmsNorm{Matrix(t.in(s, type, -2, 3)), Tensor(), Matrix(t.out(s, type)), t.out({s.rows()}), 1e-5f};
  };
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(
        label(type, s) + " without gamma", [=](Tensors& t) { return without_gamma(t, s, type); }, within);
  });
  cases.gradient(
      "[3, 5, 7] without gamma",
      [=](Tensors& t) {
        return without_gamma(t, {3, 5, 7}, DType::f32);
      },
      [](Tensors& t, const ops::RmsNorm& op) {
        ops::RmsNormGrad grad;
        const Tensor dy = t.in({3, 5, 7}, DType::f32);
        grad.dy = Matrix(dy), grad.x = op.x, grad.rstd = op.rstd, grad.dx = Matrix(t.out({3, 5, 7}));
        return Backward{grad, {op.y.data, dy, {{op.x.data, grad.dx.data}}}};
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
  for_types_and(kPacked, [&](DType type, const Packed& p) {
    cases.add(
        fmt::format("{} {}", name_of(type), p.str()), [=](Tensors& t) { return make_packed_grad(t, p, type); }, within);
  });
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(
        label(type, s) + " without gamma",
        [=](Tensors& t) {
          ops::RmsNormGrad op;
          const Tensor dy = t.in(s, type);
          op.dy = Matrix(dy), op.x = Matrix(t.in(s, type, -2, 3)), op.rstd = t.in({s.rows()}, DType::f32, 0.6, 0.8);
          op.dx = Matrix(t.over({dy}));
          return op;
        },
        within);
  });
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kHidden, DType::f32, true, DType::f32); });
  cases.enqueued(2, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16, false, DType::f32); });
  for (const Shape& s : {kHugeHidden, kLongHidden})
    cases.huge(s.str(), [=](Tensors& t) { return make_grad(t, s, DType::bf16, true, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
