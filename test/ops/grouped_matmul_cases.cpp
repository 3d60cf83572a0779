#include "engine/ops/grouped_matmul.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using Gemm = ops::GroupedMatmul::Gemm;

// The definition, one term after the other.
void reference(const ops::GroupedMatmul& op, Doubles& v) {
  const Values &x = v[op.x], &w = v[op.w], &y = v[op.y];
  const std::int64_t in = op.x.shape().cols(), out = op.y.shape().cols();
  Values& result = v.out(op.gemm == Gemm::forward ? op.y : op.gemm == Gemm::input_gradient ? op.x : op.w);
  const auto scale = [&](std::int64_t i) { result[i] = op.beta == 0 ? 0 : op.beta * result[i]; };
  for (std::int64_t e = 0; e < op.experts(); ++e) {
    const std::int64_t begin = op.offsets[e], end = op.offsets[e + 1];
    if (op.gemm == Gemm::weight_gradient)
      for (std::int64_t i = e * out * in; i < (e + 1) * out * in; ++i) scale(i);
    else if (op.gemm == Gemm::forward)
      for (std::int64_t i = begin * out; i < end * out; ++i) scale(i);
    else
      for (std::int64_t i = begin * in; i < end * in; ++i) scale(i);
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t o = 0; o < out; ++o)
        for (std::int64_t i = 0; i < in; ++i) {
          const std::int64_t at_x = r * in + i, at_y = r * out + o, at_w = (e * out + o) * in + i;
          if (op.gemm == Gemm::forward) result[at_y] += x[at_x] * w[at_w];
          if (op.gemm == Gemm::input_gradient) result[at_x] += y[at_y] * w[at_w];
          if (op.gemm == Gemm::weight_gradient) result[at_w] += y[at_y] * x[at_x];
        }
  }
}

// Nobody's rows before, between and after; an expert without rows; all alike.
constexpr std::int64_t kRagged[] = {2, 5, 5, 22, 23}, kEqual[] = {0, 8, 16, 24}, kNone[] = {0, 0, 0},
                       kBench[] = {0, 300, 700, 1000, 2048};
struct Sizes {
  std::span<const std::int64_t> offsets;
  std::int64_t rows, in, out;
};

ops::GroupedMatmul make(Tensors& t, const Sizes& z, Gemm gemm, DType type, DType to, float beta) {
  const auto experts = static_cast<std::int64_t>(z.offsets.size()) - 1;
  // What no product reaches stays as it is, so the result is one that held something before.
  const auto tensor = [&](const Shape& shape, bool result) { return result ? t.inout(shape, to) : t.in(shape, type); };
  ops::GroupedMatmul op;
  op.gemm = gemm, op.offsets = z.offsets, op.beta = beta;
  op.x = tensor({z.rows, z.in}, gemm == Gemm::input_gradient);
  op.w = tensor({experts, z.out, z.in}, gemm == Gemm::weight_gradient);
  op.y = tensor({z.rows, z.out}, gemm == Gemm::forward);
  return op;
}

const Cases<ops::GroupedMatmul> grouped_matmul(reference, [](CaseList<ops::GroupedMatmul>& cases) {
  const std::pair<Gemm, const char*> gemms[] = {
      {Gemm::forward, "forward"}, {Gemm::input_gradient, "input gradient"}, {Gemm::weight_gradient, "weight gradient"}};
  for (const auto& [gemm, what] : gemms)
    for (const DType type : kFloatTypes)
      for (const DType to : sum_types(type))
        for (const float beta : {0.0f, 1.0f, 0.5f})
          for (const Sizes& z :
               {Sizes{kRagged, 25, 24, 40}, Sizes{kRagged, 23, 7, 1}, Sizes{kEqual, 24, 16, 8}, Sizes{kNone, 3, 8, 8}})
            cases.unemulated(fmt::format("{} of {} rows, {} to {}, {} to {}, beta {}", what, z.rows, z.in, z.out,
                                         name_of(type), name_of(to), beta),
                             [=, gemm = gemm](Tensors& t) { return make(t, z, gemm, type, to, beta); },
                             {.cpu = {2e-5}, .gpu = 4, .calls = 2});
  const Sizes small{kRagged, 23, 3, 4};
  for (const auto& [gemm, what] : gemms) {
    if (gemm == Gemm::forward) continue;
    cases.gradient(
        what, [=](Tensors& t) { return make(t, small, Gemm::forward, DType::f32, DType::f32, 0); },
        [=, gemm = gemm](Tensors& t, const ops::GroupedMatmul& op) {
          // Of rows that are no expert's, y does not depend on x.
          const bool of_x = gemm == Gemm::input_gradient;
          ops::GroupedMatmul grad = op;
          grad.gemm = gemm;
          grad.y = t.in(op.y.shape(), DType::f32);
          const Tensor& by = of_x ? op.x : op.w;
          const Tensor d = t.changed(t.values(by.shape(), DType::f32, Values(by.numel(), 0.0)));
          (of_x ? grad.x : grad.w) = d;
          return Backward{grad, {op.y, grad.y, {{by, d}}}};
        });
  }
  const auto bench = [](Gemm gemm) {
    return [=](Tensors& t) { return make(t, {kBench, 2048, kBenchWidth, kBenchFfn}, gemm, DType::f32, DType::f32, 0); };
  };
  for (const auto& [gemm, what] : gemms) cases.timed(what, bench(gemm));
});

}  // namespace
}  // namespace mbench::test
