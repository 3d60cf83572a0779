#include "engine/nn/linear/linear.h"

#include <algorithm>
#include <utility>

#include "engine/nn/runtime/communicate.h"
#include "engine/nn/runtime/tensor_overlap.h"
#include "engine/nn/state/nf4_weights.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/run.h"
#include "engine/point/adapter_weights.h"

namespace mbench::nn {
namespace {

// Whether each rank's outputs go to all: a bias, which is cut as the weight is, is added before.
bool gathers_outputs(const Exchanges& exchanges) {
  return std::any_of(exchanges.begin(), exchanges.end(),
                     [](const Exchange& e) { return e.what == Collective::all_gather && e.dim == 2; });
}

Tensor part_of(const Tensor& t, std::int64_t first, std::int64_t count) {
  return t ? t.slice(first, count) : t;
}

}  // namespace

bool LinearSite::rings(const Exchanges& exchanges) const {
  return overlaps && gathers_sequence(exchanges);
}

bool LinearSite::keeps_gathered(const Context& c) const {
  return c.keeps().gathered_inputs && keeps_input() && !overlaps && gathers_sequence(input.forward);
}

bool LinearSite::leaves_in_pieces() const {
  return overlaps && scatters_sequence(output.forward);
}

Linear::Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec)
    : Linear(store, plan, spec, plan.role(spec.role)) {}

Linear::Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, const LinearPlan& linear,
               std::int64_t begin, std::int64_t count)
    : Linear(store, plan, spec, linear) {
  site_.begin = begin;
  site_.count = count;
}

Linear::Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, const LinearPlan& linear)
    : site_{.weight = store.add(weight_of(spec), linear.weight, linear.consumed.value, linear.gemm.value),
            .input = Transition::between(linear.input, linear.consumed, plan.mesh),
            .output = Transition::between(linear.gemm, linear.output, plan.mesh)},
      table_(spec.role == Role::vocabulary),
      gemms_(gemms_in_model_type(nullptr)) {
  add_bias(store, spec, linear);
  if (adapts(plan.adapter, spec)) adapter_.emplace(store, plan, spec, linear);
  site_.adapted = adapter_.has_value();
}

Linear::Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, Parameter* table)
    : site_{.weight = table}, table_(true), gemms_(gemms_in_model_type(nullptr)) {
  const LinearPlan& linear = plan.role(spec.role);
  site_.input = Transition::between(linear.input, linear.consumed, plan.mesh);
  site_.output = Transition::between(linear.gemm, linear.output, plan.mesh);
  add_bias(store, spec, linear);
}

void Linear::add_bias(ParameterStore& store, const LinearSpec& spec, const LinearPlan& linear) {
  bias_of_gemm_ = gathers_outputs(site_.output.forward);
  if (!spec.bias) return;
  // A bias is cut as the rows of its weight are.
  bias_ = store.add(bias_of(spec), cut_as(linear.weight, 0), bias_of_gemm_ ? linear.gemm.value : linear.output.value);
}

void Linear::in_layer(ParameterStore& store, const Plan& plan, bool keep_input, std::int64_t gemms) {
  site_.overlaps = plan.tp_comm_overlap;
  if (plan.tp_gathers == TpGathers::gemm && gathers_sequence(site_.input.forward)) separate_.emplace(gemms);
  if (plan.adapter.in_4_bits()) {
    store.keep_in_nf4(*site_.weight);
    gemms_ = gemms_in_model_type(&store.nf4());
  }
  if (plan.precision.fp8) gemms_ = gemms_in_fp8(store, site_, plan, keep_input);
}

bool Linear::fuses(const Context& c) const {
  return gemms_->fuses() && c.keeps().fused_epilogues;
}

bool Linear::fuses_output(const Context& c) const {
  return fuses(c) && !adapter_ && !separate_ && site_.output.forward.empty();
}

bool Linear::fuses_input_gradient(const Context& c) const {
  return fuses(c) && !adapter_ && site_.input.backward.empty();
}

bool Linear::scatters_output() const {
  return std::any_of(site_.output.forward.begin(), site_.output.forward.end(),
                     [](const Exchange& e) { return e.what == Collective::reduce_scatter; });
}

Tensor Linear::forward(Context& c, const Tensor& x, Saved& saved) const {
  return forward(c, x, saved, {});
}

Tensor Linear::forward_with_bias(Context& c, const Tensor& x, Saved& saved) const {
  if (!bias_ || fuses_output(c) || bias_of_gemm_) return forward(c, x, saved, {.bias = bias_ != nullptr});
  const Tensor y = forward(c, x, saved);
  run(c.device, ops::BiasAdd{y, bias(), y});
  return y;
}

Tensor Linear::forward(Context& c, const Tensor& x, Saved& saved, const Epilogue& epilogue) const {
  if (!table_) c.device.host_work(HostWork::gemm);
  if (separate_) return separate_->forward(c, site_, x, saved);
  auto input = gemms_->input(c, site_, x, saved);
  Shape wide = input->shape();
  wide[2] = local_outputs();
  if (site_.leaves_in_pieces()) {
    const Operand weight = gemms_->weight(c, site_, LinearGemms::Side::outputs);
    Tensor y;
    input->each([&](const Operand& whole, std::int64_t, std::int64_t) {
      y = scatter_in_pieces(c, site_.output.forward.front(), wide, gemms_->multiple_of_outputs(),
                            [&](const Tensor& piece, std::int64_t first) {
                              const Operand part = gemms_->part_of(weight, first, piece.shape()[2]);
                              gemms_->multiply(c, whole, part, LinearGemms::Side::outputs, piece, {});
                            });
    });
    return y;
  }
  if (epilogue.gelu_input) *epilogue.gelu_input = c.activation(wide, "linear output");
  const Tensor y = [&] {
    const InParts parts(parts_);
    return c.activation(wide, epilogue.gelu_input ? "gelu output" : "linear output");
  }();
  const bool adds_bias = epilogue.bias && fuses(c);
  Operand weight = gemms_->weight(c, site_, LinearGemms::Side::outputs);
  input->each([&](const Operand& part, std::int64_t first, std::int64_t count) {
    LinearGemms::Also also;
    if (adds_bias) also.bias = bias();
    if (epilogue.gelu_input) also.gelu_input = epilogue.gelu_input->slice(first, count);
    gemms_->multiply(c, part, weight, LinearGemms::Side::outputs, y.slice(first, count), also);
  });
  weight = {};
  if (adapter_) saved.low = adapter_->forward(c, input->plain(), y);
  input.reset();
  if (epilogue.bias && !adds_bias) run(c.device, ops::BiasAdd{y, bias(), y});
  return communicate(c, site_.output.forward, y);
}

void Linear::restore(Context& c, const Tensor& x, Saved& saved) const {
  if (separate_ || adapter_)
    forward(c, x, saved);
  else
    gemms_->input(c, site_, x, saved);
}

Tensor Linear::backward(Context& c, Tensor dy, Saved& saved, Tensor gelu_input) const {
  const bool trains = site_.weight->trains, leaves = c.later && trains;  // the weight's gradient to another action
  if (!table_) c.device.host_work(HostWork::gemm, leaves ? 1 : 2);
  // The bias belongs to the output: what the weight's gradient sees of it is the same only if nothing
  // travelled, or if it is the GEMM's.
  // A GEMM has one type for both gradients: where a weight's is a 16-bit tensor of its own, a bias's in f32 is none of its outputs.
  const bool one_type = c.weight_gradients() != WeightGradients::apart || c.plan.precision.gradients == c.dtype();
  const bool fused_bias =
      trains && fuses(c) && one_type && !separate_ && (site_.output.backward.empty() || bias_of_gemm_);
  if (!fused_bias && !bias_of_gemm_) add_bias_gradient(c, dy);
  if (separate_) return separate_->backward(c, site_, dy, saved);
  const auto gradient = gemms_->gradient(c, site_, dy);
  if (!fused_bias && bias_of_gemm_) add_bias_gradient(c, gradient->plain());
  // The input travels while its gradient is computed, and that while the weight's is.
  std::unique_ptr<ArrivingAgain> input;
  if (site_.keeps_input() && !leaves) input = gemms_->input_again(c, site_, saved, true);
  Shape wide = gradient->shape();
  wide[2] = site_.weight->local[1];
  Tensor dx = c.activation(wide, "linear input gradient");
  Operand weight = gemms_->weight(c, site_, LinearGemms::Side::input_gradient);
  gradient->each([&](const Operand& part, std::int64_t first, std::int64_t count) {
    const LinearGemms::Also also{.bias = {}, .gelu_input = {}, .gelu_grad_input = part_of(gelu_input, first, count)};
    gemms_->multiply(c, part, weight, LinearGemms::Side::input_gradient, dx.slice(first, count), also);
  });
  if (!trains) weight = {};
  gelu_input.reset();
  if (adapter_) adapter_->backward(c, gradient->plain(), input->finish().plain, std::exchange(saved.low, Tensor()), dx);
  Communication travelling(c, site_.input.backward, dx);
  dx.reset();
  // Gradients' buffers may be others when the action comes.
  const auto bias_gradient = [this, fused = bias_ && fused_bias] {
    return fused ? site_.rows(bias_->gradient) : Tensor();
  };
  if (leaves)
    c.leave([this, &c, of_output = gradient->for_weight_gradient(), kept = saved, bias_gradient] {
      if (!table_) c.device.host_work(HostWork::gemm);
      const Operand x = gemms_->input_again(c, site_, kept, false)->finish();
      gemms_->add_weight_gradient(c, site_, of_output, x, bias_gradient());
    });
  else if (trains)
    gemms_->add_weight_gradient(c, site_, gradient->for_weight_gradient(), input->finish(), bias_gradient());
  saved = {};
  return travelling.finish();
}

void Linear::add_bias_gradient(Context& c, const Tensor& dy) const {
  if (bias_ && bias_->trains) run(c.device, ops::BiasGrad{dy, site_.rows(bias_->gradient)});
}

Linear::Arrived Linear::arrive(Context& c, const Tensor& x) const {
  return {gemms_->whole_input(c, site_, x), x.shape()[1]};
}

void Linear::keep_input(const Context& c, Tensor own, const Arrived& arrived, Saved& saved) const {
  if (arrived.input.plain && site_.keeps_gathered(c))
    saved.gathered = {arrived.input.plain};
  else
    saved.x = std::move(own);
}

Tensor Linear::make(Context& c, const Arrived& arrived, const Outputs& o) const {
  c.device.host_work(HostWork::gemm);
  const Operand& in = arrived.input;
  const std::int64_t tokens = in.plain ? in.plain.shape().rows() : in.fp8.outer();
  const Tensor y =
      c.activation({tokens / arrived.batch, arrived.batch, o.groups * o.count}, "a part of a linear output");
  gemms_->multiply_some(c, site_, in, o, y);
  return y;
}

}  // namespace mbench::nn
