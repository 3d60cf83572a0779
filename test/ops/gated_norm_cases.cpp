#include "engine/ops/gated_norm.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

// Norms of `width` columns; rows of x have `norms` of them next to each other, and rows of z so many columns more.
struct Form {
  std::int64_t seq, batch, groups, norms, width, more = 0;
  bool gate_first = true;
  Shape x() const { return {seq, batch, groups, norms * width}; }
  Shape z() const { return {seq, batch, groups, norms * width + more}; }
  Shape gamma() const { return {gate_first ? groups * norms * width : width}; }
  std::int64_t rows() const { return seq * batch * groups * norms; }
  std::string str() const {
    return fmt::format("{} of {} norms of {}, {} more, gate {}", x(), norms, width, more,
                       gate_first ? "first" : "last");
  }
};

// Where the columns of norm i begin, and its gamma.
struct Places {
  std::size_t x, z, gamma;
};
template <class Op>
Places places(const Op& op, std::int64_t i) {
  const std::int64_t n = op.x.shape()[3], norms = n / op.width, row = i / norms, groups = op.x.shape()[2];
  const bool shared = op.gamma.numel() == op.width;
  return {static_cast<std::size_t>(i * op.width),
          static_cast<std::size_t>(row * op.z.shape()[3] + i % norms * op.width),
          static_cast<std::size_t>(shared ? 0 : row % groups * n + i % norms * op.width)};
}

void reference(const ops::GatedNorm& op, Doubles& v) {
  const Values &x = v[op.x], &z = v[op.z], &gamma = v[op.gamma];
  Values &y = v.out(op.y), &rstds = v.out(op.rstd);
  const auto width = static_cast<std::size_t>(op.width);
  for (std::size_t i = 0; i < rstds.size(); ++i) {
    const Places at = places(op, static_cast<std::int64_t>(i));
    const auto gate = [&](std::size_t k) { return z[at.z + k] * sigmoid(z[at.z + k]); };
    const auto u = [&](std::size_t k) { return x[at.x + k] * (op.gate_first ? gate(k) : 1); };
    double squares = 0;
    for (std::size_t k = 0; k < width; ++k) squares += u(k) * u(k) / static_cast<double>(width);
    rstds[i] = 1 / std::sqrt(squares + static_cast<double>(op.eps));
    for (std::size_t k = 0; k < width; ++k)
      y[at.x + k] = u(k) * rstds[i] * gamma[at.gamma + k] * (op.gate_first ? 1 : gate(k));
  }
}

void reference(const ops::GatedNormGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &x = v[op.x], &z = v[op.z], &gamma = v[op.gamma], &rstds = v[op.rstd];
  Values &dx = v.out(op.dx), &dz = v.out(op.dz), &dgamma = v.out(op.dgamma);
  const auto width = static_cast<std::size_t>(op.width);
  for (std::size_t i = 0; i < rstds.size(); ++i) {
    const Places at = places(op, static_cast<std::int64_t>(i));
    const double rstd = rstds[i];
    const auto gate = [&](std::size_t k) { return z[at.z + k] * sigmoid(z[at.z + k]); };
    const auto slope = [&](std::size_t k) {
      const double s = sigmoid(z[at.z + k]);
      return s * (1 + z[at.z + k] * (1 - s));
    };
    const auto u = [&](std::size_t k) { return x[at.x + k] * (op.gate_first ? gate(k) : 1); };
    const auto e = [&](std::size_t k) { return dy[at.x + k] * (op.gate_first ? 1 : gate(k)); };
    double mean = 0;
    for (std::size_t k = 0; k < width; ++k)
      mean += e(k) * gamma[at.gamma + k] * u(k) * rstd / static_cast<double>(width);
    for (std::size_t k = 0; k < width; ++k) {
      const double back = rstd * (e(k) * gamma[at.gamma + k] - u(k) * rstd * mean);
      dgamma[at.gamma + k] += e(k) * u(k) * rstd;
      dz[at.z + k] = slope(k) * (op.gate_first ? back * x[at.x + k] : dy[at.x + k] * u(k) * rstd * gamma[at.gamma + k]);
      dx[at.x + k] = op.gate_first ? back * gate(k) : back;
    }
  }
}

ops::GatedNorm make(Tensors& t, const Form& f, DType type) {
  const Tensor x = t.in(f.x(), type, -2, 3), z = t.in(f.z(), type, -3, 3), gamma = t.in(f.gamma(), type, 0.5, 1.5);
  return {x, z, gamma, t.out(f.x(), type), t.out({f.rows()}), f.width, f.gate_first};
}

ops::GatedNormGrad make_grad(Tensors& t, const Form& f, DType type, DType sum) {
  ops::GatedNormGrad op;
  op.dy = t.in(f.x(), type), op.x = t.in(f.x(), type, -2, 3), op.z = t.in(f.z(), type, -3, 3);
  op.gamma = t.in(f.gamma(), type, 0.5, 1.5);
  op.rstd = t.in({f.rows()}, DType::f32, 0.6, 0.8);
  op.dx = t.over({op.dy});
  op.dz = t.inout(f.z(), type);
  op.dgamma = t.inout(f.gamma(), sum);
  op.width = f.width, op.gate_first = f.gate_first;
  return op;
}

const Form kForms[] = {{1, 1, 1, 1, 1},      {3, 2, 2, 1, 33, 5},        {5, 1, 3, 2, 7, 1},
                       {4, 2, 1, 1, 256, 8}, {3, 1, 2, 3, 16, 4, false}, {2, 2, 1, 4, 33, 0, false},
                       {2, 1, 1, 1, 1030, 2}};
const Form kBench{kBenchTokens, 1, 8, 1, 256, 516}, kHuge{65536, 8, 8, 1, 1024, 1296}, kSmall{16, 1, 2, 1, 64, 40};

const Cases<ops::GatedNorm> gated_norm(reference, [](CaseList<ops::GatedNorm>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    cases.add(fmt::format("{} {}", name_of(type), f.str()), [=](Tensors& t) { return make(t, f, type); },
              {.cpu = {2e-5, 2e-5}, .kernel = {2e-5, 1e-5}, .gpu = 4});
  });
  for (const bool first : {true, false})
    cases.gradient(
        first ? "gate first" : "gate last",
        [=](Tensors& t) {
          return make(t, {3, 2, 2, 2, 5, 0, first}, DType::f32);
        },
        [](Tensors& t, const ops::GatedNorm& op) {
          ops::GatedNormGrad grad;
          grad.dy = t.in(op.x.shape(), DType::f32);
          grad.x = op.x, grad.z = op.z, grad.gamma = op.gamma, grad.rstd = op.rstd;
          grad.dx = t.out(op.x.shape()), grad.dz = t.out(op.z.shape()),
          grad.dgamma = t.inout(op.gamma.shape(), DType::f32);
          grad.width = op.width, grad.gate_first = op.gate_first;
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}, {op.z, grad.dz}, {op.gamma, grad.dgamma}}}};
        },
        {1e-4, 1e-3});
  cases.timed("8 x 256", [](Tensors& t) { return make(t, kBench, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmall, DType::bf16); });
  cases.huge("8 x 1024", [](Tensors& t) { return make(t, kHuge, DType::bf16); });
});

const Cases<ops::GatedNormGrad> gated_norm_grad(reference, [](CaseList<ops::GatedNormGrad>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    for (const DType sum : sum_types(type))
      cases.add(fmt::format("{} {} into {}", name_of(type), f.str(), name_of(sum)),
                [=](Tensors& t) { return make_grad(t, f, type, sum); },
                {.cpu = {4e-5, 2e-5}, .kernel = {4e-5, 2e-5}, .gpu = 4});
  });
  cases.timed("8 x 256", [](Tensors& t) { return make_grad(t, kBench, DType::f32, DType::f32); });
  cases.enqueued(3, [](Tensors& t) { return make_grad(t, kSmall, DType::bf16, DType::f32); });
  cases.huge("8 x 1024", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
