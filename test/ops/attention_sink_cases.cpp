#include "engine/ops/attention_sink.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// [seq, batch, heads, v_dim]
const Shape kOutputs[] = {{1, 1, 1, 1}, {3, 2, 5, 7}, {33, 1, 2, 64}, {5, 3, 4, 33}};

struct Place {
  std::size_t head, lse;
};
Place place_of(const Shape& s, std::size_t row) {
  const auto heads = static_cast<std::size_t>(s[2]), batch = static_cast<std::size_t>(s[1]),
             seq = static_cast<std::size_t>(s[0]);
  const std::size_t head = row % heads, sample = row / heads % batch, q = row / heads / batch;
  return {head, (sample * heads + head) * seq + q};
}

void reference(const ops::AttentionSink& op, Doubles& v) {
  const Shape& s = op.out.shape();
  const auto width = static_cast<std::size_t>(s[3]);
  const Values &out = v[op.out], &lse = v[op.lse], &sinks = v[op.sinks];
  for (std::size_t row = 0; row < out.size() / width; ++row) {
    const Place at = place_of(s, row);
    const double all = std::log(std::exp(lse[at.lse]) + std::exp(sinks[at.head]));
    v.out(op.lse)[at.lse] = all;
    for (std::size_t i = 0; i < width; ++i)
      v.out(op.out)[row * width + i] = out[row * width + i] * std::exp(lse[at.lse] - all);
  }
}

void reference(const ops::AttentionSinkGrad& op, Doubles& v) {
  const Shape& s = op.out.shape();
  const auto width = static_cast<std::size_t>(s[3]);
  const Values &out = v[op.out], &dout = v[op.dout], &lse = v[op.lse], &sinks = v[op.sinks];
  Values& dsinks = v.out(op.dsinks);
  for (std::size_t row = 0; row < out.size() / width; ++row) {
    const Place at = place_of(s, row);
    double dot = 0;
    for (std::size_t i = 0; i < width; ++i) dot += out[row * width + i] * dout[row * width + i];
    dsinks[at.head] -= std::exp(sinks[at.head] - lse[at.lse]) * dot;
  }
}

ops::AttentionSink make(Tensors& t, const Shape& s, DType type) {
  const Tensor out = t.inout(s, type), lse = t.inout({s[1], s[2], s[0]}, DType::f32, -2, 3),
               sinks = t.in({s[2]}, type, -2, 2);
  return {out, lse, sinks};
}

ops::AttentionSinkGrad make_grad(Tensors& t, const Shape& s, DType type, DType sum) {
  const Tensor dout = t.in(s, type), out = t.in(s, type), lse = t.in({s[1], s[2], s[0]}, DType::f32, 1, 3),
               sinks = t.in({s[2]}, type, -2, 2), dsinks = t.inout({s[2]}, sum);
  return {dout, out, lse, sinks, dsinks};
}

const Shape kBench{kBenchTokens, 1, kBenchHeads, kBenchHeadDim}, kHuge{65536, 8, 96, 128};

const Cases<ops::AttentionSink> attention_sink(reference, [](CaseList<ops::AttentionSink>& cases) {
  for_types_and(kOutputs, [&](DType type, const Shape& s) {
    cases.add(label(type, s), [=](Tensors& t) { return make(t, s, type); }, {.cpu = {2e-6}, .kernel = {2e-6, 4e-6}});
  });
  // The gradient of the sink alone: that of the output is attention's, at what stands here.
  cases.gradient(
      "[3, 2, 5, 7], of sinks",
      [](Tensors& t) {
        const Shape s{3, 2, 5, 7};
        const Tensor out = t.inout(s, DType::f32), lse = t.inout({2, 5, 3}, DType::f32, -1, 1),
                     sinks = t.in({5}, DType::f32);
        return ops::AttentionSink{out, lse, sinks};
      },
      [](Tensors& t, const ops::AttentionSink& op) {
        const ops::AttentionSinkGrad grad{t.in(op.out.shape(), DType::f32), op.out, op.lse, op.sinks,
                                          t.inout({5}, DType::f32)};
        return Backward{grad, {op.out, grad.dout, {{op.sinks, grad.dsinks}}}};
      });
  cases.timed("heads", [](Tensors& t) { return make(t, kBench, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, {16, 1, 4, 64}, DType::bf16); });
  cases.huge("heads", [](Tensors& t) { return make(t, kHuge, DType::bf16); });
});

const Cases<ops::AttentionSinkGrad> attention_sink_grad(reference, [](CaseList<ops::AttentionSinkGrad>& cases) {
  for_types_and(kOutputs, [&](DType type, const Shape& s) {
    for (const DType sum : sum_types(type))
      cases.add(fmt::format("{} into {}", label(type, s), name_of(sum)),
                [=](Tensors& t) { return make_grad(t, s, type, sum); },
                {.cpu = {1e-5}, .kernel = {2e-5, 1e-5}, .gpu = 4});
  });
  cases.timed("heads", [](Tensors& t) { return make_grad(t, kBench, DType::f32, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make_grad(t, {16, 1, 4, 64}, DType::bf16, DType::f32); });
  cases.huge("heads", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
