#include "engine/nn/moe/shared_expert.h"

#include <utility>

#include "engine/ops/add.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/run.h"
#include "engine/ops/scale_rows.h"
#include "engine/ops/sigmoid.h"

namespace mbench::nn {

void SharedExpert::Saved::add_inputs(std::vector<Tensor*>& all) {
  if (gated) all.push_back(&gate_linear.x);
  if (!mlp) return;
  for (Tensor* input : mlp->inputs()) all.push_back(input);
}

SharedExpert::SharedExpert(ParameterStore& store, const Plan& plan, const MoeSpec& spec, Regions drop)
    : mlp_(store, plan, *spec.shared, drop) {
  if (spec.shared_gate) gate_.emplace(store, plan, *spec.shared_gate);
}

Tensor SharedExpert::forward(Context& c, const MicroBatch& batch, Tensor x, Saved& saved) const {
  if (!gate_) return mlp_.forward(c, batch, std::move(x), saved.mlp);
  saved.gated = true;
  {
    const Tensor logits = gate_->forward(c, x, saved.gate_linear);
    saved.gate = c.device.empty(logits.shape(), DType::f32, Category::activations, "gate of the shared expert");
    run(c.device, ops::Sigmoid{logits, saved.gate});
  }
  saved.output = mlp_.forward(c, batch, std::move(x), saved.mlp);
  if (const Tensor bias = mlp_.bias()) run(c.device, ops::BiasAdd{saved.output, bias, saved.output});
  const Tensor y = c.activation(saved.output.shape(), "gated output of the shared expert");
  run(c.device, ops::ScaleRows{saved.output, saved.gate, y});
  return y;
}

Tensor SharedExpert::backward(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved) const {
  if (!gate_) return mlp_.backward(c, batch, std::move(dy), saved.mlp);
  const Tensor dgate = c.device.empty(saved.gate.shape(), DType::f32, Category::activations,
                                      "gradient of the shared expert's gate"),
               dlogits = c.activation(saved.gate.shape(), "gradient of the gate's logits"),
               doutput = c.activation(dy.shape(), "gradient of the shared expert's output");
  run(c.device, ops::ScaleRowsGrad{dy, std::exchange(saved.output, Tensor()), saved.gate, doutput, dgate});
  dy.reset();
  run(c.device, ops::SigmoidGrad{dgate, std::exchange(saved.gate, Tensor()), dlogits});
  const Tensor dx = mlp_.backward(c, batch, doutput, saved.mlp);
  run(c.device, ops::Add{dx, gate_->backward(c, dlogits, saved.gate_linear), dx});
  return dx;
}

}  // namespace mbench::nn
