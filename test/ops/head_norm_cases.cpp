#include "engine/ops/head_norm.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::Matrix;

// Element (r, i), rows counted through all matrices of a batch.
std::size_t at(const Matrix& m, std::int64_t r, std::int64_t i) {
  return static_cast<std::size_t>(m.offset + r / m.rows * m.batch_stride + r % m.rows * m.ld + i);
}

// Element i of the vector of row r, or `value` where there is none.
double of_head(const Values* vectors, std::int64_t heads, std::int64_t n, std::int64_t r, std::int64_t i,
               double value) {
  return vectors != nullptr ? (*vectors)[static_cast<std::size_t>(r % heads * n + i)] : value;
}

void reference(const ops::HeadNorm& op, Doubles& v) {
  const Values& x = v[op.x.data];
  Values &y = v.out(op.y.data), &means = v.out(op.mean), &rstds = v.out(op.rstd);
  const Values *gamma = op.gamma ? &v[op.gamma] : nullptr, *beta = op.beta ? &v[op.beta] : nullptr;
  const std::int64_t n = op.cols();
  for (std::int64_t r = 0; r < op.rows(); ++r) {
    double mean = 0, var = 0;
    for (std::int64_t i = 0; i < n; ++i) mean += x[at(op.x, r, i)] / static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i)
      var += (x[at(op.x, r, i)] - mean) * (x[at(op.x, r, i)] - mean) / static_cast<double>(n);
    const double rstd = 1 / std::sqrt(var + op.eps);
    means[static_cast<std::size_t>(r)] = mean, rstds[static_cast<std::size_t>(r)] = rstd;
    for (std::int64_t i = 0; i < n; ++i)
      y[at(op.y, r, i)] = (x[at(op.x, r, i)] - mean) * rstd * of_head(gamma, op.heads, n, r, i, 1) +
                          of_head(beta, op.heads, n, r, i, 0);
  }
}

void reference(const ops::HeadNormGrad& op, Doubles& v) {
  const Values &dy = v[op.dy.data], &x = v[op.x.data], &means = v[op.mean], &rstds = v[op.rstd];
  const Values* gamma = op.gamma ? &v[op.gamma] : nullptr;
  const std::int64_t n = op.cols();
  Values no_gamma(static_cast<std::size_t>(op.heads * n), 0), no_beta = no_gamma;
  Values &dx = v.out(op.dx.data), &dgamma = op.dgamma ? v.out(op.dgamma) : no_gamma,
         &dbeta = op.dbeta ? v.out(op.dbeta) : no_beta;
  for (std::int64_t r = 0; r < op.rows(); ++r) {
    const double mean = means[static_cast<std::size_t>(r)], rstd = rstds[static_cast<std::size_t>(r)];
    const auto normed = [&](std::int64_t i) { return (x[at(op.x, r, i)] - mean) * rstd; };
    const auto g = [&](std::int64_t i) { return dy[at(op.dy, r, i)] * of_head(gamma, op.heads, n, r, i, 1); };
    double of_g = 0, of_gx = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      of_g += g(i) / static_cast<double>(n), of_gx += g(i) * normed(i) / static_cast<double>(n);
      const auto k = static_cast<std::size_t>(r % op.heads * n + i);
      dgamma[k] += dy[at(op.dy, r, i)] * normed(i), dbeta[k] += dy[at(op.dy, r, i)];
    }
    for (std::int64_t i = 0; i < n; ++i) dx[at(op.dx, r, i)] = rstd * (g(i) - of_g - normed(i) * of_gx);
  }
}

// `heads` heads of n columns side by side in each of `groups` groups of a token, between other columns. `own`: each has a gamma of its own.
struct Packed {
  std::int64_t tokens, groups, heads, n, first, after;
  bool own;
  Shape shape() const { return {tokens * groups, first + heads * n + after}; }
  std::int64_t rows() const { return tokens * groups * heads; }
  std::int64_t vectors() const { return own ? groups * heads : 1; }
  std::string str() const {
    return fmt::format("{} x {} x {} heads of {} between {} and {}{}", tokens, groups, heads, n, first, after,
                       own ? ", each with a gamma" : "");
  }
  Matrix part(const Tensor& t) const { return {t, heads, n, n, first, t.shape().cols()}; }
  Packed elsewhere() const { return {tokens, groups, heads, n, after, first + 8, own}; }
};

ops::HeadNorm make(Tensors& t, const Packed& p, DType type, bool beta) {
  const Packed to = p.elsewhere();
  ops::HeadNorm op;
  op.x = p.part(t.in(p.shape(), type, -2, 3));
  op.gamma = t.in({p.vectors() * p.n}, type, 0.5, 1.5);
  if (beta) op.beta = t.in({p.vectors() * p.n}, type);
  op.y = to.part(t.inout(to.shape(), type));
  op.mean = t.out({p.rows()}), op.rstd = t.out({p.rows()});
  op.heads = p.vectors(), op.batch = p.tokens * p.groups;
  return op;
}

// In place: dx is dy.
ops::HeadNormGrad make_grad(Tensors& t, const Packed& p, DType type, bool beta, DType sums) {
  const Packed kept = p.elsewhere();
  ops::HeadNormGrad op;
  op.dy = op.dx = p.part(t.changed(t.in(p.shape(), type)));
  op.x = kept.part(t.in(kept.shape(), type, -2, 3));
  op.mean = t.in({p.rows()}, DType::f32, -0.5, 1), op.rstd = t.in({p.rows()}, DType::f32, 0.6, 0.8);
  op.gamma = t.in({p.vectors() * p.n}, type, 0.5, 1.5);
  op.dgamma = t.inout({p.vectors() * p.n}, sums);
  if (beta) op.dbeta = t.inout({p.vectors() * p.n}, sums);
  op.heads = p.vectors(), op.batch = p.tokens * p.groups;
  return op;
}

// Whole vectors; ragged ones; a row alone, and one of many; longer than the registers of a warp, and of a block, hold; chunks of several rows.
const Packed kPacked[] = {{5, 2, 3, 64, 0, 32, true}, {3, 2, 2, 16, 8, 24, true},   {7, 3, 3, 5, 2, 9, true},
                          {4, 1, 1, 32, 0, 8, true},  {3, 1, 2, 1032, 8, 0, true},  {5, 2, 3, 64, 0, 32, false},
                          {7, 3, 3, 5, 2, 9, false},  {2, 1, 2, 6400, 0, 0, false}, {75, 2, 1, 24, 8, 0, true}};
const Packed kWide{512, 8, 4, 128, 0, 256, true}, kHuge{1 << 16, 8, 12, 128, 0, 256, true};

const Cases<ops::HeadNorm> head_norm(reference, [](CaseList<ops::HeadNorm>& cases) {
  const Within within{.cpu = {1e-5}, .kernel = {2e-5, 4e-6}, .gpu = 4};
  for (const bool beta : {false, true})
    for_types_and(kPacked, [&](DType type, const Packed& p) {
      cases.add(
          fmt::format("{} {}{}", name_of(type), p.str(), beta ? " and a beta" : ""),
          [=](Tensors& t) { return make(t, p, type, beta); }, within);
    });
  for (const Packed& p : {Packed{3, 2, 2, 7, 0, 0, true}, Packed{4, 1, 3, 8, 0, 0, false}})
    cases.gradient(
        p.str(),
        [=](Tensors& t) {
          ops::HeadNorm op = make(t, p, DType::f32, true);
          op.y = p.part(t.out(p.shape()));
          return op;
        },
        [=](Tensors& t, const ops::HeadNorm& op) {
          ops::HeadNormGrad grad;
          const Tensor dy = t.in(p.shape(), DType::f32), dx = t.out(p.shape());
          grad.x = op.x, grad.mean = op.mean, grad.rstd = op.rstd, grad.gamma = op.gamma;
          grad.dy = p.part(dy), grad.dx = p.part(dx);
          grad.dgamma = t.inout(op.gamma.shape(), DType::f32), grad.dbeta = t.inout(op.beta.shape(), DType::f32);
          grad.heads = op.heads, grad.batch = op.batch;
          return Backward{grad, {op.y.data, dy, {{op.x.data, dx}, {op.gamma, grad.dgamma}, {op.beta, grad.dbeta}}}};
        },
        {2e-4, 2e-4});
  cases.timed("queries", [](Tensors& t) { return make(t, kWide, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kPacked[0], DType::bf16, false); });
  cases.huge("queries", [](Tensors& t) { return make(t, kHuge, DType::bf16, false); });
});

const Cases<ops::HeadNormGrad> head_norm_grad(reference, [](CaseList<ops::HeadNormGrad>& cases) {
  const Within within{.cpu = {1e-4, 4e-6}, .kernel = {3e-5, 4e-6}, .gpu = 4};
  for (const bool beta : {false, true})
    for_types_and(kPacked, [&](DType type, const Packed& p) {
      const DType sums = beta ? DType::f32 : type;
      cases.add(
          fmt::format("{} {}{}", name_of(type), p.str(), beta ? " and a beta" : ""),
          [=](Tensors& t) { return make_grad(t, p, type, beta, sums); }, within);
    });
  cases.timed("queries", [](Tensors& t) { return make_grad(t, kWide, DType::f32, false, DType::f32); });
  cases.enqueued(2, [](Tensors& t) { return make_grad(t, kPacked[0], DType::bf16, false, DType::f32); });
  cases.huge("queries", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16, false, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
