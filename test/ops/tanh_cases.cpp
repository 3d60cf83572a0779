#include "engine/ops/tanh.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Tanh& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::tanh(x[i]);
}

ops::Tanh make(Tensors& t, const Shape& shape, DType type, double range = 5) {
  const Tensor x = t.in(shape, type, -range, range);
  return {x, t.over({x})};
}

void reference(const ops::TanhGrad& op, Doubles& v) {
  const Values &dy = v[op.dy], &y = v[op.y];
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
}

ops::TanhGrad make_grad(Tensors& t, const Shape& shape, DType type) {
  const Tensor dy = t.in(shape, type), y = t.in(shape, type);
  return {dy, y, t.over({dy})};
}

const Cases<ops::Tanh> tanh(reference, [](CaseList<ops::Tanh>& cases) {
  const auto within = [](DType type) {
    return Within{.cpu = {type == DType::f16 ? 1e-6 : 1e-12}, .kernel = {1e-6, 4e-6}};
  };
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(
        label(type, Shape{n}), [=](Tensors& t) { return make(t, {n}, type); }, within(type));
  });
  for_types_and(std::vector{1e-3, 1.0, 20.0}, [&](DType type, double range) {
    cases.unemulated(
        fmt::format("{} within {}", label(type, {3, 701}), range),
        [=](Tensors& t) {
          return make(t, {3, 701}, type, range);
        },
        within(type));
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(label(type, s), [=](Tensors& t) { return make(t, s, type); });
  });
  cases.add("the ends of its range",
            [](Tensors& t) {
              const Tensor x = t.values({5}, DType::f32, {-INFINITY, INFINITY, 0.0, 1e30, std::nan("")});
              return ops::Tanh{x, t.over({x})};
            },
            {.cpu = kExact, .kernel = kExact});
  cases.gradient(
      "[7]", [](Tensors& t) { return make(t, {7}, DType::f32, 2); },
      [](Tensors& t, const ops::Tanh& op) {
        const ops::TanhGrad grad{t.in({7}, DType::f32), op.y, t.out({7})};
        return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
      });
  cases.timed("hidden", [](Tensors& t) { return make(t, kHidden, DType::f32); });
  cases.huge("hidden", [](Tensors& t) { return make(t, kHugeHidden, DType::bf16); });
});

const Cases<ops::TanhGrad> tanh_grad(reference, [](CaseList<ops::TanhGrad>& cases) {
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(label(type, Shape{n}), [=](Tensors& t) { return make_grad(t, {n}, type); }, {.cpu = {2e-7}});
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(label(type, s), [=](Tensors& t) { return make_grad(t, s, type); });
  });
  cases.timed("hidden", [](Tensors& t) { return make_grad(t, kHidden, DType::f32); });
  cases.huge("hidden", [](Tensors& t) { return make_grad(t, kHugeHidden, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
