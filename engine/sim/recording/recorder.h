// Runs the engine's own code for one rank, once. It records the first and the last micro batch of a step, which stand for all
// (StepEvents). The second is recorded too where the first does in its backward what no other does. Where these do not stand for the
// others, every micro batch is recorded. So it is where some defer gradients of weights, where tensors belong to several micro batches, and
// where a schedule does not take them in order.
//
// The first step may leave memory behind that the next one finds. Where its micro batches do not show what the next step does then, a
// second step is recorded for the allocator.
#pragma once
#include <functional>
#include <optional>

#include "engine/plan/plan.h"
#include "engine/sim/cost/cost_model.h"
#include "engine/sim/cost/links.h"
#include "engine/sim/recording/step_events.h"
#include "engine/sim/run/rank_classes.h"

namespace mbench::sim {

struct Recording {
  RankClasses classes;
  std::map<int, StepEvents> step_events;  // of each kind of class
};

// Whether any of a step lies in the host's memory.
bool uses_host(const Plan& plan);

using MakeCosts = std::function<std::unique_ptr<CostModel>()>;
// Every step has a recording. `costs` makes the cost model of a kind's device. Null `costs` and `links`: nothing takes time. Memory of
// device and host has no limit here.
Recording record(const Plan& plan, int devices_per_node, const MakeCosts& costs, const Links* links);

// The first step of a rank whose micro batches are alike: what bounds of other steps are made of. It leaves out what the step keeps for
// deferred gradients of weights, and does with them at its end. So it stands for forwards and backwards only. Its tensors have no names.
// Nothing where micro batches differ. `only`: the stage of interest; other stages may have no recordings then.
std::optional<Recording> record_alike(const Plan& plan, int devices_per_node, const MakeCosts& costs,
                                      const Links* links, std::optional<int> only = std::nullopt);

}  // namespace mbench::sim
