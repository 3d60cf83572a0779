#include "engine/ops/dropout.h"
#include "test/ops/cases.h"
#include "test/ops/dropped.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

void reference(const ops::Dropout& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& y = v.out(op.y);
  const ops::DropoutSpec dropout = in_key(op.dropout, v);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double f = dropout_factor(dropout, op.map, op.x.shape(), i);
    y[i] = f == 0 ? 0 : x[i] * f;
    if (op.mask) v.out(op.mask)[i] = f != 0;
  }
}

ops::Dropout make(Tensors& t, const DropoutPlace& p, DType type, float share, bool mask) {
  const Tensor x = t.in(p.shape, type, 0.5, 1.5);
  return {x, t.over({x}), mask ? t.out(p.shape, DType::u8) : Tensor(), {share, kDropoutKey}, p.map};
}

void reference(const ops::DropoutGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dx = v.out(op.dx);
  const ops::DropoutSpec dropout = in_key(op.dropout, v);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double f = op.mask ? v[op.mask][i] / (1 - static_cast<double>(op.dropout.p))
                             : dropout_factor(dropout, op.map, op.dy.shape(), i);
    dx[i] = dy[i] * f;
  }
}

ops::DropoutGrad make_grad(Tensors& t, const DropoutPlace& p, DType type, float share, bool mask) {
  const Tensor dy = t.in(p.shape, type);
  return {dy, t.over({dy}), mask ? t.mask(p.shape, 0.8) : Tensor(), {share, kDropoutKey}, p.map};
}

// The same, of a step in memory.
template <class Op>
Op at_step(Tensors& t, Op op) {
  op.dropout.step = t.values({1}, DType::i64, {70001});
  return op;
}

const DropoutPlace kProbabilities{kScores, ops::HeadMap{kBenchHeads, 0, 0}},
    kHugeProbabilities{kHugeScores, ops::HeadMap{96, 0, 0}};

const Cases<ops::Dropout> dropout(reference, [](CaseList<ops::Dropout>& cases) {
  const Within within{.cpu = {0}, .kernel = kExact};
  for (const float share : {0.0f, 0.1f, 0.75f, 1.0f})
    for (const bool mask : {false, true}) {
      for_types_and(kDropoutPlaces, [&](DType type, const DropoutPlace& p) {
        cases.add(
            dropout_label(type, p, share, mask), [=](Tensors& t) { return make(t, p, type, share, mask); }, within);
      });
      if (share == 0.1f)
        for_types_and(kLargeDropoutPlaces, [&](DType type, const DropoutPlace& p) {
          cases.unemulated(
              dropout_label(type, p, share, mask), [=](Tensors& t) { return make(t, p, type, share, mask); }, within);
        });
    }
  for (const DropoutPlace& p : {kDropoutPlaces[1], kDropoutPlaces[5]})
    cases.add(
        dropout_label(DType::bf16, p, 0.3f, true) + ", its step in memory",
        [=](Tensors& t) { return at_step(t, make(t, p, DType::bf16, 0.3f, true)); }, within);
  for (const bool mask : {false, true})
    cases.gradient(
        mask ? "from the mask" : "drawn again",
        [=](Tensors& t) { return make(t, kDropoutPlaces[0], DType::f32, 0.3f, mask); },
        [](Tensors& t, const ops::Dropout& op) {
          const Shape& s = op.x.shape();
          const ops::DropoutGrad grad{t.in(s, DType::f32), t.out(s), op.mask, op.dropout, op.map};
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
        });
  cases.timed("hidden with a mask", [](Tensors& t) { return make(t, kDroppedHidden, DType::f32, 0.1f, true); });
  cases.timed("scores", [](Tensors& t) { return make(t, kProbabilities, DType::f32, 0.1f, false); });
  for (const DropoutPlace& p : {kHugeDroppedHidden, kHugeProbabilities})
    cases.huge(p.shape.str(), [=](Tensors& t) { return make(t, p, DType::bf16, 0.1f, true); });
});

const Cases<ops::DropoutGrad> dropout_grad(reference, [](CaseList<ops::DropoutGrad>& cases) {
  const Within within{.cpu = {1e-7}, .kernel = kExact};
  for (const bool mask : {false, true}) {
    for (const float share : {0.0f, 0.25f})
      for_types_and(kDropoutPlaces, [&](DType type, const DropoutPlace& p) {
        cases.add(
            dropout_label(type, p, share, mask), [=](Tensors& t) { return make_grad(t, p, type, share, mask); },
            within);
      });
    for_types_and(kLargeDropoutPlaces, [&](DType type, const DropoutPlace& p) {
      cases.unemulated(
          dropout_label(type, p, 0.1f, mask), [=](Tensors& t) { return make_grad(t, p, type, 0.1f, mask); }, within);
    });
  }
  for (const DropoutPlace& p : {kDropoutPlaces[1], kDropoutPlaces[5]})
    cases.add(
        dropout_label(DType::f32, p, 0.3f, false) + ", its step in memory",
        [=](Tensors& t) { return at_step(t, make_grad(t, p, DType::f32, 0.3f, false)); }, within);
  cases.timed("hidden, drawn again", [](Tensors& t) { return make_grad(t, kDroppedHidden, DType::f32, 0.1f, false); });
  for (const DropoutPlace& p : {kHugeDroppedHidden, kHugeProbabilities})
    cases.huge(p.shape.str(), [=](Tensors& t) { return make_grad(t, p, DType::bf16, 0.1f, false); });
});

}  // namespace
}  // namespace mbench::test
