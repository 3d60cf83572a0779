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
  if (x.blocks == Fp8Blocks::whole_rows) return all[outer];
  if (x.blocks == Fp8Blocks::rows) return all[inner / 128 * rows + outer];
  if (of_nvfp4(x.blocks)) {
    const std::size_t tile = outer / 128 * ((2 * k + 63) / 64) + inner / 64;
    return all[tile * 512 + outer % 32 * 16 + outer / 32 % 4 * 4 + inner / 16 % 4] * v[x.amax][0] / 2688;
  }
  if (x.blocks == Fp8Blocks::mx) {
    const std::size_t tile = outer / 128 * ((k + 127) / 128) + inner / 128;
    return std::exp2(all[tile * 512 + outer % 32 * 16 + outer / 32 % 4 * 4 + inner / 32 % 4] - 127);
  }
  return all[outer / 128 * ((k + 511) / 512 * 4) + inner / 128];
}

double code(const Fp8Operand& x, const Doubles& v, std::size_t outer, std::size_t inner) {
  const auto k = static_cast<std::size_t>(x.inner());
  const Values& codes = v[x.codes];
  if (x.turned) return codes[inner * static_cast<std::size_t>(x.outer()) + outer];
  if (!of_nvfp4(x.blocks)) return codes[outer * k + inner];
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  const auto pair = static_cast<int>(codes[(outer * k + inner) / 2]);
  return kValues[inner % 2 == 0 ? pair % 16 : pair / 16];
}

void reference(const ops::Fp8Matmul& op, Doubles& v) {
  const auto m = static_cast<std::size_t>(op.m()), n = static_cast<std::size_t>(op.n()),
             k = static_cast<std::size_t>(op.k());
  Values& c = v.out(op.c);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < k; ++p)
        sum += code(op.a, v, i, p) * inverse(op.a, v, i, p) * code(op.b, v, j, p) * inverse(op.b, v, j, p);
      c[i * n + j] = sum + (op.beta == 0 ? 0 : op.beta * c[i * n + j]);
    }
}

Fp8Operand operand(Tensors& t, std::int64_t outer, std::int64_t inner, DType type, Fp8Blocks blocks) {
  const Shape scales = ops::QuantiseBlocks::scales_of(outer, inner, blocks);
  if (of_nvfp4(blocks)) {
    Values pairs(static_cast<std::size_t>(outer * inner / 2));
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<double>(i * 7919 % 251);
    return {t.values(ops::QuantiseBlocks::codes_of(outer, inner, blocks), DType::u8, pairs),
            t.in(scales, DType::e4m3, 100, 448), blocks, t.values({1}, DType::f32, {3})};
  }
  const Tensor codes = t.in({outer, inner}, type, -4, 4);
  if (blocks == Fp8Blocks::mx) return {codes, t.in(scales, DType::u8, 122, 126), blocks};
  return {codes, t.in(scales, DType::f32, 0.125, 0.25), blocks};
}

ops::Fp8Matmul make(Tensors& t, std::int64_t m, std::int64_t n, std::int64_t k, DType a, DType b, DType c, float beta,
                    Fp8Blocks of_a = Fp8Blocks::tensor, Fp8Blocks of_b = Fp8Blocks::tensor) {
  return {operand(t, m, k, a, of_a), operand(t, n, k, b, of_b), beta == 0 ? t.out({m, n}, c) : t.inout({m, n}, c),
          beta};
}

Fp8Operand turned_operand(Tensors& t, std::int64_t outer, std::int64_t inner, DType type) {
  Fp8Operand x = operand(t, inner, outer, type, Fp8Blocks::tensor);
  x.turned = true;
  return x;
}

// Lambdas copy structured bindings by name, since Clang with OpenMP captures none.
const Cases<ops::Fp8Matmul> fp8_matmul(reference, [](CaseList<ops::Fp8Matmul>& cases) {
  constexpr DType e4 = DType::e4m3, e5 = DType::e5m2;
  const Within within{.cpu = {1e-4, 2e-6}, .gpu = 4, .anywhere = false};
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 16, 16}, {48, 16, 160}, {64, 80, 32}, {528, 16, 2064}})
    for (const auto& [a, b] : {std::pair{e4, e4}, {e5, e4}, {e4, e5}})
      for (const DType c : {DType::bf16, DType::f32})
        for (const float beta : {0.0f, 1.0f}) {
          if (m > 500 && (c == DType::bf16 || beta == 0)) continue;
          Within sums = within;
          // Within a tensor core 13 bits or so of a sum are kept. Forward products leave the whole sum there; those of gradients a part of
          // it (DeepSeek-V3, arXiv:2412.19437, 3.3.2: up to 2 % of a sum of 4,096).
          sums.gpu = a == b ? 200 : 40;
          cases.unemulated(
              fmt::format("[{}, {}] x [{}, {}], {} x {} to {}, beta {}", m, k, k, n, name_of(a), name_of(b), name_of(c),
                          beta),
              [=, m = m, n = n, k = k, a = a, b = b](Tensors& t) { return make(t, m, n, k, a, b, c, beta); }, sums);
        }
  // GPUs of compute capability 9.0 alone compute these.
  Within blocks = within;
  blocks.gpu = 0;
  for (const Fp8Blocks of_b : {Fp8Blocks::rows, Fp8Blocks::squares})
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 16, 16}, {144, 48, 272}})
      cases.unemulated(
          fmt::format("[{}, {}] x [{}, {}] by blocks, the second's {}", m, k, k, n,
                      of_b == Fp8Blocks::rows ? "1 x 128" : "128 x 128"),
          [=, m = m, n = n, k = k](Tensors& t) {
            return make(t, m, n, k, e4, e4, DType::f32, 1, Fp8Blocks::rows, of_b);
          },
          blocks);
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 16, 16}, {144, 48, 272}})
    cases.unemulated(
        fmt::format("[{}, {}] x [{}, {}] by rows", m, k, k, n),
        [=, m = m, n = n, k = k](Tensors& t) {
          return make(t, m, n, k, e4, e4, DType::f32, 1, Fp8Blocks::whole_rows, Fp8Blocks::whole_rows);
        },
        blocks);
  // GPUs of compute capability 10.0 and later compute these.
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 16, 32}, {144, 48, 288}, {272, 160, 2080}})
    cases.unemulated(
        fmt::format("[{}, {}] x [{}, {}] by MX", m, k, k, n),
        [=, m = m, n = n, k = k](Tensors& t) {
          return make(t, m, n, k, e4, e4, DType::f32, 1, Fp8Blocks::mx, Fp8Blocks::mx);
        },
        blocks);
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 16, 32}, {144, 48, 288}, {272, 160, 2080}})
    cases.unemulated(
        fmt::format("[{}, {}] x [{}, {}] of NVFP4", m, k, k, n),
        [=, m = m, n = n, k = k](Tensors& t) {
          return make(t, m, n, k, e4, e4, DType::f32, 1, Fp8Blocks::nv, Fp8Blocks::nv_squares);
        },
        blocks);
  // And these.
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 32, 48}, {528, 16, 2064}, {80, 144, 32}})
    for (const auto& [first, second] : {std::pair{true, true}, {true, false}, {false, true}})
      cases.unemulated(
          fmt::format("[{}, {}] x [{}, {}], turned: {}", m, k, k, n,
                      first ? second ? "both" : "the first" : "the second"),
          [=, m = m, n = n, k = k, first = first, second = second](Tensors& t) {
            return ops::Fp8Matmul{first ? turned_operand(t, m, k, e5) : operand(t, m, k, e5, Fp8Blocks::tensor),
                                  second ? turned_operand(t, n, k, e4) : operand(t, n, k, e4, Fp8Blocks::tensor),
                                  t.inout({m, n}, DType::f32), 1};
          },
          blocks);
  cases.timed("qkv", [](Tensors& t) { return make(t, 1024, 3072, 1024, e4, e4, DType::bf16, 0); });
});

}  // namespace
}  // namespace mbench::test
