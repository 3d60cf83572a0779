#include "engine/nn/moe/shared_expert.h"

#include <utility>

#include "engine/ops/add.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/run.h"
#include "engine/ops/scale_rows.h"
#include "engine/ops/sigmoid.h"

namespace mbench::nn {
namespace {

// Megatron-Core's FP8 shared experts keep their input as one whose norm is run again does: as it arrives.
Regions dropped(const Plan& plan, Regions drop) {
  const std::optional<Fp8Recipe> recipe = plan.precision.fp8;
  if (plan.keeps().original_shared_input && recipe && recipe != Fp8Recipe::delayed) drop.add(Region::norm);
  return drop;
}

}  // namespace

void SharedExpert::Saved::add_inputs(std::vector<Tensor*>& all) {
  if (gated) all.push_back(&gate_linear.x);
  if (!mlp || gathered) return;
  for (Tensor* input : mlp->inputs()) all.push_back(input);
}

SharedExpert::SharedExpert(ParameterStore& store, const Plan& plan, const MoeSpec& spec, Regions drop)
    : inside_(plan.keeps().shared_experts == SharedExperts::in_parts ? plan_inside(plan) : nullptr),
      outside_(plan),
      mlp_(store, inside_ ? *inside_ : plan, *spec.shared, dropped(plan, drop)) {
  if (spec.shared_gate) gate_.emplace(store, plan, *spec.shared_gate);
}

void SharedExpert::open(Context& c, const Tensor& x, Saved& saved) const {
  if (!gate_) return;
  saved.gated = true;
  const Tensor logits = gate_->forward(c, x, saved.gate_linear);
  saved.gate = c.device.empty(logits.shape(), DType::f32, Category::activations, "gate of the shared expert");
  run(c.device, ops::Sigmoid{logits, saved.gate});
}

Tensor SharedExpert::scaled(Context& c, Tensor output, Saved& saved) const {
  if (!gate_) return output;
  saved.output = std::move(output);
  if (const Tensor bias = mlp_.bias()) run(c.device, ops::BiasAdd{saved.output, bias, saved.output});
  const Tensor y = c.activation(saved.output.shape(), "gated output of the shared expert");
  run(c.device, ops::ScaleRows{saved.output, saved.gate, y});
  return y;
}

Tensor SharedExpert::scaled_backward(Context& c, Tensor dy, Saved& saved, Tensor& dlogits) const {
  if (!gate_) return dy;
  const Tensor dgate =
      c.device.empty(saved.gate.shape(), DType::f32, Category::activations, "gradient of the shared expert's gate");
  dlogits = c.activation(saved.gate.shape(), "gradient of the gate's logits");
  const Tensor doutput = c.activation(dy.shape(), "gradient of the shared expert's output");
  run(c.device, ops::ScaleRowsGrad{dy, std::exchange(saved.output, Tensor()), saved.gate, doutput, dgate});
  dy.reset();
  run(c.device, ops::SigmoidGrad{dgate, std::exchange(saved.gate, Tensor()), dlogits});
  return doutput;
}

void SharedExpert::open_backward(Context& c, Tensor dlogits, const Tensor& dx, Saved& saved) const {
  if (gate_) run(c.device, ops::Add{dx, gate_->backward(c, dlogits, saved.gate_linear), dx});
}

Tensor SharedExpert::forward(Context& c, const MicroBatch& batch, Tensor x, Saved& saved) const {
  open(c, x, saved);
  return scaled(c, mlp_.forward(c, batch, std::move(x), saved.mlp), saved);
}

Tensor SharedExpert::backward(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved) const {
  Tensor dlogits;
  Tensor doutput = scaled_backward(c, std::move(dy), saved, dlogits);
  const Tensor dx = mlp_.backward(c, batch, std::move(doutput), saved.mlp);
  open_backward(c, std::move(dlogits), dx, saved);
  return dx;
}

void SharedExpert::start(Context& c, const Tensor& x, Saved& saved, Passing& passing) const {
  if (std::exchange(passing.started, true)) return;
  open(c, x, saved);
  saved.gathered = !outside_.gather.forward.empty();
  passing.travelling = std::make_unique<Communication>(c, outside_.gather.forward, x);
}

void SharedExpert::first(Context& c, Saved& saved, Passing& passing) const {
  Tensor x = std::exchange(passing.travelling, nullptr)->finish();
  passing.between = mlp_.first(c, x, saved.mlp);
}

void SharedExpert::second(Context& c, Saved& saved, Passing& passing) const {
  const Tensor output = mlp_.second(c, std::exchange(passing.between, Tensor()), *saved.mlp);
  passing.travelling = std::make_unique<Communication>(c, outside_.reduce.forward, output);
}

Tensor SharedExpert::finish(Context& c, Saved& saved, Passing& passing) const {
  return scaled(c, std::exchange(passing.travelling, nullptr)->finish(), saved);
}

void SharedExpert::start_backward(Context& c, Tensor dy, Saved& saved, Passing& passing) const {
  const Tensor doutput = scaled_backward(c, std::move(dy), saved, passing.dlogits);
  passing.travelling = std::make_unique<Communication>(c, outside_.reduce.backward, doutput);
}

void SharedExpert::second_backward(Context& c, Saved& saved, Passing& passing) const {
  passing.between = mlp_.second_backward(c, std::exchange(passing.travelling, nullptr)->finish(), *saved.mlp);
}

void SharedExpert::first_backward(Context& c, Saved& saved, Passing& passing) const {
  const Tensor dx = mlp_.first_backward(c, std::exchange(passing.between, Tensor()), *saved.mlp);
  passing.travelling = std::make_unique<Communication>(c, outside_.gather.backward, dx);
}

Tensor SharedExpert::finish_backward(Context& c, Saved& saved, Passing& passing) const {
  const Tensor dx = std::exchange(passing.travelling, nullptr)->finish();
  open_backward(c, std::exchange(passing.dlogits, Tensor()), dx, saved);
  return dx;
}

}  // namespace mbench::nn
