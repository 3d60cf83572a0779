#include "engine/ops/short_conv.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// Places of an output, of B, C and x (part 0 to 2) and of taps.
struct Places {
  ops::ConvShape s;
  std::size_t in(std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c, int part) const {
    return static_cast<std::size_t>(((t * s.batch + b) * s.groups + g) * s.width + part * s.channels + c);
  }
  std::size_t out(std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) const {
    return static_cast<std::size_t>(((t * s.batch + b) * s.groups + g) * s.channels + c);
  }
  std::size_t tap(std::int64_t g, std::int64_t c, std::int64_t k) const {
    return static_cast<std::size_t>((g * s.channels + c) * s.taps + k);
  }
  template <class F>
  void each(F&& f) const {
    for (std::int64_t t = 0; t < s.seq; ++t)
      for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t g = 0; g < s.groups; ++g)
          for (std::int64_t c = 0; c < s.channels; ++c) f(t, b, g, c);
  }
  double sum(const Values& x, const Values& w, std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) const {
    double sum = 0;
    for (std::int64_t k = 0; k < s.taps; ++k)
      if (const std::int64_t from = t - s.taps + 1 + k; from >= 0)
        sum += w[tap(g, c, k)] * x[in(from, b, g, c, 0)] * x[in(from, b, g, c, 2)];
    return sum;
  }
};

void reference(const ops::ShortConv& op, Doubles& v) {
  const Places p{op.shape()};
  const Values &x = v[op.x], &w = v[op.weight];
  Values& y = v.out(op.y);
  p.each([&](std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) {
    y[p.out(t, b, g, c)] = x[p.in(t, b, g, c, 1)] * p.sum(x, w, t, b, g, c);
  });
}

void reference(const ops::ShortConvGrad& op, Doubles& v) {
  const Places p{op.shape()};
  const Values &x = v[op.x], &w = v[op.weight], &dy = v[op.dy];
  Values &dx = v.out(op.dx), &dw = v.out(op.dweight);
  std::fill(dx.begin(), dx.end(), 0.0);
  p.each([&](std::int64_t t, std::int64_t b, std::int64_t g, std::int64_t c) {
    const double d = dy[p.out(t, b, g, c)], of_sum = d * x[p.in(t, b, g, c, 1)];
    dx[p.in(t, b, g, c, 1)] = d * p.sum(x, w, t, b, g, c);
    for (std::int64_t k = 0; k < p.s.taps; ++k) {
      const std::int64_t from = t - p.s.taps + 1 + k;
      if (from < 0) continue;
      const std::size_t at_b = p.in(from, b, g, c, 0), at_x = p.in(from, b, g, c, 2);
      dw[p.tap(g, c, k)] += of_sum * x[at_b] * x[at_x];
      dx[at_b] += of_sum * w[p.tap(g, c, k)] * x[at_x];
      dx[at_x] += of_sum * w[p.tap(g, c, k)] * x[at_b];
    }
  });
}

struct Form {
  std::int64_t seq, batch, groups, channels, taps;
  std::string str() const {
    return fmt::format("{} x {}, {} x {} channels, {} taps", seq, batch, groups, channels, taps);
  }
  Shape in() const { return {seq, batch, groups, 3 * channels}; }
  Shape out() const { return {seq, batch, groups, channels}; }
};

ops::ShortConv make(Tensors& t, const Form& f, DType type) {
  const Tensor x = t.in(f.in(), type, -2, 2), w = t.in({f.groups * f.channels, f.taps}, type);
  return {x, w, t.out(f.out(), type)};
}

ops::ShortConvGrad make_grad(Tensors& t, const Form& f, DType type, DType sum) {
  const Tensor dy = t.in(f.out(), type), x = t.in(f.in(), type, -2, 2), w = t.in({f.groups * f.channels, f.taps}, type);
  return {dy, x, w, t.out(f.in(), type), t.inout(w.shape(), sum)};
}

const Form kForms[] = {{1, 1, 1, 1, 3},  {2, 3, 1, 5, 4},    {7, 2, 2, 67, 3},
                       {9, 1, 3, 64, 2}, {33, 2, 1, 130, 5}, {6, 1, 2, 8, 1}};
const Form kBench{kBenchTokens, 1, 8, 256, 3}, kHuge{65536, 8, 8, 1024, 4}, kSmall{16, 1, 2, 32, 3};

const Cases<ops::ShortConv> short_conv(reference, [](CaseList<ops::ShortConv>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    cases.add(fmt::format("{} {}", name_of(type), f.str()), [=](Tensors& t) { return make(t, f, type); },
              {.cpu = {2e-6, 4e-6}, .kernel = {4e-6, 4e-6}, .gpu = 4});
  });
  for (const Form& f : {Form{6, 2, 2, 3, 4}, Form{5, 1, 1, 4, 3}})
    cases.gradient(
        f.str(), [=](Tensors& t) { return make(t, f, DType::f32); },
        [](Tensors& t, const ops::ShortConv& op) {
          const ops::ShortConvGrad grad{t.in(op.y.shape(), DType::f32), op.x, op.weight, t.out(op.x.shape()),
                                        t.inout(op.weight.shape(), DType::f32)};
          return Backward{grad, {op.y, grad.dy, {{op.x, grad.dx}, {op.weight, grad.dweight}}}};
        });
  cases.timed("8 x 256 channels", [](Tensors& t) { return make(t, kBench, DType::f32); });
  cases.enqueued(1, [](Tensors& t) { return make(t, kSmall, DType::bf16); });
  cases.huge("8 x 1024 channels", [](Tensors& t) { return make(t, kHuge, DType::bf16); });
});

const Cases<ops::ShortConvGrad> short_conv_grad(reference, [](CaseList<ops::ShortConvGrad>& cases) {
  for_types_and(kForms, [&](DType type, const Form& f) {
    for (const DType sum : sum_types(type))
      cases.add(fmt::format("{} {} into {}", name_of(type), f.str(), name_of(sum)),
                [=](Tensors& t) { return make_grad(t, f, type, sum); },
                {.cpu = {1e-5, 1e-5}, .kernel = {2e-5, 1e-5}, .gpu = 4});
  });
  cases.timed("8 x 256 channels", [](Tensors& t) { return make_grad(t, kBench, DType::f32, DType::f32); });
  cases.enqueued(3, [](Tensors& t) { return make_grad(t, kSmall, DType::bf16, DType::f32); });
  cases.huge("8 x 1024 channels", [](Tensors& t) { return make_grad(t, kHuge, DType::bf16, DType::f32); });
});

}  // namespace
}  // namespace mbench::test
