#include "engine/nn/linear/adapter.h"

#include "engine/nn/linear/weight_gradient.h"
#include "engine/ops/add.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"
#include "engine/plan/adapter_placement.h"
#include "engine/point/adapter_weights.h"

namespace mbench::nn {
namespace {

void scale(Context& c, const Tensor& t, float factor) {
  if (factor != 1) run(c.device, ops::Scale{t, t, factor});
}

// y += a b. A framework that fuses no epilogues makes the product in a tensor of its own and adds it.
void add_product(Context& c, const ops::Matrix& a, const ops::Matrix& b, const Tensor& y) {
  if (c.keeps().fused_epilogues) {
    ops::Matmul gemm{a, b, ops::Matrix(y)};
    gemm.beta = 1;
    return run(c.device, gemm);
  }
  const Tensor made = c.activation(y.shape(), "output of an adapter");
  run(c.device, ops::Matmul{a, b, ops::Matrix(made)});
  run(c.device, ops::Add{y, made, y});
}

// weight's gradient += dy^T x
void add_gradient(Context& c, const Tensor& dy, const Tensor& x, Parameter& weight) {
  WeightGradient made(c, weight, weight.gradient);
  ops::Matmul gemm{ops::Matrix(dy).t(), ops::Matrix(x), ops::Matrix(made.target())};
  gemm.beta = made.beta();
  run(c.device, gemm);
  made.finish();
}

}  // namespace

Adapter::Adapter(ParameterStore& store, const Plan& plan, const LinearSpec& spec, const LinearPlan& linear)
    : scale_(plan.adapter.scale()) {
  const auto add = [&](const WeightSpec& weight) {
    return store.add(weight, adapter_placement(linear.weight, weight), linear.consumed.value, linear.gemm.value);
  };
  a_ = add(adapter_a(plan.adapter, spec));
  b_ = add(adapter_b(plan.adapter, spec));
}

Tensor Adapter::forward(Context& c, const Tensor& x, const Tensor& y) const {
  c.device.host_work(HostWork::gemm, 2);
  Shape shape = x.shape();
  shape[-1] = a_->local[0];
  const Tensor low = c.activation(shape, "low-rank activation of an adapter");
  run(c.device, ops::Matmul{ops::Matrix(x), ops::Matrix(a_->value).t(), ops::Matrix(low)});
  scale(c, low, scale_);
  add_product(c, ops::Matrix(low), ops::Matrix(b_->value).t(), y);
  return low;
}

void Adapter::backward(Context& c, const Tensor& dy, const Tensor& x, const Tensor& low, const Tensor& dx) const {
  c.device.host_work(HostWork::gemm, 4);
  const Tensor dlow = c.activation(low.shape(), "gradient of an adapter's low-rank activation");
  run(c.device, ops::Matmul{ops::Matrix(dy), ops::Matrix(b_->value), ops::Matrix(dlow)});
  scale(c, dlow, scale_);
  add_gradient(c, dy, low, *b_);
  add_gradient(c, dlow, x, *a_);
  add_product(c, ops::Matrix(dlow), ops::Matrix(a_->value), dx);
}

}  // namespace mbench::nn
