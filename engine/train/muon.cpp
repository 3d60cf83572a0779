#include "engine/train/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/ops/copy.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/matmul.h"
#include "engine/ops/muon.h"
#include "engine/ops/run.h"
#include "engine/ops/sum_squares.h"
#include "engine/plan/optimizer_plan.h"

namespace mbench::train {
namespace {

// x becomes a x + (b s + c s s) x, s = x x^T, so often (Jordan et al. 2024).
constexpr int kIterations = 5;
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
constexpr double kUpdateRms = 0.2;  // AdamW's usual one

}  // namespace

Muon::Muon(Device& device, const Plan& plan, const nn::Groups& groups)
    : device_(device),
      plan_(plan),
      groups_(groups),
      type_(plan.precision.model == DType::f32 ? DType::f32 : DType::bf16) {}

Tensor Muon::room(const Shape& shape, std::string_view what) const {
  return device_.empty(shape, type_, Category::workspace, what);
}

Muon::Cut Muon::cut_of(const nn::Parameter& p) const {
  Cut cut;
  const int row_dim = p.local.rank() - 2;
  for (int i = 0; i < kAxes; ++i)
    for (const int dim : {0, 1})
      if (const Axis axis = static_cast<Axis>(i); p.placement[axis].sharded(row_dim + dim)) {
        cut.axes.add(axis);
        cut.dim = dim;
      }
  cut.axes = plan_.mesh.real(cut.axes);
  return cut;
}

Tensor Muon::whole(const Tensor& part, const Cut& cut) const {
  if (cut.axes.empty()) return part;
  comm::Group& ranks = groups_.over(cut.axes);
  const std::int64_t n = ranks.size(), rows = part.shape()[0], cols = part.shape()[1];
  const Tensor parts = room({n * rows, cols}, "parts of a matrix");
  ranks.run(comm::AllGather{part, parts});
  if (cut.dim == 0) return parts;
  const Tensor joined = room({rows, n * cols}, "a whole matrix");
  run(device_, ops::CopyBlocks{ops::Matrix(parts, rows, cols, cols, 0, rows * cols),
                               ops::Matrix(joined, rows, cols, n * cols, 0, cols), n});
  return joined;
}

Tensor Muon::own(const Tensor& whole, const Shape& shape, const Cut& cut) const {
  if (cut.axes.empty()) return whole;
  const std::int64_t rank = groups_.over(cut.axes).rank(), rows = shape[0], cols = shape[1];
  if (cut.dim == 0) return whole.slice(rank * rows, rows);
  const Tensor part = room(shape, "a rank's part of a matrix");
  run(device_, ops::CopyBlocks{ops::Matrix(whole, rows, cols, whole.shape()[1], rank * cols), ops::Matrix(part), 1});
  return part;
}

Tensor Muon::orthogonalised(Tensor x) const {
  // By the product of the shorter side, which is symmetric: a wide matrix is multiplied from the left, a tall one from the right.
  const bool wide = x.shape()[0] <= x.shape()[1];
  const std::int64_t side = wide ? x.shape()[0] : x.shape()[1];
  const Tensor gram = room({side, side}, "Muon's x x^T"), factor = room({side, side}, "Muon's factor");
  Tensor next = room(x.shape(), "Muon's next x");
  for (int i = 0; i < kIterations; ++i) {
    const ops::Matrix m(x);
    run(device_, ops::Matmul{wide ? m : m.t(), wide ? m.t() : m, ops::Matrix(gram)});
    run(device_, ops::Copy{gram, factor});
    run(device_, ops::Matmul{ops::Matrix(gram), ops::Matrix(gram), ops::Matrix(factor), 1, kC, kB});
    run(device_, ops::Copy{x, next});
    run(device_,
        ops::Matmul{wide ? ops::Matrix(factor) : m, wide ? m : ops::Matrix(factor), ops::Matrix(next), 1, 1, kA});
    std::swap(x, next);
  }
  return x;
}

void Muon::update(const Item& matrix, const Cut& cut, const Step& step) {
  const Shape& shape = matrix.gradients.shape();
  Tensor x = room(shape, "Muon's update");
  ops::MuonMomentum momentum{matrix.gradients, matrix.momentum, x};
  momentum.grad_scale = step.gradient_scale;
  run(device_, momentum);
  x = whole(x, cut);
  const Tensor squares = device_.empty({1}, DType::f32, Category::workspace, "Muon's squares");
  run(device_, ops::Fill{squares, 0});
  run(device_, ops::SumSquares{x, squares});
  run(device_, ops::MuonNormalise{x, squares, x});
  x = orthogonalised(std::move(x));
  const auto larger = static_cast<double>(std::max(x.shape()[0], x.shape()[1]));
  ops::MuonUpdate update{matrix.main, own(x, shape, cut), matrix.model};
  update.lr = static_cast<float>(step.lr * kUpdateRms * std::sqrt(larger));
  update.decay = step.lr * step.weight_decay;
  run(device_, update);
}

void Muon::step(const std::vector<Item>& items, const Step& step) {
  for (const Item& item : items) {
    const nn::Parameter& p = *item.parameter;
    const Cut cut = cut_of(p);
    const Matrices m = matrices_of(p.local);
    const Shape shape{m.rows, m.cols};
    const auto part = [&](const Tensor& t, std::int64_t i) {
      return t ? t.part(i * m.rows * m.cols, shape) : Tensor();
    };
    for (std::int64_t i = 0; i < m.count; ++i)
      update({item.parameter, part(item.main, i), part(item.gradients, i), part(item.model, i), part(item.momentum, i)},
             cut, step);
  }
}

}  // namespace mbench::train
