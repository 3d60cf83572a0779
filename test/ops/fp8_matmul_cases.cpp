#include "engine/ops/fp8_matmul.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::Fp8Blocks;
using ops::Fp8Operand;

double inverse(const Fp8Operand& x, const Doubles& v, std::size_t outer, std::size_t inner) {
  const Values& all = v[x.inverse];
  const auto rows = static_cast<std::size_t>(x.codes.shape()[0]), k = static_cast<std::size_t>(x.codes.shape()[1]);
  if (x.blocks == Fp8Blocks::tensor) return all[0];
  if (x.blocks == Fp8Blocks::rows) return all[inner / 128 * rows + outer];
  return all[outer / 128 * ((k + 511) / 512 * 4) + inner / 128];
}

void reference(const ops::Fp8Matmul& op, Doubles& v) {
  const auto m = static_cast<std::size_t>(op.m()), n = static_cast<std::size_t>(op.n()),
             k = static_cast<std::size_t>(op.k());
  Values& c = v.out(op.c);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < k; ++p)
        sum += v[op.a.codes][i * k + p] * inverse(op.a, v, i, p) * v[op.b.codes][j * k + p] * inverse(op.b, v, j, p);
      c[i * n + j] = sum + (op.beta == 0 ? 0 : op.beta * c[i * n + j]);
    }
}

Fp8Operand operand(Tensors& t, std::int64_t outer, std::int64_t inner, DType type, Fp8Blocks blocks) {
  const Shape scales = blocks == Fp8Blocks::tensor
                           ? Shape{1}
                           : ops::QuantiseBlocks::scales_of(outer, inner, blocks == Fp8Blocks::squares);
  return {t.in({outer, inner}, type, -4, 4), t.in(scales, DType::f32, 0.125, 0.25), blocks};
}

ops::Fp8Matmul make(Tensors& t, std::int64_t m, std::int64_t n, std::int64_t k, DType a, DType b, DType c, float beta,
                    Fp8Blocks of_a = Fp8Blocks::tensor, Fp8Blocks of_b = Fp8Blocks::tensor) {
  return {operand(t, m, k, a, of_a), operand(t, n, k, b, of_b), beta == 0 ? t.out({m, n}, c) : t.inout({m, n}, c),
          beta};
}

const Cases<ops::Fp8Matmul> fp8_matmul(reference, [](CaseList<ops::Fp8Matmul>& cases) {
  constexpr DType e4 = DType::e4m3, e5 = DType::e5m2;
  const Within within{.cpu = {1e-4, 2e-6}, .gpu = 4, .anywhere = false};
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 16, 16}, {48, 16, 160}, {64, 80, 32}, {528, 16, 2064}})
    for (const auto& [a, b] : {std::pair{e4, e4}, {e5, e4}, {e4, e5}})
      for (const DType c : {DType::bf16, DType::f32})
        for (const float beta : {0.0f, 1.0f}) {
          if (m > 500 && (c == DType::bf16 || beta == 0)) continue;
          Within sums = within;
          if (a == b) sums.gpu = 40;  // within a tensor core 13 bits or so of these are kept
          cases.unemulated(
              fmt::format("[{}, {}] x [{}, {}], {} x {} to {}, beta {}", m, k, k, n, name_of(a), name_of(b), name_of(c),
                          beta),
              [=](Tensors& t) { return make(t, m, n, k, a, b, c, beta); }, sums);
        }
  // GPUs of compute capability 9.0 alone compute these.
  Within blocks = within;
  blocks.gpu = 0;
  for (const Fp8Blocks of_b : {Fp8Blocks::rows, Fp8Blocks::squares})
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 16, 16}, {144, 48, 272}})
      cases.unemulated(
          fmt::format("[{}, {}] x [{}, {}] by blocks, the second's {}", m, k, k, n,
                      of_b == Fp8Blocks::rows ? "1 x 128" : "128 x 128"),
          [=](Tensors& t) { return make(t, m, n, k, e4, e4, DType::f32, 1, Fp8Blocks::rows, of_b); }, blocks);
  cases.timed("qkv", [](Tensors& t) { return make(t, 1024, 3072, 1024, e4, e4, DType::bf16, 0); });
});

}  // namespace
}  // namespace mbench::test
