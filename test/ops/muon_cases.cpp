#include "engine/ops/muon.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

constexpr std::int64_t kSizes[] = {0, 1, 33, 1027};

void reference(const ops::MuonMomentum& op, Doubles& v) {
  const Values& grad = v[op.grad];
  Values &m = v.out(op.momentum), &u = v.out(op.update);
  for (std::size_t i = 0; i < m.size(); ++i) {
    const double g = op.grad_scale * grad[i];
    m[i] = op.mu * m[i] + (1 - op.mu) * g;
    u[i] = op.mu * m[i] + (1 - op.mu) * g;
  }
}

ops::MuonMomentum make_momentum(Tensors& t, std::int64_t n, DType grad, DType update) {
  ops::MuonMomentum op;
  op.grad = t.in({n}, grad, -64, 64), op.momentum = t.inout({n}, DType::f32), op.update = t.out({n}, update);
  op.grad_scale = 1.0f / 64;
  return op;
}

void reference(const ops::MuonNormalise& op, Doubles& v) {
  const Values& u = v[op.u];
  Values& x = v.out(op.x);
  const double norm = std::max(std::sqrt(v[op.squares][0]), static_cast<double>(op.eps));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = u[i] / norm;
}

ops::MuonNormalise make_normalise(Tensors& t, std::int64_t n, DType type, double squares) {
  const Tensor u = t.in({n}, type);
  return {u, t.values({1}, DType::f32, {squares}), t.over({u})};
}

void reference(const ops::MuonUpdate& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& p = v.out(op.param);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = (1 - op.decay) * p[i] - op.lr * x[i];
  if (op.model) v.out(op.model) = p;
}

ops::MuonUpdate make_update(Tensors& t, std::int64_t n, DType type, DType model) {
  ops::MuonUpdate op;
  op.param = t.inout({n}, DType::f32), op.x = t.in({n}, type);
  if (model != DType::f32) op.model = t.out({n}, model);
  op.lr = 0.01f, op.decay = 0.001f;
  return op;
}

const Within kWithin{.cpu = {2e-7, 1e-6}, .kernel = {2e-7, 1e-6}};

const Cases<ops::MuonMomentum> momentum(reference, [](CaseList<ops::MuonMomentum>& cases) {
  for (const DType grad : kFloatTypes)
    for (const DType update : {DType::f32, DType::bf16}) {
      const auto add = [&](std::int64_t n, bool emulated) {
        const std::string name = fmt::format("[{}], gradients in {}, into {}", n, name_of(grad), name_of(update));
        const auto made = [=](Tensors& t) { return make_momentum(t, n, grad, update); };
        emulated ? cases.add(name, made, kWithin) : cases.unemulated(name, made, kWithin);
      };
      for (const std::int64_t n : kSizes) add(n, true);
      add(30000, false);
    }
  cases.timed("16 Mi", [](Tensors& t) { return make_momentum(t, 16 << 20, DType::f32, DType::bf16); });
  cases.huge("8 Gi", [](Tensors& t) { return make_momentum(t, std::int64_t{8} << 30, DType::f32, DType::bf16); });
});

const Cases<ops::MuonNormalise> normalise(reference, [](CaseList<ops::MuonNormalise>& cases) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const double squares : {17.5, 0.0})
      for (const std::int64_t n : kSizes)
        cases.add(fmt::format("[{}] {}, squares {}", n, name_of(type), squares),
                  [=](Tensors& t) { return make_normalise(t, n, type, squares); }, {.cpu = {1e-6}});
  cases.timed("16 Mi", [](Tensors& t) { return make_normalise(t, 16 << 20, DType::bf16, 2); });
  cases.huge("8 Gi", [](Tensors& t) { return make_normalise(t, std::int64_t{8} << 30, DType::bf16, 2); });
});

const Cases<ops::MuonUpdate> update(reference, [](CaseList<ops::MuonUpdate>& cases) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const DType model : kFloatTypes) {
      const auto add = [&](std::int64_t n, bool emulated) {
        const std::string name = fmt::format("[{}] by {}, weights in {}", n, name_of(type), name_of(model));
        const auto made = [=](Tensors& t) { return make_update(t, n, type, model); };
        emulated ? cases.add(name, made, kWithin) : cases.unemulated(name, made, kWithin);
      };
      for (const std::int64_t n : kSizes) add(n, true);
      add(30000, false);
    }
  cases.timed("16 Mi", [](Tensors& t) { return make_update(t, 16 << 20, DType::bf16, DType::bf16); });
  cases.huge("8 Gi", [](Tensors& t) { return make_update(t, std::int64_t{8} << 30, DType::bf16, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
