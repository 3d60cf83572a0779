#include "engine/ops/bias_dropout_add.h"
#include "test/ops/cases.h"
#include "test/ops/dropped.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::BiasDropoutAdd& op, Doubles& v) {
  const Values &x = v[op.x], &residual = v[op.residual];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double f = dropout_factor(op.dropout, op.map, op.x.shape(), i);
    y[i] = residual[i] + static_cast<double>(op.scale) * f * (x[i] + (op.bias ? v[op.bias][i % v[op.bias].size()] : 0));
    if (op.mask) v.out(op.mask)[i] = f != 0;
  }
}

ops::BiasDropoutAdd make(Tensors& t, const DropoutPlace& p, DType type, float share, bool bias, bool mask) {
  const Tensor x = t.in(p.shape, type), b = bias ? t.in({p.shape.cols()}, type) : Tensor(),
               residual = t.in(p.shape, type);
  return {x,
          b,
          residual,
          t.over({x}),
          mask ? t.out(p.shape, DType::u8) : Tensor(),
          {share, kDropoutKey},
          std::get<ops::HiddenMap>(p.map)};
}

const Cases<ops::BiasDropoutAdd> bias_dropout_add(reference, [](CaseList<ops::BiasDropoutAdd>& cases) {
  for (const bool bias : {false, true})
    for (const bool mask : {false, true}) {
      const std::string with = bias ? " and a bias" : "";
      for (const float share : {0.0f, 0.25f})
        for_types_and(kDropoutPlaces, [&](DType type, const DropoutPlace& p) {
          if (p.shape.rank() != 3) return;
          cases.add(dropout_label(type, p, share, mask) + with,
                    [=](Tensors& t) { return make(t, p, type, share, bias, mask); }, {.kernel = {1e-6, 4e-6}});
        });
      for (const DType type : kFloatTypes)
        cases.unemulated(dropout_label(type, kLargeDropoutPlaces[0], 0.1f, mask) + with,
                         [=](Tensors& t) { return make(t, kLargeDropoutPlaces[0], type, 0.1f, bias, mask); });
    }
  for (const float share : {0.0f, 0.25f})
    for_types_and(kDropoutPlaces, [&](DType type, const DropoutPlace& p) {
      if (p.shape.rank() != 3) return;
      cases.add(dropout_label(type, p, share, false) + ", scaled",
                [=](Tensors& t) {
                  ops::BiasDropoutAdd op = make(t, p, type, share, true, false);
                  op.scale = 0.22f;
                  return op;
                },
                {.kernel = {1e-6, 4e-6}});
    });
  cases.timed("hidden", [](Tensors& t) { return make(t, kDroppedHidden, DType::f32, 0.1f, true, false); });
  cases.enqueued(1, [](Tensors& t) {
    return make(t, {kSmallHidden, ops::HiddenMap{64, 0, 0}}, DType::bf16, 0.1f, true, false);
  });
  cases.huge("hidden", [](Tensors& t) { return make(t, kHugeDroppedHidden, DType::bf16, 0.1f, true, false); });
});

}  // namespace
}  // namespace mbench::test
