#include "engine/ops/swiglu.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

double normal(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

// Of a gate, and its slope.
double value_of(ops::Gate gate, double z) {
  const double u = std::sqrt(2 / std::acos(-1.0)) * (z + 0.044715 * z * z * z);
  switch (gate) {
    case ops::Gate::silu:
      return z * sigmoid(z);
    case ops::Gate::gelu:
      return 0.5 * z * (1 + std::tanh(u));
    case ops::Gate::gelu_erf:
      return z * normal(z);
    case ops::Gate::relu:
      return std::max(0.0, z);
    case ops::Gate::clamped:
      return std::min(z, 7.0) * sigmoid(1.702 * std::min(z, 7.0));
  }
  return 0;
}
double slope_of(ops::Gate gate, double z) {
  if (gate == ops::Gate::relu) return z > 0 ? 1 : 0;
  if (gate == ops::Gate::clamped && z > 7) return 0;
  if (gate == ops::Gate::clamped) return sigmoid(1.702 * z) * (1 + 1.702 * z * (1 - sigmoid(1.702 * z)));
  if (gate == ops::Gate::silu) return sigmoid(z) + z * sigmoid(z) * (1 - sigmoid(z));
  if (gate == ops::Gate::gelu_erf) return normal(z) + z * std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
  const double root = std::sqrt(2 / std::acos(-1.0)), u = root * (z + 0.044715 * z * z * z), t = std::tanh(u);
  return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * root * (1 + 3 * 0.044715 * z * z);
}

// What an up becomes, and its slope.
double up_of(ops::Gate gate, double u) {
  return gate == ops::Gate::clamped ? std::clamp(u, -7.0, 7.0) + 1 : u;
}
double up_slope(ops::Gate gate, double u) {
  return gate == ops::Gate::clamped && std::abs(u) > 7 ? 0 : 1;
}

constexpr std::pair<ops::Gate, const char*> kOtherGates[] = {{ops::Gate::gelu, "gelu"},
                                                             {ops::Gate::gelu_erf, "gelu_erf"},
                                                             {ops::Gate::relu, "relu"},
                                                             {ops::Gate::clamped, "clamped"}};

// Gate (part 0) and up (part 1) of output i.
template <class Op>
double pair_of(const Doubles& v, const Op& op, std::size_t i, std::size_t part) {
  if (op.up) return v[part == 0 ? op.x : op.up][i];
  const Tensor &x = op.x, &bias = op.bias;
  const std::size_t at = 2 * i + part;
  return v[x][at] + (bias ? v[bias][at % v[bias].size()] : 0);
}

void reference(const ops::SwiGlu& op, Doubles& v) {
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double gate = pair_of(v, op, i, 0);
    y[i] = value_of(op.gate, gate) * up_of(op.gate, pair_of(v, op, i, 1));
    if (op.weights) y[i] *= v[op.weights][i / static_cast<std::size_t>(op.y.shape().cols())];
  }
}

Shape pairs(const Shape& s) {
  Shape wide = s;
  wide[-1] *= 2;
  return wide;
}

ops::SwiGlu make(Tensors& t, const Shape& s, DType type, bool bias) {
  const Tensor x = t.in(pairs(s), type, -4, 4);
  return {x, bias ? t.in({2 * s.cols()}, type) : Tensor(), t.out(s, type)};
}
ops::SwiGlu make_weighted(Tensors& t, const Shape& s, DType type) {
  ops::SwiGlu op = make(t, s, type, false);
  op.weights = t.in({s.rows(), 1}, DType::f32);
  return op;
}

ops::SwiGlu make_apart(Tensors& t, const Shape& s, DType type) {
  const Tensor gate = t.in(s, type, -4, 4), up = t.in(s, type, -4, 4);
  return {gate, Tensor(), t.out(s, type), Tensor(), up};
}

void reference(const ops::SwiGluGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dx = v.out(op.dx);
  const auto cols = static_cast<std::size_t>(op.dy.shape().cols());
  if (op.weights) v.out(op.dweights).assign(v[op.weights].size(), 0);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const double gate = pair_of(v, op, i, 0), up = pair_of(v, op, i, 1);
    dx[2 * i] = dy[i] * up_of(op.gate, up) * slope_of(op.gate, gate);
    dx[2 * i + 1] = dy[i] * value_of(op.gate, gate) * up_slope(op.gate, up);
    if (!op.weights) continue;
    v.out(op.dweights)[i / cols] += dy[i] * value_of(op.gate, gate) * up_of(op.gate, up);
    for (const std::size_t part : {0, 1}) dx[2 * i + part] *= v[op.weights][i / cols];
  }
}

ops::SwiGluGrad make_grad(Tensors& t, const Shape& s, DType type, bool bias) {
  const Tensor dy = t.in(s, type), x = t.in(pairs(s), type, -4, 4);
  return {dy, x, bias ? t.in({2 * s.cols()}, type) : Tensor(), t.over({x})};
}

ops::SwiGluGrad make_weighted_grad(Tensors& t, const Shape& s, DType type) {
  ops::SwiGluGrad op = make_grad(t, s, type, false);
  op.weights = t.in({s.rows(), 1}, DType::f32);
  op.dweights = t.out({s.rows(), 1});
  return op;
}

ops::SwiGluGrad make_apart_grad(Tensors& t, const Shape& s, DType type) {
  const Tensor dy = t.in(s, type), gate = t.in(s, type, -4, 4), up = t.in(s, type, -4, 4);
  return {dy, gate, Tensor(), t.out(pairs(s), type), Tensor(), Tensor(), up};
}

std::string name(DType type, const Shape& s, bool bias) {
  return label(type, s) + (bias ? " with a bias" : "");
}

const Cases<ops::SwiGlu> swiglu(reference, [](CaseList<ops::SwiGlu>& cases) {
  for (const bool bias : {false, true}) {
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(name(type, s, bias), [=](Tensors& t) { return make(t, s, type, bias); }, {.cpu = {2e-6}});
    });
    for_types_and(kLargeRows, [&](DType type, const Shape& s) {
      cases.unemulated(name(type, s, bias), [=](Tensors& t) { return make(t, s, type, bias); }, {.cpu = {2e-6}});
    });
    cases.gradient(
        bias ? "[3, 5] with a bias" : "[3, 5]",
        [=](Tensors& t) {
          return make(t, {3, 5}, DType::f32, bias);
        },
        [](Tensors& t, const ops::SwiGlu& op) {
          const ops::SwiGluGrad grad{t.in({3, 5}, DType::f32), op.x, op.bias, t.out({3, 10})};
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
        });
  }
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(label(type, s) + " weighted", [=](Tensors& t) { return make_weighted(t, s, type); }, {.cpu = {2e-6}});
  });
  cases.gradient(
      "[3, 5] weighted",
      [](Tensors& t) {
        return make_weighted(t, {3, 5}, DType::f32);
      },
      [](Tensors& t, const ops::SwiGlu& op) {
        const ops::SwiGluGrad grad{t.in({3, 5}, DType::f32), op.x, op.bias, t.out({3, 10}), op.weights, t.out({3, 1})};
        return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}, {op.weights, grad.dweights}}}};
      });
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(label(type, s) + " apart", [=](Tensors& t) { return make_apart(t, s, type); }, {.cpu = {2e-6}});
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(label(type, s) + " apart", [=](Tensors& t) { return make_apart(t, s, type); }, {.cpu = {2e-6}});
  });
  for (const auto& [gate, which] : kOtherGates) {
    const auto of = [gate = gate](ops::SwiGlu op) {
      op.gate = gate;
      return op;
    };
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(fmt::format("{} {}", which, label(type, s)), [=](Tensors& t) { return of(make(t, s, type, true)); },
                {.cpu = {4e-6}});
      cases.add(fmt::format("{} {} weighted", which, label(type, s)),
                [=](Tensors& t) { return of(make_weighted(t, s, type)); }, {.cpu = {4e-6}});
      cases.add(fmt::format("{} {} apart", which, label(type, s)),
                [=](Tensors& t) { return of(make_apart(t, s, type)); }, {.cpu = {4e-6}});
    });
    cases.gradient(
        fmt::format("{} [3, 5] weighted", which),
        [=](Tensors& t) {
          return of(make_weighted(t, {3, 5}, DType::f32));
        },
        [gate = gate](Tensors& t, const ops::SwiGlu& op) {
          ops::SwiGluGrad grad{t.in({3, 5}, DType::f32), op.x, op.bias, t.out({3, 10}), op.weights, t.out({3, 1})};
          grad.gate = gate;
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}, {op.weights, grad.dweights}}}};
        },
        {1e-4, 2e-4});
  }
  // Gates far from zero: e^-gate is 0 or infinity.
  for (const DType type : kFloatTypes)
    cases.add(fmt::format("{} far from zero", name_of(type)), [=](Tensors& t) {
      const Tensor x = t.values({1, 8}, type, {-200, 1, -30, 1, 30, 1, 200, 1});
      return ops::SwiGlu{x, Tensor(), t.out({1, 4}, type)};
    });
  // Gates and ups on both sides of the limits.
  for (const DType type : kFloatTypes)
    cases.add(fmt::format("{} clamped beyond its limits", name_of(type)), [=](Tensors& t) {
      const Tensor x = t.values({1, 12}, type, {-200, -9, 6.5, -7, 7, 7, 7.5, 3, 9, 200, -8, -6.5});
      return ops::SwiGlu{x, Tensor(), t.out({1, 6}, type), Tensor(), Tensor(), ops::Gate::clamped};
    });
  cases.timed("ffn", [](Tensors& t) { return make(t, {kBenchTokens, 1, 2816}, DType::f32, false); });
  cases.timed("ffn bf16", [](Tensors& t) { return make(t, {kBenchTokens, 1, 2816}, DType::bf16, false); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16, false); });
  cases.huge("ffn", [](Tensors& t) { return make(t, kHugeHidden, DType::bf16, false); });
});

const Cases<ops::SwiGluGrad> swiglu_grad(reference, [](CaseList<ops::SwiGluGrad>& cases) {
  for (const bool bias : {false, true}) {
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(name(type, s, bias), [=](Tensors& t) { return make_grad(t, s, type, bias); }, {.cpu = {4e-6}});
    });
    for_types_and(kLargeRows, [&](DType type, const Shape& s) {
      cases.unemulated(name(type, s, bias), [=](Tensors& t) { return make_grad(t, s, type, bias); }, {.cpu = {4e-6}});
    });
  }
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(label(type, s) + " apart", [=](Tensors& t) { return make_apart_grad(t, s, type); }, {.cpu = {4e-6}});
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(label(type, s) + " apart", [=](Tensors& t) { return make_apart_grad(t, s, type); },
                     {.cpu = {4e-6}});
  });
  for (const auto& [gate, which] : kOtherGates) {
    const auto of = [gate = gate](ops::SwiGluGrad op) {
      op.gate = gate;
      return op;
    };
    for_types_and(kRows, [&](DType type, const Shape& s) {
      cases.add(fmt::format("{} {}", which, label(type, s)),
                [=](Tensors& t) { return of(make_grad(t, s, type, true)); }, {.cpu = {1e-5}, .kernel = {1e-5, 4e-6}});
      cases.add(fmt::format("{} {} weighted", which, label(type, s)),
                [=](Tensors& t) { return of(make_weighted_grad(t, s, type)); },
                {.cpu = {4e-5}, .kernel = {4e-5, 8e-6}, .gpu = 4});
    });
  }
  for (const DType type : kFloatTypes)
    cases.add(fmt::format("{} clamped beyond its limits", name_of(type)),
              [=](Tensors& t) {
                const Tensor x = t.values({1, 12}, type, {-200, -9, 6.5, -7, 7, 7, 7.5, 3, 9, 200, -8, -6.5});
                ops::SwiGluGrad op{t.in({1, 6}, type), x, Tensor(), t.out({1, 12}, type)};
                op.gate = ops::Gate::clamped;
                return op;
              },
              {.cpu = {1e-5}, .kernel = {1e-5, 4e-6}});
  const Within weighted{.cpu = {2e-5}, .kernel = {2e-5, 4e-6}, .gpu = 4};
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(
        label(type, s) + " weighted", [=](Tensors& t) { return make_weighted_grad(t, s, type); }, weighted);
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(
        label(type, s) + " weighted", [=](Tensors& t) { return make_weighted_grad(t, s, type); }, weighted);
  });
  cases.timed("ffn", [](Tensors& t) { return make_grad(t, {kBenchTokens, 1, 2816}, DType::f32, false); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16, false); });
  cases.huge("ffn", [](Tensors& t) { return make_grad(t, kHugeHidden, DType::bf16, false); });
});

}  // namespace
}  // namespace mbench::test
