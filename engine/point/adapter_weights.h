// The weights that low-rank adapters (adapter.h) add to a model.
#pragma once
#include <vector>

#include "engine/point/adapter.h"
#include "engine/point/architecture.h"

namespace mbench {

// Whether that layer is a target.
bool adapts(const AdapterSpec& adapter, const LinearSpec& linear);
// A and B of a target. A is drawn with the deviation of PyTorch's default for a layer of so many inputs, 1 / sqrt(3 in). B begins with zeros.
WeightSpec adapter_a(const AdapterSpec& adapter, const LinearSpec& linear);
WeightSpec adapter_b(const AdapterSpec& adapter, const LinearSpec& linear);

// The weights of all adapters, in the order of the layers, and behind them what else is trained with them: a classifier of samples. Of one
// layer likewise.
std::vector<WeightSpec> adapter_weights_of(const ModelSpec& model, const AdapterSpec& adapter);
std::vector<WeightSpec> adapter_weights_of(const LayerSpec& layer, const AdapterSpec& adapter);
// How many numbers these are.
std::int64_t adapter_parameter_count(const ModelSpec& model, const AdapterSpec& adapter);
// How many of them are the model's own.
std::int64_t thawed_parameter_count(const ModelSpec& model);

}  // namespace mbench
