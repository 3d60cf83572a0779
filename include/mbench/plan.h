// How a point is laid out on its devices, and what each device holds. No machine is needed for that.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "spec.h"

namespace mbench {

/// What each rank of a pipeline stage allocates at its peak, in MiB. It is counted by running the engine without computing. It equals to
/// the byte what a training on CPUs allocates.
struct StageMemory {
  int first_rank = 0, ranks = 0;
  double total_mib = 0;                           // handed out by the allocator
  std::map<std::string, double> by_category_mib;  // parameters, gradients, optimizer, activations, ...
  double reserved_mib = 0;                        // held by mbench's own allocator
};

/// Layers [first_layer, first_layer + layers) of one stage; it has several chunks under the interleaved schedule.
struct StageLayers {
  int stage = 0;
  std::int64_t first_layer = 0, layers = 0;
  bool embedding = false, head = false;
};

/// A weight of the first layer of its kind, and how its elements are spread over the axes of the mesh.
struct WeightPlacement {
  std::string name;
  std::vector<std::int64_t> shape;  // of the whole weight, [out, in] for a linear layer
  std::string role;                 // column, row, embedding, norm, ...
  std::string placement;            // DTensor's words: "tp: shard(0)"; empty: whole on every rank
};

struct StepPlan {
  std::string id;
  std::int64_t devices = 0;        // tp x cp x dp x pp
  std::int64_t parameters = 0;     // of the whole model, without the vocabulary's padding
  std::int64_t vocab = 0;          // rows of the embedding, padding included
  std::int64_t micro_batches = 0;  // of a step, on a data-parallel rank
  std::vector<StageLayers> stages;
  std::vector<WeightPlacement> weights;
  std::vector<StageMemory> memory;
};

/// Throws Error: infeasible where the layout is impossible, unsupported where the framework lacks a feature of the point.
MBENCH_EXPORT StepPlan make_plan(const Spec& spec, std::size_t point = 0);

}  // namespace mbench
