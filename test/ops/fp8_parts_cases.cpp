#include "engine/ops/fp8_parts.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

// A part of a matrix: [rows, cols], where it begins, how many elements it has.
struct Part {
  Shape matrix;
  std::int64_t first, n;
};
std::string label(DType type, const Part& p) {
  return fmt::format("{} {} from {} of {}", name_of(type), p.n, p.first, p.matrix);
}

// All of it; none; within a row; from one row of blocks to the next, beginning and ending within rows; narrower than a block.
const Part kParts[] = {{{16, 48}, 0, 768},     {{16, 48}, 0, 0},        {{3, 500}, 600, 77},
                       {{260, 131}, 1, 34057}, {{300, 64}, 8128, 3136}, {{1, 1}, 0, 1}};

template <class Op>
std::size_t block_of(const Op& op, const Tensor& figures, std::size_t i) {
  const auto at = static_cast<std::size_t>(op.first) + i, cols = static_cast<std::size_t>(op.cols);
  return at / cols / 128 * static_cast<std::size_t>(figures.shape()[1]) + at % cols / 128;
}

void reference(const ops::BlockMaxima& op, Doubles& v) {
  const Values& x = v[op.x];
  Values& amax = v.out(op.amax);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double& most = amax[block_of(op, op.amax, i)];
    most = std::max(most, std::fabs(x[i]));
  }
}

void reference(const ops::QuantisePart& op, Doubles& v) {
  const Values &x = v[op.x], &scale = v[op.scale];
  Values& y = v.out(op.y);
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = fp8_to_float<e4m3>(
        fp8_from_float<e4m3>(static_cast<float>(scale[block_of(op, op.scale, i)]) * static_cast<float>(x[i])));
}

Shape figures_of(const Part& p) {
  return ops::QuantiseBlocks::scales_of(p.matrix[0], p.matrix[1], ops::Fp8Blocks::squares);
}
ops::BlockMaxima maxima(Tensors& t, DType type, const Part& p) {
  return {t.in({p.n}, type, -3, 3), p.matrix[0], p.matrix[1], p.first, t.inout(figures_of(p), DType::f32, 0, 2)};
}
ops::QuantisePart quantise(Tensors& t, DType type, const Part& p) {
  return {t.in({p.n}, type, -3, 3), p.matrix[0], p.matrix[1], p.first, t.in(figures_of(p), DType::f32, 20, 140),
          t.out({p.n}, DType::e4m3)};
}

const Within kEqual{.cpu = {0, 2e-7}, .kernel = {0, 2e-7}};
const Part kShard{{4 * kBenchWidth, kBenchWidth}, 1000 * kBenchWidth, 512 * kBenchWidth},
    kHugeShard{{1 << 19, 49152}, 12345 * 64, (std::int64_t{1} << 19) * 40000};

const Cases<ops::BlockMaxima> cases_of_block_maxima(reference, [](CaseList<ops::BlockMaxima>& cases) {
  for_types_and(kParts, [&](DType type, const Part& p) {
    cases.add(
        label(type, p), [=](Tensors& t) { return maxima(t, type, p); }, kEqual);
  });
  cases.timed("shard", [](Tensors& t) { return maxima(t, DType::f32, kShard); });
  cases.huge("shard", [](Tensors& t) { return maxima(t, DType::f32, kHugeShard); });
});

const Cases<ops::QuantisePart> cases_of_quantise_part(reference, [](CaseList<ops::QuantisePart>& cases) {
  for_types_and(kParts, [&](DType type, const Part& p) {
    cases.add(
        label(type, p), [=](Tensors& t) { return quantise(t, type, p); }, kEqual);
  });
  cases.timed("shard", [](Tensors& t) { return quantise(t, DType::f32, kShard); });
  cases.huge("shard", [](Tensors& t) { return quantise(t, DType::f32, kHugeShard); });
});

}  // namespace
}  // namespace mbench::test
