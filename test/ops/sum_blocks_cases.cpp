#include "engine/ops/sum_blocks.h"
#include "test/ops/cases.h"
#include "test/ops/shapes.h"

namespace mbench::test {
namespace {

using ops::Matrix;

void reference(const ops::SumBlocks& op, Doubles& v) {
  const Values& from = v[op.from.data];
  Values& to = v.out(op.to.data);
  const auto at = [](const Matrix& m, std::int64_t i, std::int64_t r, std::int64_t c) {
    return static_cast<std::size_t>(m.offset + i * m.batch_stride + r * m.ld + c);
  };
  for (std::int64_t r = 0; r < op.from.rows; ++r)
    for (std::int64_t c = 0; c < op.from.cols; ++c) {
      double sum = 0;
      for (std::int64_t i = 0; i < op.batch; ++i) sum += from[at(op.from, i, r, c)];
      to[at(op.to, 0, r, c)] = sum;
    }
}

// Blocks side by side, `gap` elements after each, into one with `gap` elements before its rows.
struct Form {
  std::int64_t blocks, rows, cols, gap;
};

ops::SumBlocks make(Tensors& t, const Form& f, DType type) {
  const std::int64_t width = f.cols + f.gap;
  const Tensor from = t.in({f.rows, f.blocks * width}, type);
  const Shape sums{f.rows, width};
  const Tensor to = f.gap > 0 ? t.inout(sums, type) : t.out(sums, type);
  return {Matrix(from, f.rows, f.cols, f.blocks * width, 0, width), Matrix(to, f.rows, f.cols, width, f.gap), f.blocks};
}

const Cases<ops::SumBlocks> sum_blocks(reference, [](CaseList<ops::SumBlocks>& cases) {
  // Whole vectors, ragged ones, one block, and rows longer than a tile of the CPU's.
  const Form forms[] = {{1, 1, 1, 0},  {4, 3, 64, 32},  {16, 9, 8, 24},   {3, 7, 5, 3},
                        {1, 4, 32, 8}, {2, 2, 1100, 4}, {128, 2, 16, 16}, {5, 3, 33, 0}};
  for_types_and(forms, [&](DType type, const Form& f) {
    cases.add(fmt::format("{} {} blocks of {} x {}, gaps {}", name_of(type), f.blocks, f.rows, f.cols, f.gap),
              [=](Tensors& t) { return make(t, f, type); }, {.cpu = {2e-6, 4e-6}, .gpu = 2});
  });
  cases.timed("heads", [](Tensors& t) {
    return make(t, {kBenchHeads, kBenchTokens, kBenchHeadDim, 4 * kBenchHeadDim}, DType::f32);
  });
  cases.enqueued(1, [](Tensors& t) { return make(t, {16, 64, 64, 256}, DType::bf16); });
  cases.huge("heads", [](Tensors& t) { return make(t, {128, 1 << 20, 64, 256}, DType::bf16); });
});

}  // namespace
}  // namespace mbench::test
