#include "engine/nn/parameters.h"

#include "engine/base/text.h"
#include "engine/ops/ops.h"

namespace mbench {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: a cache line of f32, and 128 bytes of 16-bit weights

}  // namespace

Parameter* ParameterStore::add(Parameter p) {
  p.local = p.shape;
  if (p.placement.kind == Placement::Kind::shard) p.local[p.placement.dim] /= tp_.size();
  p.offset = size_;
  size_ += (p.local.numel() + kAlignment - 1) / kAlignment * kAlignment;
  parameters_.push_back(std::make_unique<Parameter>(std::move(p)));
  return parameters_.back().get();
}

int ParameterStore::close_unit() {
  units_.push_back({units_.empty() ? 0 : units_.back().end, size_});
  return static_cast<int>(units_.size()) - 1;
}

Parameter* ParameterStore::find(const std::string& name) const {
  for (const auto& p : parameters_)
    if (p->name == name) return p.get();
  return nullptr;
}

void ParameterStore::allocate_and_initialise() {
  weights_ = device_.empty({size_}, plan_.model_dtype(), Category::weights, "weights");
  gradients_ = device_.empty({size_}, plan_.gradient_dtype(), Category::gradients, "gradients");
  main_ = plan_.model_dtype() == DType::f32
              ? weights_
              : device_.empty({size_}, DType::f32, Category::optimizer, "f32 main weights");
  run(device_, ops::Fill{main_, 0});
  run(device_, ops::Fill{gradients_, 0});
  for (const auto& p : parameters_) {
    p->value = weights_.part(p->offset, p->local);
    p->gradient = gradients_.part(p->offset, p->local);
    initialise(*p);
  }
  if (plan_.model_dtype() != DType::f32) run(device_, ops::Copy{main_, weights_});
}

void ParameterStore::initialise(const Parameter& p) {
  const Tensor target = main_.part(p.offset, p.local);
  if (p.stddev == 0) {
    if (p.constant != 0) run(device_, ops::Fill{target, p.constant});
    return;
  }
  ops::RandomNormal draw{
      target, p.stddev, {plan_.point.seed, static_cast<std::uint32_t>(fnv1a(p.name)), 0}, p.shape.cols()};
  if (p.placement.sharded(0)) draw.row0 = tp_.rank() * p.local[0];
  if (p.placement.sharded(1)) draw.col0 = tp_.rank() * p.local[1];
  run(device_, draw);
}

}  // namespace mbench
