// Runs the engine's own code for one rank, once, and records what it does: the first and the last micro batch of a step,
// which stand for all (StepEvents). Where they do not, since the first does backward what no other does, the second is recorded too.
// What these do not stand for is not replayed: record() says so by returning nothing.
// Where the first step leaves memory behind that the next one finds, and its micro batches do not tell what that one does, a second
// step is recorded for the allocator.
#pragma once
#include <functional>
#include <optional>

#include "engine/plan/plan.h"
#include "engine/sim/cost_model.h"
#include "engine/sim/links.h"
#include "engine/sim/rank_classes.h"
#include "engine/sim/step_events.h"

namespace mbench::sim {

struct Recording {
  RankClasses classes;
  std::map<int, StepEvents> step_events;  // of each kind of class
};

// Whether the memory of later steps is asked for. `first`: of a step that defers gradients of weights (Plan::deferred_gemms) there are
// recordings too, without what it keeps for them and what it does of them at its end; they stand for its forwards and backwards alone.
enum class Steps { first, steady };

// `costs` makes the cost model of a kind's device. Null `costs` and `links`: nothing takes time. `only`: the stage that is asked about,
// others may have no recordings then.
using MakeCosts = std::function<std::unique_ptr<CostModel>()>;
std::optional<Recording> record(const Plan& plan, int devices_per_node, const MakeCosts& costs, const Links* links,
                                std::optional<int> only = std::nullopt, Steps steps = Steps::steady);

}  // namespace mbench::sim
