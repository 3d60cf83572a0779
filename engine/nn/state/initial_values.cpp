#include "engine/nn/state/initial_values.h"

#include <algorithm>

#include "engine/base/text.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/copy.h"
#include "engine/ops/random_normal.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// Initial values of which only a part is kept are drawn by so many: far below what a step takes.
constexpr std::int64_t kBlock = std::int64_t{1} << 20;

}  // namespace

void InitialValues::by_blocks(const Parameter& p, const Wanted& wanted, const Keep& keep) const {
  if (p.spec.stddev == 0 && p.spec.constant == 0) return;
  const std::int64_t cols = p.local.cols(), rows = p.local.numel() / cols,
                     step = std::max<std::int64_t>(1, kBlock / cols);
  bool drawn = false;  // a whole block
  for (std::int64_t row = 0; row < rows; row += step) {
    // Without values one whole block stands for all: the memory that each takes is free again when the next one comes.
    if (drawn && !device_.real()) row = std::max(row, rows / step * step);
    const std::int64_t count = std::min(step, rows - row), begin = p.offset + row * cols;
    if (count == 0) break;
    if (!wanted(begin, begin + count * cols)) continue;
    drawn = drawn || count == step;
    const Tensor block = device_.empty({count, cols}, DType::f32, Category::workspace, "initial values being drawn");
    set_rows(p, block, row);
    keep(block.view({count * cols}), begin);
  }
}

// Rows of this rank's part of a parameter, from `row` on.
void InitialValues::set_rows(const Parameter& p, const Tensor& target, std::int64_t row) const {
  if (!device_.real()) return;  // no step takes this time
  if (p.spec.stddev == 0) {
    if (p.spec.constant != 0) run(device_, ops::Fill{target, p.spec.constant});
    return;
  }
  // Where this rank's part begins; of two axes that cut one dim the outer one cuts first.
  const Shape& shape = p.spec.shape;
  std::vector<std::int64_t> first, extent;
  for (int d = 0; d < shape.rank(); ++d) first.push_back(0), extent.push_back(shape[d]);
  for (int i = kAxes; i-- > 0;) {
    const Axis axis = static_cast<Axis>(i);
    if (const Placement& place = p.placement[axis]; place.sharded()) {
      const auto dim = static_cast<std::size_t>(place.dim);
      extent[dim] /= plan_.mesh.size(axis);
      first[dim] += extent[dim] * groups_.coordinate(axis);
    }
  }
  // Rows of matrices, one below the other where there are several.
  const bool several = shape.rank() == 3;
  const std::int64_t height = several ? extent[1] : extent[0];
  const Tensor rows = target.view({target.numel() / p.local.cols(), p.local.cols()});
  for (std::int64_t r = 0; r < rows.shape()[0];) {
    const std::int64_t matrix = several ? (row + r) / height : 0, at = (row + r) - matrix * height,
                       count = std::min(height - at, rows.shape()[0] - r);
    const Tensor part = count == rows.shape()[0] ? rows : rows.slice(r, count);
    if (several)
      draw_rows(p, part, (first[0] + matrix) * shape[1] + first[1] + at, first[2]);
    else if (shape.rank() == 1)  // one row
      draw_rows(p, part, 0, first[0]);
    else
      draw_rows(p, part, first[0] + at, first[1]);
    r += count;
  }
}

// Rows of `target` from row and column (row0, col0) of the parameter on, drawn as those of the weight that they are of.
void InitialValues::draw_rows(const Parameter& p, const Tensor& target, std::int64_t row0, std::int64_t col0) const {
  const std::string& name = p.spec.rows_of ? p.spec.rows_of->whole : p.name();
  const std::int64_t rows = target.shape().rows();
  for (std::int64_t r = 0; r < rows;) {
    std::int64_t count = rows - r, from = row0 + r;
    if (const auto& of = p.spec.rows_of) {
      count = std::min(count, of->block - from % of->block);
      from = from / of->block * of->stride + of->first + from % of->block;
    }
    ops::RandomNormal draw{count == rows ? target : target.slice(r, count),
                           p.spec.stddev,
                           {plan_.training.seed, fnv1a(name), 0},
                           p.spec.shape.cols()};
    draw.row0 = from;
    draw.col0 = col0;
    draw.mean = p.spec.constant;
    run(device_, draw);
    r += count;
  }
}

}  // namespace mbench::nn
