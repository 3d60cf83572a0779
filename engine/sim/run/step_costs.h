// What a step takes of a machine under a framework: what its ops and its host's calls cost, and the memory that is not the step's own.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/point/choices.h"
#include "engine/point/offloaded_activations.h"
#include "engine/point/run_spec.h"
#include "engine/sim/cost/cost_model.h"
#include "engine/sim/cost/links.h"
#include "engine/sim/play/clock.h"

namespace mbench {
struct Plan;
}

namespace mbench::sim {

// The properties of a step that decide which figures of a machine it needs.
struct Needs {
  Precision precision = Precision::f32;
  AttentionKind attention = AttentionKind::core;
  Offload offload = Offload::none;
  Fp8Recipe fp8_recipe = Fp8Recipe::tensorwise;
  OffloadedActivations offload_activations = {};
  double paged_stash_host = 0;
};
// The figures that such a step needs and the machine's file lacks, with the alternatives; nothing if it has all.
std::optional<std::string> why_lacking(const Needs& needs, const Machine& machine, const Framework& framework);
// Bytes that the framework's libraries hold permanently from a rank's allocator, for such a step.
std::uint64_t library_memory(const Plan& plan);
// The most bytes that the engine's own fused attention takes outside the allocator on a GPU: the workspace of its gradient.
std::uint64_t attention_workspace(const Plan& plan, const Machine& machine);
// Bytes of a device that a step may have: those of the run, or of the machine, without that workspace. Throws OutOfMemory's kind where
// there are none.
std::uint64_t memory_limit(const RunSpec& run, const Plan& plan, const Machine& machine);
// The plan with what it has of the machine's devices.
Plan plan_for(Plan plan, const Machine& machine);
// What the host of the plan's framework pays for its calls.
HostTimes host_times(const Plan& plan, const Machine& machine);
// What kernels take on a rank's device, or on its share of one. `ranks`: of the job, where the plan stands for a larger one.
std::unique_ptr<CostModel> costs_of(const Plan& plan, Machine machine, std::int64_t ranks);
std::unique_ptr<CostModel> costs_of(const Plan& plan, const Machine& machine);

}  // namespace mbench::sim
