#include "engine/point/adapter_weights.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace mbench {
namespace {

// "qkv" of "layers.3.qkv".
std::string last_word(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

// The linear layers of a branch that can be targets.
std::vector<const LinearSpec*> linears_of(const BranchSpec& branch) {
  if (const auto* a = std::get_if<AttentionSpec>(&branch.mixer)) return {&a->qkv, &a->proj};
  if (const auto* m = std::get_if<MlpSpec>(&branch.mixer)) return {&m->fc1, &m->fc2};
  if (const auto* m = std::get_if<MoeSpec>(&branch.mixer)) {
    std::vector<const LinearSpec*> all{&m->expert.fc1, &m->expert.fc2};
    if (m->shared) all.insert(all.end(), {&m->shared->fc1, &m->shared->fc2});
    return all;
  }
  return {};
}

}  // namespace

bool adapts(const AdapterSpec& adapter, const LinearSpec& linear) {
  if (!adapter.on() || linear.tied) return false;
  const std::string name = last_word(linear.name);
  return std::find(adapter.targets.begin(), adapter.targets.end(), name) != adapter.targets.end();
}

namespace {

// [rows, cols], or one for each of a layer's experts.
WeightSpec weight_of(const LinearSpec& linear, const char* which, std::int64_t rows, std::int64_t cols) {
  const Shape shape = linear.experts > 0 ? Shape{linear.experts, rows, cols} : Shape{rows, cols};
  WeightSpec w{linear.name + which, shape, linear.role};
  w.meets = linear.meets;
  w.share = linear.share;
  w.adapter = true;
  return w;
}

}  // namespace

WeightSpec adapter_a(const AdapterSpec& adapter, const LinearSpec& linear) {
  WeightSpec a = weight_of(linear, ".lora_a", adapter.rank, linear.in);
  a.stddev = static_cast<float>(1 / std::sqrt(3.0 * static_cast<double>(linear.in)));
  return a;
}

WeightSpec adapter_b(const AdapterSpec& adapter, const LinearSpec& linear) {
  return weight_of(linear, ".lora_b", linear.out, adapter.rank);
}

std::vector<WeightSpec> adapter_weights_of(const LayerSpec& layer, const AdapterSpec& adapter) {
  std::vector<WeightSpec> all;
  for (const BranchSpec& branch : layer.branches)
    for (const LinearSpec* linear : linears_of(branch))
      if (adapts(adapter, *linear)) {
        all.push_back(adapter_a(adapter, *linear));
        all.push_back(adapter_b(adapter, *linear));
      }
  return all;
}

namespace {

std::vector<WeightSpec> thawed_weights_of(const ModelSpec& model) {
  std::vector<WeightSpec> all = weights_of(head_of(model, model.vocab));
  std::erase_if(all, [](const WeightSpec& w) { return !w.thawed; });
  return all;
}

std::int64_t count_of(const std::vector<WeightSpec>& weights) {
  std::int64_t count = 0;
  for (const WeightSpec& w : weights) count += w.shape.numel();
  return count;
}

}  // namespace

std::vector<WeightSpec> adapter_weights_of(const ModelSpec& model, const AdapterSpec& adapter) {
  std::vector<WeightSpec> all;
  if (!adapter.on()) return all;
  for (std::int64_t i = 0; i < model.layers; ++i)
    for (WeightSpec& w : adapter_weights_of(layer_of(model, i), adapter)) all.push_back(std::move(w));
  for (WeightSpec& w : thawed_weights_of(model)) all.push_back(std::move(w));
  return all;
}

std::int64_t adapter_parameter_count(const ModelSpec& model, const AdapterSpec& adapter) {
  return count_of(adapter_weights_of(model, adapter));
}

std::int64_t thawed_parameter_count(const ModelSpec& model) {
  return count_of(thawed_weights_of(model));
}

}  // namespace mbench
