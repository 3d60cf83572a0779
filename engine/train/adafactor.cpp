#include "engine/train/adafactor.h"

#include <cmath>

#include "engine/ops/adafactor.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "engine/plan/optimizer_plan.h"
#include "engine/point/architecture.h"

namespace mbench::train {
namespace {

// beta2 = 1 - step^-0.8: the paper's section 7.2, and what transformers has by default.
constexpr double kDecayRate = -0.8;

Axes that_cut(const nn::Parameter& p, int dim, const Mesh& mesh) {
  Axes axes;
  for (int i = 0; i < kAxes; ++i)
    if (const Axis axis = static_cast<Axis>(i); p.placement[axis].sharded(dim)) axes.add(axis);
  return mesh.real(axes);
}

// Rows for words that the vocabulary lacks have no gradient and no update; how many there are is the layout's, and so the mean
// square of an update leaves them out.
std::int64_t counted_rows(const WeightSpec& w, const Plan& plan) {
  const TableSpec table = embedding_of(plan.model, plan.vocab).word;
  if (w.name == table.name) return plan.model.vocab;
  const std::optional<LinearSpec> logits = head_of(plan.model, plan.vocab).logits;
  if (logits && (w.name == weight_of(*logits).name || w.name == bias_of(*logits).name)) return plan.model.vocab;
  return matrices_of(w.shape).rows;
}

// Places among tensors of sums, one for each set of axes that they go over.
class Sums {
 public:
  Sums(Device& device, const nn::Groups& groups) : device_(device), groups_(groups) {}
  std::int64_t add(Axes over, std::int64_t count) { return std::exchange(sizes_[over], sizes_[over] + count); }
  void allocate(std::string_view what) {
    for (const auto& [over, size] : sizes_) {
      sums_[over] = device_.empty({size}, DType::f32, Category::workspace, what);
      run(device_, ops::Fill{sums_[over], 0});
    }
  }
  Tensor at(Axes over, std::int64_t place, std::int64_t count) const { return sums_.at(over).part(place, {count}); }
  void reduce() const {
    for (const auto& [over, sum] : sums_)
      if (!over.empty()) groups_.over(over).run(comm::AllReduce{sum});
  }

 private:
  Device& device_;
  const nn::Groups& groups_;
  std::map<Axes, std::int64_t> sizes_;
  std::map<Axes, Tensor> sums_;
};

}  // namespace

std::vector<Adafactor::Matrix> Adafactor::matrices_of_step(const std::vector<Item>& items, float weight_decay) const {
  std::vector<Matrix> all;
  for (const Item& item : items) {
    const nn::Parameter& p = *item.parameter;
    const Matrices here = matrices_of(p.local), whole = matrices_of(p.spec.shape);
    const int row_dim = p.local.rank() == 1 ? 0 : p.local.rank() - 2, column_dim = row_dim + 1;
    const auto part = [](const Tensor& t, std::int64_t i, const Shape& shape) {
      return t ? t.part(i * shape.numel(), shape) : Tensor();
    };
    for (std::int64_t i = 0; i < here.count; ++i) {
      const Shape shape{here.rows, here.cols};
      Matrix m{part(item.main, i, shape),
               part(item.gradients, i, shape),
               part(item.model, i, shape),
               part(item.row, i, {here.rows}),
               part(item.column, i, {here.cols}),
               whole.rows,
               whole.cols,
               counted_rows(p.spec, plan_) * whole.cols,
               that_cut(p, row_dim, plan_.mesh),
               that_cut(p, column_dim, plan_.mesh),
               p.decays() ? weight_decay : 0};
      all.push_back(std::move(m));
    }
  }
  return all;
}

void Adafactor::step(const std::vector<Item>& items, const Step& step) {
  std::vector<Matrix> all = matrices_of_step(items, step.weight_decay);
  Sums factors(device_, groups_), squares(device_, groups_);
  std::vector<std::int64_t> square_at;
  for (Matrix& m : all) {
    m.row_at = factors.add(m.over_cols, m.row.numel());
    m.column_at = factors.add(m.over_rows, m.column.numel());
    square_at.push_back(squares.add(m.over_rows | m.over_cols, 1));
  }
  factors.allocate("Adafactor's sums");
  squares.allocate("Adafactor's squares");
  const Tensor means = device_.empty({std::max<std::int64_t>(1, static_cast<std::int64_t>(all.size()))}, DType::f32,
                                     Category::workspace, "Adafactor's means");
  const auto row_sum = [&](const Matrix& m) { return factors.at(m.over_cols, m.row_at, m.row.numel()); };
  const auto column_sum = [&](const Matrix& m) { return factors.at(m.over_rows, m.column_at, m.column.numel()); };

  for (const Matrix& m : all) {
    ops::AdafactorSums sums{m.gradient, row_sum(m), column_sum(m)};
    sums.grad_scale = step.gradient_scale;
    run(device_, sums);
  }
  factors.reduce();
  const auto beta2 = static_cast<float>(1 - std::pow(static_cast<double>(step.number), kDecayRate));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Matrix& m = all[i];
    const Tensor mean = means.slice(static_cast<std::int64_t>(i), 1);
    run(device_, ops::AdafactorMoments{row_sum(m), column_sum(m), m.row, m.column, mean, m.rows, m.cols,
                                       m.over_rows.empty(), beta2});
    run(device_, ops::AdafactorSquares{m.gradient, m.row, m.column, mean,
                                       squares.at(m.over_rows | m.over_cols, square_at[i], 1), step.gradient_scale});
  }
  squares.reduce();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Matrix& m = all[i];
    ops::AdafactorUpdate update;
    update.param = m.main, update.grad = m.gradient, update.model = m.model;
    update.row = m.row, update.column = m.column, update.mean = means.slice(static_cast<std::int64_t>(i), 1);
    update.squares = squares.at(m.over_rows | m.over_cols, square_at[i], 1);
    update.elements = m.elements;
    update.lr = step.lr, update.weight_decay = m.weight_decay, update.grad_scale = step.gradient_scale;
    run(device_, update);
  }
}

}  // namespace mbench::train
