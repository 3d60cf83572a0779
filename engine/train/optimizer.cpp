#include "engine/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/adam.h"
#include "engine/ops/copy.h"
#include "engine/ops/ranges.h"
#include "engine/ops/run.h"
#include "engine/ops/sum_squares.h"

namespace mbench {
namespace {

constexpr Axes kModelParallel{Axis::tp, Axis::pp};

void append(std::vector<ops::ElementRange>& ranges, const ops::ElementRange& next) {
  if (!ranges.empty() && ranges.back().end == next.begin)
    ranges.back().end = next.end;
  else
    ranges.push_back(next);
}

}  // namespace

void LossScaler::update(bool overflow) {
  if (!dynamic_) return;
  if (overflow) {
    scale_ = std::max(1.0f, scale_ / 2);
    good_steps_ = 0;
  } else if (++good_steps_ == kGrowthInterval) {
    scale_ *= 2;
    good_steps_ = 0;
  }
}

Optimizer::Optimizer(Device& device, const Plan& plan, const ParameterStore& store, const Groups& groups)
    : device_(device),
      plan_(plan),
      store_(store),
      groups_(groups),
      everyone_(plan.state.sharded() || plan.model.experts > 0),
      norm_group_(everyone_ ? groups.all() : groups.over(kModelParallel)),
      scaler_(plan.precision.loss_scaling) {
  const Shape owned{store.layout().owned()};
  m_ = device.empty(owned, plan.precision.moments, Category::optimizer, "Adam first moment");
  v_ = device.empty(owned, plan.precision.moments, Category::optimizer, "Adam second moment");
  norm_ = device.empty({1}, DType::f32, Category::optimizer, "gradient norm");
  run(device, ops::Fill{m_, 0});
  run(device, ops::Fill{v_, 0});
  make_pieces();
}

void Optimizer::make_pieces() {
  const std::vector<StateLayout::Own>& all = store_.layout().own();
  const StatePlan& state = store_.state();
  const bool everywhere_sharded = state.weights.sharded() && state.gradients.sharded();
  for (std::size_t i = 0; i < all.size();) {
    // What lies together in every tensor is updated together.
    std::size_t next = i + 1;
    while (next < all.size() && (everywhere_sharded || all[next].begin == all[next - 1].end)) ++next;
    const StateLayout::Own &first = all[i], &last = all[next - 1];
    const std::int64_t size = last.at + last.size() - first.at;
    const auto piece_of = [&](const Tensor& flat, const Placement& place) {
      return flat.part(place.sharded() ? first.at : first.begin, {size});
    };
    Piece piece;
    piece.at = first.at;
    piece.m = m_.part(first.at, {size});
    piece.v = v_.part(first.at, {size});
    piece.gradients = piece_of(store_.gradients(), state.gradients);
    piece.main = piece_of(store_.weights(), state.weights);
    if (plan_.precision.main_weights())
      piece.model = std::exchange(piece.main, piece_of(store_.main(), state.optimizer));
    for (; i < next; ++i) mark(all[i], piece, all[i].at - piece.at);
    pieces_.push_back(std::move(piece));
  }
}

// Whether this rank counts what it owns of a parameter: of the ranks that own the same, the first does.
bool Optimizer::counts(const Parameter& p) const {
  if (!p.counted) return false;
  constexpr Axes kDense{Axis::tp, Axis::cp, Axis::dp}, kExperts{Axis::etp, Axis::ep, Axis::edp};
  Axes copies = !everyone_ ? Axes{Axis::tp} : is_expert(p.spec.role) ? kExperts : kDense;
  if (store_.state().sharded()) copies = copies - (p.reduce_over & kDataAxes);
  for (const Axis axis : copies.list())
    if (groups_.coordinate(axis) > 0 && !p.placement[axis].sharded()) return false;
  return true;
}

// Which elements of an own part, that begins there in the piece, count in the norm and which are not decayed. The alignment gaps between parameters have zero gradients
// and weights and so may be part of any range.
void Optimizer::mark(const StateLayout::Own& own, Piece& piece, std::int64_t begin) const {
  for (const auto& p : store_.all()) {
    const StateLayout::Range& all = store_.layout().range(p->index);
    const std::int64_t from = std::max(all.begin, own.begin), to = std::min(all.end, own.end);
    if (from >= to) continue;
    const ops::ElementRange range{begin + from - own.begin, begin + to - own.begin};
    if (counts(*p)) append(piece.counted, range);
    if (!p->decays()) append(piece.undecayed, range);
  }
}

float Optimizer::global_norm(const std::vector<Tensor>& gradients, float scale) {
  run(device_, ops::Fill{norm_, 0});
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    if (const auto& counted = pieces_[i].counted; !counted.empty())
      run(device_, ops::SumSquares{gradients[i], norm_, counted});
  norm_group_.all_reduce(norm_);
  return std::sqrt(device_.read(norm_, 1.0f)) * scale;
}

float Optimizer::learning_rate() const {
  const TrainingPlan& p = plan_.training;
  const double ramp =
      p.lr_warmup > 0 ? std::min(1.0, static_cast<double>(steps_seen_ + 1) / static_cast<double>(p.lr_warmup))
                      : 1.0;
  return static_cast<float>(p.learning_rate * ramp);
}

Optimizer::Outcome Optimizer::step() {
  const TrainingPlan& p = plan_.training;
  float scale = 1 / scaler_.scale();
  std::vector<Tensor> gradients;  // by piece
  for (const Piece& piece : pieces_) gradients.push_back(piece.gradients);
  if (plan_.graph.gradient_copy_in_f32 && store_.gradients().dtype() != DType::f32) {
    const Tensor copy =
        device_.empty(m_.shape(), DType::f32, Category::gradients, "f32 copy of the gradients");
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Tensor place = copy.part(pieces_[i].at, gradients[i].shape());
      run(device_, ops::Copy{gradients[i], place, scale});
      gradients[i] = place;
    }
    scale = 1;
  }
  Outcome outcome;
  outcome.gradient_norm = global_norm(gradients, scale);
  const bool overflow = !std::isfinite(outcome.gradient_norm);
  outcome.skipped = overflow && plan_.precision.loss_scaling;
  scaler_.update(outcome.skipped);
  const float lr = learning_rate();
  ++steps_seen_;
  if (overflow) return outcome;  // in other precisions the caller calls the point wrong

  if (p.clip_grad > 0)
    scale *= std::min(1.0f, static_cast<float>(p.clip_grad) / (outcome.gradient_norm + 1e-6f));
  ++steps_taken_;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    ops::Adam adam{piece.main, gradients[i], piece.m, piece.v, piece.model};
    adam.lr = lr;
    adam.weight_decay = static_cast<float>(p.weight_decay);
    adam.grad_scale = scale;
    adam.step = steps_taken_;
    adam.undecayed = piece.undecayed;
    run(device_, adam);
  }
  return outcome;
}

}  // namespace mbench
