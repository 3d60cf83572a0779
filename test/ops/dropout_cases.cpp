#include "engine/ops/bias_dropout_add.h"
#include "engine/ops/dropout.h"
#include "test/ops/cases.h"
#include "test/ops/dropped.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

const RngKey kKey{0x123456789ABCDEFull, 77, 5};

struct Place {
  Shape shape;
  ops::ElementMap map;
};

// Rows that begin at any of a Philox block's words, of the whole tensor and of parts of one.
const Place kPlaces[] = {
    {{3, 2, 7}, ops::HiddenMap{11, 4, 3}},         {{2, 3, 1027}, ops::HiddenMap{5, 0, 1000001}},
    {{4, 3, 64}, ops::HiddenMap{9, 3, 1}},         {{1, 1, 1}, ops::HiddenMap{1, 0, 0}},
    {{1, 2, 2048}, ops::HiddenMap{4096, 17, 2}},   {{2, 3, 37, 37}, ops::HeadMap{8, 2, 1}},
    {{1, 2, 64, 64}, ops::HeadMap{16, 3, 1 << 20}}};
const Place kLargePlaces[] = {{{16, 2, 1024}, ops::HiddenMap{64, 7, 3}},
                              {{1, 4, 128, 128}, ops::HeadMap{16, 4, 2}}};

double factor(const ops::DropoutSpec& dropout, const ops::ElementMap& map, const Shape& shape,
              std::size_t i) {
  return std::visit(
      [&](const auto& m) { return dropout_factor(dropout, m, shape, static_cast<std::int64_t>(i)); }, map);
}

void reference(const ops::Dropout& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double f = factor(op.dropout, op.map, op.x.shape(), i);
    y[i] = f == 0 ? 0 : x[i] * f;
    if (op.mask) v.out(op.mask)[i] = f != 0;
  }
}

ops::Dropout make(Tensors& t, const Place& p, DType type, float share, bool mask) {
  const Tensor x = t.in(p.shape, type, 0.5, 1.5);
  return {x, t.over({x}), mask ? t.out(p.shape, DType::u8) : Tensor(), {share, kKey}, p.map};
}

void reference(const ops::DropoutGrad& op, Doubles& v) {
  const Values& dy = v[op.dy];
  Values& dx = v.out(op.dx);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const double f = op.mask ? v[op.mask][i] / (1 - static_cast<double>(op.dropout.p))
                             : factor(op.dropout, op.map, op.dy.shape(), i);
    dx[i] = dy[i] * f;
  }
}

ops::DropoutGrad make_grad(Tensors& t, const Place& p, DType type, float share, bool mask) {
  const Tensor dy = t.in(p.shape, type);
  return {dy, t.over({dy}), mask ? t.mask(p.shape, 0.8) : Tensor(), {share, kKey}, p.map};
}

void reference(const ops::BiasDropoutAdd& op, Doubles& v) {
  const Values &x = v[op.x], &residual = v[op.residual];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double f = factor(op.dropout, op.map, op.x.shape(), i);
    y[i] = residual[i] + f * (x[i] + (op.bias ? v[op.bias][i % v[op.bias].size()] : 0));
    if (op.mask) v.out(op.mask)[i] = f != 0;
  }
}

ops::BiasDropoutAdd make_sum(Tensors& t, const Place& p, DType type, float share, bool bias, bool mask) {
  const Tensor x = t.in(p.shape, type), b = bias ? t.in({p.shape.cols()}, type) : Tensor(),
               residual = t.in(p.shape, type);
  return {x,
          b,
          residual,
          t.over({x}),
          mask ? t.out(p.shape, DType::u8) : Tensor(),
          {share, kKey},
          std::get<ops::HiddenMap>(p.map)};
}

std::string name(DType type, const Place& p, float share, bool mask) {
  return fmt::format("{} p {}{}", label(type, p.shape), share, mask ? " with a mask" : "");
}

const Place kWhole{kHidden, ops::HiddenMap{kBenchTokens, 0, 0}},
    kProbabilities{kScores, ops::HeadMap{kBenchHeads, 0, 0}}, kSmall{kSmallHidden, ops::HiddenMap{64, 0, 0}},
    kHuge{kHugeHidden, ops::HiddenMap{65536, 0, 0}}, kHugeProbabilities{kHugeScores, ops::HeadMap{96, 0, 0}};

const Cases<ops::Dropout> dropout(reference, [](CaseList<ops::Dropout>& cases) {
  const Within within{.cpu = {0}, .kernel = kExact};
  for (const float share : {0.0f, 0.1f, 0.75f, 1.0f})
    for (const bool mask : {false, true}) {
      for_types_and(kPlaces, [&](DType type, const Place& p) {
        cases.add(
            name(type, p, share, mask), [=](Tensors& t) { return make(t, p, type, share, mask); }, within);
      });
      if (share == 0.1f)
        for_types_and(kLargePlaces, [&](DType type, const Place& p) {
          cases.unemulated(
              name(type, p, share, mask), [=](Tensors& t) { return make(t, p, type, share, mask); }, within);
        });
    }
  for (const bool mask : {false, true})
    cases.gradient(
        mask ? "from the mask" : "drawn again",
        [=](Tensors& t) { return make(t, kPlaces[0], DType::f32, 0.3f, mask); },
        [](Tensors& t, const ops::Dropout& op) {
          const Shape& s = op.x.shape();
          const ops::DropoutGrad grad{t.in(s, DType::f32), t.out(s), op.mask, op.dropout, op.map};
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}}}};
        });
  cases.timed("hidden with a mask", [](Tensors& t) { return make(t, kWhole, DType::f32, 0.1f, true); });
  cases.timed("scores", [](Tensors& t) { return make(t, kProbabilities, DType::f32, 0.1f, false); });
  for (const Place& p : {kHuge, kHugeProbabilities})
    cases.huge(p.shape.str(), [=](Tensors& t) { return make(t, p, DType::bf16, 0.1f, true); });
});

const Cases<ops::DropoutGrad> dropout_grad(reference, [](CaseList<ops::DropoutGrad>& cases) {
  const Within within{.cpu = {1e-7}, .kernel = kExact};
  for (const bool mask : {false, true}) {
    for (const float share : {0.0f, 0.25f})
      for_types_and(kPlaces, [&](DType type, const Place& p) {
        cases.add(
            name(type, p, share, mask), [=](Tensors& t) { return make_grad(t, p, type, share, mask); },
            within);
      });
    for_types_and(kLargePlaces, [&](DType type, const Place& p) {
      cases.unemulated(
          name(type, p, 0.1f, mask), [=](Tensors& t) { return make_grad(t, p, type, 0.1f, mask); }, within);
    });
  }
  cases.timed("hidden, drawn again",
              [](Tensors& t) { return make_grad(t, kWhole, DType::f32, 0.1f, false); });
  for (const Place& p : {kHuge, kHugeProbabilities})
    cases.huge(p.shape.str(), [=](Tensors& t) { return make_grad(t, p, DType::bf16, 0.1f, false); });
});

const Cases<ops::BiasDropoutAdd> bias_dropout_add(reference, [](CaseList<ops::BiasDropoutAdd>& cases) {
  for (const bool bias : {false, true})
    for (const bool mask : {false, true}) {
      const std::string with = bias ? " and a bias" : "";
      for (const float share : {0.0f, 0.25f})
        for_types_and(kPlaces, [&](DType type, const Place& p) {
          if (p.shape.rank() != 3) return;
          cases.add(name(type, p, share, mask) + with,
                    [=](Tensors& t) { return make_sum(t, p, type, share, bias, mask); },
                    {.kernel = {1e-6, 4e-6}});
        });
      for (const DType type : kFloatTypes)
        cases.unemulated(name(type, kLargePlaces[0], 0.1f, mask) + with,
                         [=](Tensors& t) { return make_sum(t, kLargePlaces[0], type, 0.1f, bias, mask); });
    }
  cases.timed("hidden", [](Tensors& t) { return make_sum(t, kWhole, DType::f32, 0.1f, true, false); });
  cases.enqueued(1, [](Tensors& t) { return make_sum(t, kSmall, DType::bf16, 0.1f, true, false); });
  cases.huge("hidden", [](Tensors& t) { return make_sum(t, kHuge, DType::bf16, 0.1f, true, false); });
});

}  // namespace
}  // namespace mbench::test
