// Runs the engine's own code for one rank, once. It records the first and the last micro batch of a step, which stand for all
// (StepEvents). The second is recorded too where the first does in its backward what no other does. Where these do not stand for a step,
// record() says why; such a step is not replayed.
//
// The first step may leave memory behind that the next one finds. Where its micro batches do not show what the next step does then, a
// second step is recorded for the allocator.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include "engine/plan/plan.h"
#include "engine/sim/cost/cost_model.h"
#include "engine/sim/cost/links.h"
#include "engine/sim/recording/step_events.h"
#include "engine/sim/recording/unrecorded.h"
#include "engine/sim/run/rank_classes.h"

namespace mbench::sim {

struct Recording {
  RankClasses classes;
  std::map<int, StepEvents> step_events;  // of each kind of class
};

// What record() makes of a step: its recording, or why there is none.
class Recorded {
 public:
  Recorded(Recording recording) : made_(std::move(recording)) {}
  Recorded(Unrecorded why) : made_(why) {}

  bool has_value() const { return std::holds_alternative<Recording>(made_); }
  explicit operator bool() const { return has_value(); }
  Recording& operator*() { return std::get<Recording>(made_); }
  const Recording& operator*() const { return std::get<Recording>(made_); }
  const Recording* operator->() const { return &std::get<Recording>(made_); }
  Unrecorded why_not() const { return std::get<Unrecorded>(made_); }

 private:
  std::variant<Recording, Unrecorded> made_;
};

// `steady` asks for the memory of later steps too. `first` also records steps that defer gradients of weights (Plan::deferred_gemms).
// Such a recording leaves out what the step keeps for them and does with them at its end. It stands only for forwards and backwards.
enum class Steps { first, steady };

// Why no recording stands for other micro batches: the life of some tensors is neither one micro batch's nor the whole step's.
std::optional<Unrecorded> why_unrecorded(const Plan& plan);

// `costs` makes the cost model of a kind's device. Null `costs` and `links`: nothing takes time. `only`: the stage of interest; other
// stages may have no recordings then.
using MakeCosts = std::function<std::unique_ptr<CostModel>()>;
Recorded record(const Plan& plan, int devices_per_node, const MakeCosts& costs, const Links* links,
                std::optional<int> only = std::nullopt, Steps steps = Steps::steady);

}  // namespace mbench::sim
