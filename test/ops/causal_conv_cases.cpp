#include "engine/ops/causal_conv.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

// Calls f(t, row of y, row of x, channel, its weight's row) for every output.
template <class F>
void for_outputs(const ops::ConvShape& s, F&& f) {
  for (std::int64_t t = 0; t < s.seq; ++t)
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t g = 0; g < s.groups; ++g)
        for (std::int64_t c = 0; c < s.channels; ++c) f(t, b, g, c);
}
std::size_t x_at(const ops::ConvShape& s, std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) {
  return static_cast<std::size_t>(((t * s.batch + b) * s.groups + g) * s.width + s.first + c);
}
std::size_t y_at(const ops::ConvShape& s, std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) {
  return static_cast<std::size_t>(((t * s.batch + b) * s.groups + g) * s.channels + c);
}
std::size_t w_at(const ops::ConvShape& s, std::int64_t g, std::int64_t c, std::int64_t k) {
  return static_cast<std::size_t>((g * s.channels + c) * s.taps + k);
}

double sum_at(const ops::ConvShape& s, const Values& x, const Values& w, const Values& bias, std::int64_t t,
              std::int64_t b, std::int64_t g, std::int64_t c) {
  double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(g * s.channels + c)];
  for (std::int64_t k = 0; k < s.taps; ++k)
    if (t - s.taps + 1 + k >= 0) sum += w[w_at(s, g, c, k)] * x[x_at(s, t - s.taps + 1 + k, b, g, c)];
  return sum;
}

void reference(const ops::CausalConv& op, Doubles& v) {
  const ops::ConvShape s = op.shape();
  const Values &x = v[op.x], &w = v[op.weight], bias = op.bias ? v[op.bias] : Values();
  Values& y = v.out(op.y);
  for_outputs(s, [&](std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) {
    const double sum = sum_at(s, x, w, bias, t, b, g, c);
    y[y_at(s, t, b, g, c)] = sum * sigmoid(sum);
  });
}

void reference(const ops::CausalConvGrad& op, Doubles& v) {
  const ops::ConvShape s = op.shape();
  const Values &x = v[op.x], &w = v[op.weight], bias = op.bias ? v[op.bias] : Values(), &dy = v[op.dy];
  Values &dx = v.out(op.dx), &dw = v.out(op.dweight), none, &dbias = op.dbias ? v.out(op.dbias) : none;
  for_outputs(s, [&](std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) { dx[x_at(s, t, b, g, c)] = 0; });
  for_outputs(s, [&](std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) {
    const double sum = sum_at(s, x, w, bias, t, b, g, c), gate = sigmoid(sum);
    const double d = dy[y_at(s, t, b, g, c)] * gate * (1 + sum * (1 - gate));
    if (!dbias.empty()) dbias[static_cast<std::size_t>(g * s.channels + c)] += d;
    for (std::int64_t k = 0; k < s.taps; ++k) {
      const std::int64_t from = t - s.taps + 1 + k;
      if (from < 0) continue;
      dx[x_at(s, from, b, g, c)] += d * w[w_at(s, g, c, k)];
      dw[w_at(s, g, c, k)] += d * x[x_at(s, from, b, g, c)];
    }
  });
}

// `before` and `after`: columns that are not convolved.
struct Form {
  std::int64_t seq, batch, groups, channels, taps, before = 0, after = 0;
  bool bias = true;
  std::string str() const {
    return fmt::format("{} x {}, {} x {} channels between {} and {}, {} taps{}", seq, batch, groups, channels, before,
                       after, taps, bias ? "" : ", no bias");
  }
};

ops::CausalConv make(Tensors& t, const Form& f, DType type) {
  const std::int64_t all = f.groups * f.channels;
  const Tensor x = t.in({f.seq, f.batch, f.groups, f.before + f.channels + f.after}, type, -2, 2),
               w = t.in({all, f.taps}, type), bias = f.bias ? t.in({all}, type) : Tensor();
  return {x, w, bias, t.out({f.seq, f.batch, f.groups, f.channels}, type), f.before};
}

ops::CausalConvGrad backward_of(Tensors& t, const ops::CausalConv& op, DType sum, bool whole) {
  ops::CausalConvGrad grad{t.in(op.y.shape(), op.x.dtype()), op.x, op.weight, op.bias};
  grad.dx = whole ? t.out(op.x.shape(), op.x.dtype()) : t.inout(op.x.shape(), op.x.dtype());
  grad.dweight = t.inout(op.weight.shape(), sum);
  if (op.bias) grad.dbias = t.inout(op.bias.shape(), sum);
  grad.first = op.first;
  return grad;
}

ops::CausalConvGrad make_grad(Tensors& t, const Form& f, DType type, DType sum) {
  const std::int64_t all = f.groups * f.channels;
  ops::CausalConv op;
  op.x = t.in({f.seq, f.batch, f.groups, f.before + f.channels + f.after}, type, -2, 2);
  op.weight = t.in({all, f.taps}, type);
  if (f.bias) op.bias = t.in({all}, type);
  op.first = f.before;
  ops::CausalConvGrad grad{t.in({f.seq, f.batch, f.groups, f.channels}, type), op.x, op.weight, op.bias};
  grad.dx = t.inout(op.x.shape(), type);
  grad.dweight = t.inout(op.weight.shape(), sum);
  if (f.bias) grad.dbias = t.inout(op.bias.shape(), sum);
  grad.first = f.before;
  return grad;
}

const Form kForms[] = {{1, 1, 1, 1, 4},        {2, 3, 1, 5, 4, 2, 1},    {7, 2, 2, 67, 4, 0, 3},
                       {9, 1, 3, 64, 2, 8, 8}, {33, 2, 1, 130, 5, 1, 0}, {6, 1, 2, 8, 4, 8, 0, false}};
const Form kBench{kBenchTokens, 1, 8, 512, 4, 256, 4}, kHuge{65536, 8, 8, 1280, 4, 1024, 16},
    kSmall{16, 1, 1, 64, 4, 32, 2};

const Cases<ops::CausalConv> causal_conv(reference, [](CaseList<ops::CausalConv>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    cases.add(fmt::format("{} {}", name_of(type), f.str()), [=](Tensors& t) { return make(t, f, type); },
              {.cpu = {2e-6, 4e-6}, .kernel = {4e-6, 4e-6}, .gpu = 4});
  });
  for (const Form& f : {Form{6, 2, 2, 3, 4}, Form{5, 1, 1, 4, 3, 0, 0, false}})
    cases.gradient(
        f.str(), [=](Tensors& t) { return make(t, f, DType::f32); },
        [](Tensors& t, const ops::CausalConv& op) {
          const ops::CausalConvGrad grad = backward_of(t, op, DType::f32, true);
          Chain chain{op.y, grad.dy, {{op.x, grad.dx}, {op.weight, grad.dweight}}};
          if (op.bias) chain.inputs.emplace_back(op.bias, grad.dbias);
          return Backward{grad, chain};
        });
  cases.timed("8 x 512 channels", [](Tensors& t) { return make(t, kBench, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmall, DType::bf16); });
  cases.huge("channels", [](Tensors& t) { return make(t, kHuge, DType::bf16); });
});

const Cases<ops::CausalConvGrad> causal_conv_grad(reference, [](CaseList<ops::CausalConvGrad>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    for (const DType sum : sum_types(type))
      cases.add(fmt::format("{} {} into {}", name_of(type), f.str(), name_of(sum)),
                [=](Tensors& t) { return make_grad(t, f, type, sum); },
                {.cpu = {1e-5, 1e-5}, .kernel = {2e-5, 1e-5}, .gpu = 4});
  });
  cases.timed("8 x 512 channels", [](Tensors& t) { return make_grad(t, kBench, DType::f32, DType::f32); });
  cases.enqueued(4, [](Tensors& t) { return make_grad(t, kSmall, DType::bf16, DType::f32); });
  cases.huge("channels", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
