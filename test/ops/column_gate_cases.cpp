#include "engine/ops/column_gate.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

// Element i of x, in z.
template <class Op>
std::size_t gate_of(const Op& op, std::size_t i) {
  const auto n = static_cast<std::size_t>(op.x.shape()[3]), width = static_cast<std::size_t>(op.z.shape()[3]);
  return i / n * width + static_cast<std::size_t>(op.first) + i % n;
}

void reference(const ops::ColumnGate& op, Doubles& v) {
  const Values &x = v[op.x], &z = v[op.z];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double gate = z[gate_of(op, i)];
    y[i] = x[i] * sigmoid(gate) * (op.silu ? gate : 1);
  }
}

void reference(const ops::ColumnGateGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &x = v[op.x], &z = v[op.z];
  Values &dx = v.out(op.dx), &dz = v.out(op.dz);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double gate = z[gate_of(op, i)], open = sigmoid(gate);
    dz[gate_of(op, i)] = dy[i] * x[i] * open * (op.silu ? 1 + gate * (1 - open) : 1 - open);
    dx[i] = dy[i] * open * (op.silu ? gate : 1);
  }
}

// `before` and `after`: columns that are no gates.
struct Form {
  Shape x;
  std::int64_t before = 0, after = 0;
  bool silu = false;
  Shape z() const { return {x[0], x[1], x[2], before + x[3] + after}; }
  std::string str() const { return fmt::format("{}{} between {} and {}", silu ? "silu " : "", x, before, after); }
};

ops::ColumnGate make(Tensors& t, const Form& f, DType type) {
  const Tensor x = t.in(f.x, type), z = t.in(f.z(), type, -4, 4);
  return {x, z, t.over({x}), f.before, f.silu};
}

ops::ColumnGateGrad make_grad(Tensors& t, const Form& f, DType type) {
  const Tensor dy = t.in(f.x, type), x = t.in(f.x, type), z = t.in(f.z(), type, -4, 4);
  return {dy, x, z, t.over({dy}), t.inout(f.z(), type), f.before, f.silu};
}

const Form kForms[] = {{{1, 1, 1, 1}, 0, 0},
                       {{3, 2, 2, 7}, 5, 1},
                       {{2, 1, 3, 64}, 128, 0},
                       {{1, 2, 1, 1030}, 3, 2},
                       {{3, 2, 2, 7}, 0, 4, true}};
const Form kBench{{kBenchTokens, 1, 2, 512}, 768, 0}, kHuge{{65536, 8, 8, 1024}, 1280, 0},
    kSmall{{16, 1, 2, 64}, 96, 0};

const Cases<ops::ColumnGate> column_gate(reference, [](CaseList<ops::ColumnGate>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    cases.add(fmt::format("{} {}", name_of(type), f.str()), [=](Tensors& t) { return make(t, f, type); },
              {.cpu = {2e-6}});
  });
  for (const bool silu : {false, true})
    cases.gradient(
        silu ? "silu [2, 2, 2, 3]" : "[2, 2, 2, 3]",
        [=](Tensors& t) {
          return make(t, {{2, 2, 2, 3}, 0, 0, silu}, DType::f32);
        },
        [](Tensors& t, const ops::ColumnGate& op) {
          const Shape s = op.x.shape();
          const Tensor dy = t.in(s, DType::f32), dx = t.out(s), dz = t.out(s);
          return Backward{ops::ColumnGateGrad{dy, op.x, op.z, dx, dz, 0, op.silu},
                          {op.y, dy, {{op.x, dx}, {op.z, dz}}}};
        });
  cases.timed("2 x 512", [](Tensors& t) { return make(t, kBench, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmall, DType::bf16); });
  cases.huge("8 x 1024", [](Tensors& t) { return make(t, kHuge, DType::bf16); });
});

const Cases<ops::ColumnGateGrad> column_gate_grad(reference, [](CaseList<ops::ColumnGateGrad>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    cases.add(fmt::format("{} {}", name_of(type), f.str()), [=](Tensors& t) { return make_grad(t, f, type); },
              {.cpu = {2e-6}});
  });
  cases.timed("2 x 512", [](Tensors& t) { return make_grad(t, kBench, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, kSmall, DType::bf16); });
  cases.huge("8 x 1024", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
