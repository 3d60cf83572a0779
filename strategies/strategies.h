// Strategies. Each owns some fields of a point, says which of their values are possible, and writes its part of the Plan from them.
// None reads what another wrote, except the mesh and the flow of hidden activations. These are complete, axis by axis, before linear
// layers are laid out on them. To add a strategy, add a file here and a line in the table.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/text.h"
#include "engine/plan/plan.h"
#include "engine/point/point.h"
#include "strategies/refusal.h"

namespace mbench::strategies {

// Why a point cannot be run, and what could: "tp 3 does not divide the 4 heads, need tp 2 or 4".
struct Refusal {
  Outcome outcome = Outcome::infeasible;
  std::string reason;
};
using MaybeRefusal = std::optional<Refusal>;

// Values of one field that the strategy can take, given the other fields and `devices`. Fields that only go together are joined by
// commas, as in a sweep ("schedule,virtual_stages"); a value is then an array of theirs. A search takes a strategy's choices in the
// given order, each after those before it are made. So what decides about another comes first.
struct Choice {
  std::string field;
  std::vector<nlohmann::json> values;
  // Only for searches that name one of the fields. Such values are worth a look for a layout that is nearly settled, but would multiply
  // all others.
  bool by_name = false;
};

struct Strategy {
  std::string_view name;
  std::vector<std::string_view> fields;                                      // of a point; no two strategies own one
  MaybeFault (*why_not)(const Point& point);                                 // null: whatever its fields say can be
  std::vector<Choice> (*choices)(const Point& point, std::int64_t devices);  // null: none to search
  void (*write)(const Point& point, Plan& plan);                             // null: nothing stands in the plan
};

// In the order in which they write.
const std::vector<Strategy>& all_strategies();
Strategy model();
Strategy precision();
Strategy graph();
Strategy data();
Strategy context();
Strategy sequence();
Strategy tensor();
Strategy expert();
Strategy sharded_state();
Strategy adapter();
Strategy optimizer();
Strategy fp8();
Strategy recompute();
Strategy activation_offload();
Strategy pipeline();
Strategy expert_overlap();
Strategy expert_room();

// Whether no strategy refuses the point.
bool can_be(const Point& point);
// The first fault. One that no machine could mend comes before one of this binary.
MaybeFault first_fault(const Point& point);
// The same in words, with advice that was tried (strategies/advice.h), which takes longer than to find the fault.
MaybeRefusal why_not(const Point& point);

// The types that a point's precision stands for.
PrecisionPlan precision_plan(const PrecisionSpec& precision);

// The whole Plan of a point. Throws infeasible or unsupported with the reason.
Plan make_plan(const Point& point);

// The divisors of n that are at most `high`, in order.
std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t high);

}  // namespace mbench::strategies
