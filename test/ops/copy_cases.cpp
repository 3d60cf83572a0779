#include "engine/ops/copy.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Copy& op, Doubles& v) {
  const Values& from = v[op.from];
  Values& to = v.out(op.to);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] * op.scale;
}

ops::Copy make(Tensors& t, const Shape& shape, DType from, DType to, float scale) {
  const Tensor x = t.in(shape, from, -8, 8);
  return {x, t.out(shape, to), scale};
}

const Cases<ops::Copy> copy(reference, [](CaseList<ops::Copy>& cases) {
  for (const DType from : kFloatTypes)
    for (const DType to : kFloatTypes) {
      for (const std::int64_t n : {0, 1, 33, 1027})
        for (const float scale : {1.0f, 0.3f, -3.0f}) {
          const bool as_it_is = from == to && scale == 1;
          cases.add(fmt::format("{} to {} [{}] by {}", name_of(from), name_of(to), n, scale),
                    [=](Tensors& t) { return make(t, {n}, from, to, scale); },
                    {.cpu = {as_it_is           ? 0
                             : to == DType::f16 ? 1e-7
                                                : 1e-30,
                             as_it_is ? 0 : 1e-6},
                     .kernel = kExact});
        }
      cases.unemulated(fmt::format("{} to {} [20001]", name_of(from), name_of(to)),
                       [=](Tensors& t) { return make(t, {20001}, from, to, 0.75f); });
    }
  cases.timed("64 MiB", [](Tensors& t) { return make(t, {16 << 20}, DType::f32, DType::f32, 1); });
  cases.timed("f32 to bf16", [](Tensors& t) { return make(t, {16 << 20}, DType::f32, DType::bf16, 1); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16, DType::f32, 1); });
  cases.huge("hidden", [](Tensors& t) { return make(t, kHugeHidden, DType::bf16, DType::f32, 1); });
});

void reference(const ops::Fill& op, Doubles& v) {
  Values& x = v.out(op.x);
  x.assign(x.size(), op.value);
}

ops::Fill make_fill(Tensors& t, const Shape& shape, DType type) {
  return {t.out(shape, type), -0.7f};
}

const Cases<ops::Fill> fill(reference, [](CaseList<ops::Fill>& cases) {
  for_types_and(kLengths, [&](DType type, std::int64_t n) {
    cases.add(label(type, Shape{n}), [=](Tensors& t) { return make_fill(t, {n}, type); }, {.kernel = kExact});
  });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(label(type, s), [=](Tensors& t) { return make_fill(t, s, type); });
  });
  cases.timed("64 MiB", [](Tensors& t) { return make_fill(t, {16 << 20}, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make_fill(t, kSmallHidden, DType::bf16); });
  cases.huge("hidden", [](Tensors& t) { return make_fill(t, kHugeHidden, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
