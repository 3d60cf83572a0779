#include "engine/ops/adam_blockwise.h"
#include "test/ops/cases.h"
#include "test/ops/ranges.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// The nearest value by looking at all of them, the lower of two that are as near.
std::size_t nearest(bool with_sign, double x) {
  std::size_t best = 0;
  for (std::size_t code = 1; code < 256; ++code)
    if (std::fabs(ops::dynamic_value(with_sign, static_cast<int>(code)) - x) <
        std::fabs(ops::dynamic_value(with_sign, static_cast<int>(best)) - x))
      best = code;
  return best;
}

void reference(const ops::AdamBlockwise& op, Doubles& v) {
  constexpr std::size_t kBlock = 256;
  const Values& grad = v[op.grad];
  Values &p = v.out(op.param), &m = v.out(op.m), &v2 = v.out(op.v), &m_scale = v.out(op.m_scale),
         &v_scale = v.out(op.v_scale);
  const double b1 = op.beta1, b2 = op.beta2, t = static_cast<double>(op.step);
  for (std::size_t block = 0; block * kBlock < p.size(); ++block) {
    const std::size_t begin = block * kBlock, end = std::min(p.size(), begin + kBlock);
    Values first, second;
    double most_first = 0, most_second = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double g = static_cast<double>(op.grad_scale) * grad[i];
      first.push_back(b1 * ops::dynamic_value(true, static_cast<int>(m[i])) * m_scale[block] + (1 - b1) * g);
      second.push_back(b2 * ops::dynamic_value(false, static_cast<int>(v2[i])) * v_scale[block] + (1 - b2) * g * g);
      most_first = std::max(most_first, std::fabs(first.back()));
      most_second = std::max(most_second, second.back());
      const double decay = is_within(op.undecayed, static_cast<std::int64_t>(i)) ? 0 : op.weight_decay;
      p[i] -=
          op.lr * (first.back() / (1 - std::pow(b1, t)) / (std::sqrt(second.back() / (1 - std::pow(b2, t))) + op.eps) +
                   decay * p[i]);
    }
    for (std::size_t i = begin; i < end; ++i) {
      m[i] = static_cast<double>(nearest(true, most_first > 0 ? first[i - begin] / most_first : 0));
      v2[i] = static_cast<double>(nearest(false, most_second > 0 ? second[i - begin] / most_second : 0));
    }
    m_scale[block] = most_first, v_scale[block] = most_second;
  }
  if (op.model) v.out(op.model) = p;
}

Tensor codes(Tensors& t, std::int64_t n, unsigned seed) {
  Values drawn = uniform(n, 0, 256, seed);
  for (double& x : drawn) x = std::floor(x);
  return t.changed(t.values({n}, DType::u8, drawn));
}

ops::AdamBlockwise make(Tensors& t, std::int64_t n, DType grad, DType model, std::int64_t step = 3,
                        double least_scale = 0.5, double most_scale = 1, DType param = DType::f32) {
  ops::AdamBlockwise op;
  op.param = t.inout({n}, param), op.grad = t.in({n}, grad, -64, 64);
  // Of large tensors, whose values nobody looks at, some that repeat.
  op.m = n > 100000 ? t.out({n}, DType::u8) : codes(t, n, 1);
  op.v = n > 100000 ? t.out({n}, DType::u8) : codes(t, n, 2);
  op.m_scale = t.inout({op.blocks()}, DType::f32, least_scale, most_scale);
  op.v_scale = t.inout({op.blocks()}, DType::f32, least_scale, most_scale);
  if (model != DType::f32) op.model = t.out({n}, model);
  op.lr = 0.01f, op.beta2 = 0.95f, op.weight_decay = 0.1f, op.grad_scale = 1.0f / 64, op.step = step;
  return op;
}

const std::vector<ops::ElementRange> kBlocks = {{0, 256}, {512, 1000}, {1024, 1280}, {1792, 1900}};

const Cases<ops::AdamBlockwise> adam_blockwise(reference, [](CaseList<ops::AdamBlockwise>& cases) {
  const Within within{.cpu = {2e-7, 1e-5}, .kernel = {1e-7, 4e-6}};
  for (const DType grad : kFloatTypes)
    for (const DType model : kFloatTypes)
      for (const std::int64_t n : {1, 255, 256, 1027})
        cases.add(
            fmt::format("[{}], gradients in {}, weights in {}", n, name_of(grad), name_of(model)),
            [=](Tensors& t) { return make(t, n, grad, model); }, within);
  for (const DType grad : {DType::f32, DType::bf16})
    for (const std::int64_t n : {255, 1027})
      cases.add(
          fmt::format("[{}], weights in bf16 alone, gradients in {}", n, name_of(grad)),
          [=](Tensors& t) { return make(t, n, grad, DType::f32, 3, 0.5, 1, DType::bf16); }, within);
  cases.add(
      "no decay of some blocks",
      [](Tensors& t) {
        ops::AdamBlockwise op = make(t, 1900, DType::f32, DType::f32, 1);
        op.weight_decay = 0.5f, op.undecayed = kBlocks;
        return op;
      },
      within);
  // Whatever their codes: that is how an optimizer begins.
  cases.add(
      "blocks whose scales are zero", [](Tensors& t) { return make(t, 600, DType::f32, DType::bf16, 1, 0, 0); },
      within);
  cases.add(
      "no gradient at all",
      [](Tensors& t) {
        ops::AdamBlockwise op = make(t, 600, DType::f32, DType::f32);
        op.grad_scale = 0;
        return op;
      },
      within);
  cases.unemulated(
      "[20000]", [](Tensors& t) { return make(t, 20000, DType::f32, DType::f32); }, within);
  cases.timed("16 Mi", [](Tensors& t) { return make(t, 16 << 20, DType::f32, DType::f32); });
  cases.huge("8 Gi", [](Tensors& t) { return make(t, std::int64_t{8} << 30, DType::f32, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
