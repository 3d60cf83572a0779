#include "engine/ops/bias_add.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::BiasAdd& op, Doubles& v) {
  const Values &x = v[op.x], &bias = v[op.bias];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] + bias[i % bias.size()];
}

ops::BiasAdd make(Tensors& t, const Shape& shape, DType type) {
  const Tensor x = t.in(shape, type), bias = t.in({shape.cols()}, type);
  return {x, bias, t.over({x})};
}

void reference(const ops::BiasGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dbias = v.out(op.dbias);
  for (std::size_t i = 0; i < dy.size(); ++i) dbias[i % dbias.size()] += dy[i];
}

ops::BiasGrad make_grad(Tensors& t, const Shape& shape, DType type, DType sum) {
  const Tensor dy = t.in(shape, type);
  return {dy, t.inout({shape.cols()}, sum)};
}

const Cases<ops::BiasAdd> bias_add(reference, [](CaseList<ops::BiasAdd>& cases) {
  for_types_and(kRows, [&](DType type, const Shape& s) {
    cases.add(label(type, s), [=](Tensors& t) { return make(t, s, type); }, {.kernel = kExact});
  });
  for (const DType type : kFloatTypes)
    cases.add(label(type, {0, 4}), [=](Tensors& t) { return make(t, {0, 4}, type); });
  for_types_and(kLargeRows, [&](DType type, const Shape& s) {
    cases.unemulated(label(type, s), [=](Tensors& t) { return make(t, s, type); });
  });
  cases.gradient(
      "[3, 5]",
      [](Tensors& t) {
        return make(t, {3, 5}, DType::f32);
      },
      [](Tensors& t, const ops::BiasAdd& op) {
        const ops::BiasGrad grad = make_grad(t, {3, 5}, DType::f32, DType::f32);
        return Backward{grad, {op.y, grad.dy, {{op.bias, grad.dbias}}}};
      });
  cases.timed("ffn", [](Tensors& t) { return make(t, kFfn, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmallHidden, DType::bf16); });
  cases.huge("ffn", [](Tensors& t) { return make(t, kHugeFfn, DType::bf16); });
  cases.huge("one long sample", [](Tensors& t) { return make(t, kLongHidden, DType::f32); });
});

const Cases<ops::BiasGrad> bias_grad(reference, [](CaseList<ops::BiasGrad>& cases) {
  const auto add = [&](DType type, DType sum, const Shape& s, bool emulated) {
    const std::string name = fmt::format("{} into {}", label(type, s), name_of(sum));
    const auto made = [=](Tensors& t) { return make_grad(t, s, type, sum); };
    const Within within{.cpu = {1e-4}, .kernel = {2e-5, 4e-6}};
    emulated ? cases.add(name, made, within) : cases.unemulated(name, made, within);
  };
  for (const DType type : kFloatTypes)
    for (const DType sum : sum_types(type)) {
      for (const Shape& s : kRows) add(type, sum, s, true);
      for (const Shape& s : {Shape{0, 4}, Shape{50, 33}, Shape{50, 1027}, Shape{333, 31}, Shape{333, 64}})
        add(type, sum, s, true);
      for (const Shape& s : kLargeRows) add(type, sum, s, false);
      for (const Shape& s : {Shape{131, 1500}, Shape{4000, 3}}) add(type, sum, s, false);
    }
  cases.timed("ffn", [](Tensors& t) { return make_grad(t, kFfn, DType::f32, DType::f32); });
  cases.enqueued(2, [](Tensors& t) { return make_grad(t, kSmallHidden, DType::bf16, DType::f32); });
  cases.huge("ffn", [](Tensors& t) { return make_grad(t, kHugeFfn, DType::bf16, DType::f32); });
  cases.huge("one long sample", [](Tensors& t) { return make_grad(t, kLongHidden, DType::f32, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
