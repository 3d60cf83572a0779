#include "engine/ops/add.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Add& op, Doubles& v) {
  const Values &a = v[op.a], &b = v[op.b];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = a[i] + b[i];
}

ops::Add make(Tensors& t, const Shape& shape, DType type) {
  const Tensor a = t.in(shape, type), b = t.in(shape, type);
  return {a, b, t.over({a, b})};
}

const Cases<ops::Add> add(reference, [](CaseList<ops::Add>& cases) {
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(label(type, Shape{n}), [=](Tensors& t) { return make(t, {n}, type); }, {.kernel = kExact});
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(label(type, s), [=](Tensors& t) { return make(t, s, type); });
  });
  for (const DType added : {DType::bf16, DType::f16})
    cases.add(fmt::format("f32 [1027] and {}", name_of(added)),
              [=](Tensors& t) {
                const Tensor a = t.in({1027}, DType::f32), b = t.in({1027}, added);
                return ops::Add{a, b, t.over({a})};
              },
              {.kernel = kExact});
  cases.add("of a tensor to itself", [](Tensors& t) {
    const Tensor a = t.inout({1025}, DType::bf16);
    return ops::Add{a, a, a};
  });
  cases.timed("hidden", [](Tensors& t) { return make(t, kHidden, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16); });
  cases.huge("hidden", [](Tensors& t) { return make(t, kHugeHidden, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
