#include "engine/ops/fp8_parts.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
namespace {

constexpr std::int64_t kBlock = ops::QuantiseBlocks::kBlock;

// f(row of blocks, block of it, first element of x, how many): the elements of a row that are here and share a block.
template <class Op, class F>
void for_each_run(const Op& op, const F& f) {
  const std::int64_t n = op.x.numel(), end = op.first + n;
  if (n == 0) return;
  const std::int64_t top = op.first / op.cols / kBlock, bottom = (end - 1) / op.cols / kBlock + 1;
  parallel_rows(bottom - top, kBlock * op.cols, [&](std::int64_t down) {
    const std::int64_t block_row = top + down, last = std::min(op.rows, (block_row + 1) * kBlock);
    for (std::int64_t row = block_row * kBlock; row < last; ++row)
      for (std::int64_t col = 0; col < op.cols; col += kBlock) {
        const std::int64_t at = row * op.cols + col, from = std::max(at, op.first),
                           to = std::min({at + kBlock, (row + 1) * op.cols, end});
        if (from < to) f(block_row, col / kBlock, from - op.first, to - from);
      }
  });
}

}  // namespace

template <>
void compute(CpuOps&, const ops::BlockMaxima& op) {
  const std::int64_t ld = op.amax.shape()[1];
  auto* amax = op.amax.as<float>();
  with_type(op.x.dtype(), [&](auto type) {
    const auto* x = op.x.as<decltype(type)>();
    for_each_run(op, [&](std::int64_t down, std::int64_t across, std::int64_t at, std::int64_t n) {
      float& most = amax[down * ld + across];
      for (std::int64_t i = at; i < at + n; ++i) {
        const float size = std::fabs(to_float(x[i]));
        most = size > most ? size : most;
      }
    });
  });
}

template <>
void compute(CpuOps&, const ops::QuantisePart& op) {
  const std::int64_t ld = op.scale.shape()[1];
  const auto* scales = op.scale.as<float>();
  auto* y = op.y.as<std::uint8_t>();
  with_type(op.x.dtype(), [&](auto type) {
    const auto* x = op.x.as<decltype(type)>();
    for_each_run(op, [&](std::int64_t down, std::int64_t across, std::int64_t at, std::int64_t n) {
      const float scale = scales[down * ld + across];
      for (std::int64_t i = at; i < at + n; ++i) y[i] = fp8_from_float<e4m3>(scale * to_float(x[i]));
    });
  });
}

}  // namespace mbench::cpu
