#include "engine/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/ops.h"

namespace mbench {
namespace {

constexpr Axes kModelParallel{Axis::tp, Axis::pp};
constexpr Axes kExpertParallel{Axis::etp, Axis::ep, Axis::pp};

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
      model_parallel_(groups.over(kModelParallel)),
      expert_parallel_(groups.over(plan.model.experts > 0 ? kExpertParallel : kModelParallel)),
      scaler_(plan.precision.loss_scaling) {
  m_ = device.empty({store.size()}, DType::f32, Category::optimizer, "Adam first moment");
  v_ = device.empty({store.size()}, DType::f32, Category::optimizer, "Adam second moment");
  norm_ = device.empty({1}, DType::f32, Category::optimizer, "gradient norm");
  if (plan.model.experts > 0)
    experts_norm_ = device.empty({1}, DType::f32, Category::optimizer, "gradient norm of experts");
  run(device, ops::Fill{m_, 0});
  run(device, ops::Fill{v_, 0});
  // A parameter that several of the ranks hold is counted by the first of them alone. The alignment gaps between
  // parameters have zero gradients and weights and so may be part of any range.
  const auto counts = [&](const Parameter& p, Axes axes) {
    for (const Axis axis : axes.list())
      if (groups.coordinate(axis) > 0 && !p.placement[axis].sharded()) return false;
    return p.counted;
  };
  const auto& all = store.all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Parameter& p = *all[i];
    const ops::ElementRange range{p.offset, i + 1 < all.size() ? all[i + 1]->offset : store.size()};
    const bool expert = is_expert(p.spec.role);
    if (counts(p, expert ? Axes{Axis::etp, Axis::ep} : Axes{Axis::tp}))
      append(expert ? experts_ : counted_, range);
    if (!p.decays()) append(undecayed_, range);
  }
}

float Optimizer::global_norm(const Tensor& gradients, float scale) {
  run(device_, ops::Fill{norm_, 0});
  if (!counted_.empty()) run(device_, ops::SumSquares{gradients, norm_, counted_});
  model_parallel_.all_reduce(norm_);
  if (experts_norm_) {
    run(device_, ops::Fill{experts_norm_, 0});
    if (!experts_.empty()) run(device_, ops::SumSquares{gradients, experts_norm_, experts_});
    expert_parallel_.all_reduce(experts_norm_);
    run(device_, ops::Add{norm_, experts_norm_, norm_});
  }
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
  Tensor gradients = store_.gradients();
  if (plan_.graph.gradient_copy_in_f32 && gradients.dtype() != DType::f32) {
    const Tensor copy =
        device_.empty(gradients.shape(), DType::f32, Category::gradients, "f32 copy of the gradients");
    run(device_, ops::Copy{gradients, copy, scale});
    gradients = copy;
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
  const bool separate = store_.main().data() != store_.weights().data();
  ops::Adam adam{store_.main(), gradients, m_, v_};
  if (separate) adam.model = store_.weights();
  adam.lr = lr;
  adam.weight_decay = static_cast<float>(p.weight_decay);
  adam.grad_scale = scale;
  adam.step = steps_taken_;
  adam.undecayed = undecayed_;
  run(device_, adam);
  return outcome;
}

}  // namespace mbench
