#include "engine/nn/parameters.h"

#include "engine/base/text.h"
#include "engine/ops/ops.h"

namespace mbench {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: a cache line of f32, and 128 bytes of 16-bit weights
constexpr Axes kDataAxes{Axis::cp, Axis::dp, Axis::edp};

}  // namespace

Parameter* ParameterStore::add(const WeightSpec& spec, const Spread& placement, const Spread& tokens,
                               const Spread& outputs) {
  auto p = std::make_unique<Parameter>();
  p->spec = spec;
  p->placement = placement;
  p->reduce_over = plan_.mesh.real(reduce_over(placement, tokens, outputs));
  p->local = spec.shape;
  for (int i = 0; i < kAxes; ++i)
    if (const Placement& place = placement[static_cast<Axis>(i)]; place.sharded())
      p->local[place.dim] /= plan_.mesh.size(static_cast<Axis>(i));
  p->unit = unit_count();
  p->offset = size_;
  size_ += (p->local.numel() + kAlignment - 1) / kAlignment * kAlignment;
  parameters_.push_back(std::move(p));
  return parameters_.back().get();
}

int ParameterStore::close_unit() {
  ParameterUnit unit;
  for (std::size_t i = closed_; i < parameters_.size(); ++i) {
    Parameter* p = parameters_[i].get();
    const std::int64_t end = i + 1 < parameters_.size() ? parameters_[i + 1]->offset : size_;
    const Axes data = p->reduce_over & kDataAxes;
    unit.parameters_.push_back(p);
    if (!unit.runs_.empty() && unit.runs_.back().data == data)
      unit.runs_.back().end = end;
    else
      unit.runs_.push_back({p->offset, end, data});
  }
  closed_ = parameters_.size();
  units_.push_back(std::move(unit));
  return unit_count() - 1;
}

Tensor ParameterStore::add_state(const Shape& shape, std::string_view what) {
  const Tensor state = device_.empty(shape, DType::f32, Category::other, what);
  run(device_, ops::Fill{state, 0});
  return state;
}

void ParameterStore::begin_use(int index) {
  ParameterUnit& unit = units_[static_cast<std::size_t>(index)];
  if (unit.users_++ > 0) return;
  for (Parameter* p : unit.parameters_) {
    p->value = weights_.part(p->offset, p->local);
    p->gradient = gradient_of(*p);
  }
}

void ParameterStore::end_use(int index) {
  ParameterUnit& unit = units_[static_cast<std::size_t>(index)];
  if (--unit.users_ > 0) return;
  for (Parameter* p : unit.parameters_) {
    p->value.reset();
    p->gradient.reset();
  }
}

void ParameterStore::allocate_and_initialise() {
  const PrecisionPlan& precision = plan_.precision;
  weights_ = device_.empty({size_}, precision.model, Category::weights, "weights");
  gradients_ = device_.empty({size_}, precision.gradients, Category::gradients, "gradients");
  main_ = precision.main_weights()
              ? device_.empty({size_}, DType::f32, Category::optimizer, "f32 main weights")
              : weights_;
  run(device_, ops::Fill{main_, 0});
  run(device_, ops::Fill{gradients_, 0});
  for (const auto& p : parameters_) initialise(*p);
  if (precision.main_weights()) run(device_, ops::Copy{main_, weights_});
}

void ParameterStore::initialise(const Parameter& p) {
  const Tensor target = main_.part(p.offset, p.local);
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
  if (shape.rank() == 2) return draw_rows(p, target, first[0], first[1]);
  check(shape.rank() == 3, "parameters", "{} of {} dims is drawn, need 2 or 3", p.name(), shape.rank());
  for (std::int64_t e = 0; e < extent[0]; ++e)  // matrices, one below the other
    draw_rows(p, target.slice(e, 1).view({extent[1], extent[2]}), (first[0] + e) * shape[1] + first[1],
              first[2]);
}

// Rows of `target` from row and column (row0, col0) of the parameter on, drawn as those of the weight that they are of.
void ParameterStore::draw_rows(const Parameter& p, const Tensor& target, std::int64_t row0,
                               std::int64_t col0) {
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
    run(device_, draw);
    r += count;
  }
}

}  // namespace mbench
