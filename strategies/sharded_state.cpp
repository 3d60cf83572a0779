// Where weights, gradients and optimizer state lie over the ranks that replicate them (ZeRO: Rajbhandari et al. 2020), and
// on the device or the host.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// Weights, gradients, optimizer state: sharded from the right to the left, stage by stage.
constexpr Placement R = replicate, S = shard(0);
constexpr StatePlan kPlans[] = {
    {R, R, R},                              // 0
    {R, R, S},                              // 1
    {R, S, S},                              // 2
    {S, S, S},                              // 3
    {R, R, S, StatePlan::Cut::parameters},  // oss: FairScale's optimizer beside data parallelism as it is
    {R, S, S, StatePlan::Cut::parameters},  // oss+sdp: gradients go to the owners alone
    {S, S, S},                              // fsdp
};
// Under no_sync() gradients accumulate whole.
constexpr StatePlan kNoSync{S, R, S};

bool weights_are_sharded(const Point& p) {
  return kPlans[static_cast<std::size_t>(p.zero)].weights.sharded();
}

MaybeRefusal refuse(const Point& p) {
  if (p.fsdp_no_sync && p.zero != Zero::fsdp)
    return infeasible("fsdp_no_sync with zero {}, need zero fsdp or fsdp_no_sync false", name_of(p.zero));
  if (p.offload == Offload::none) return std::nullopt;
  const std::string_view offload = name_of(p.offload);
  if (p.offload == Offload::all && !weights_are_sharded(p))
    return infeasible("offload all with zero {}, need zero 3 or fsdp, whose weights come unit by unit, or offload optimizer",
                      name_of(p.zero));
  if (p.capture)
    return infeasible("offload {} with capture true, need capture false or offload none: no device replays what its host does",
                      offload);
  if (p.optimizer != OptimizerKind::adamw)
    return not_built_in(fmt::format("offload {} with optimizer {}", offload, name_of(p.optimizer)), "optimizer adamw");
  return std::nullopt;
}

// Where no rank replicates another's weights there is nothing to shard, and every stage is stage 0. fsdp without no_sync is
// stage 3.
std::vector<Choice> choices(const Point& p, std::int64_t) {
  using nlohmann::json;
  Choice zero{"zero,fsdp_no_sync", {}};
  zero.values.push_back(json::array({0, false}));
  if (p.dp * p.cp > 1) {
    for (const json& stage : {json(1), json(2), json(3), json("oss"), json("oss+sdp")})
      zero.values.push_back(json::array({stage, false}));
    zero.values.push_back(json::array({"fsdp", true}));
  }
  Choice offload{"offload", {"none", "optimizer"}};
  if (weights_are_sharded(p)) offload.values.push_back("all");
  return {zero, offload};
}

void write(const Point& p, Plan& plan) {
  if (p.replicas == Replicas::single_process) {
    plan.state = {R, R, S, StatePlan::Cut::first};
    return;
  }
  plan.state = p.fsdp_no_sync ? kNoSync : kPlans[static_cast<std::size_t>(p.zero)];
  if (p.offload != Offload::none) plan.state.optimizer_at = Residence::host;
  if (p.offload == Offload::all) plan.state.weights_at = Residence::host;
}

}  // namespace

Strategy sharded_state() {
  return {"sharded state", {"zero", "fsdp_no_sync", "offload"}, refuse, choices, write};
}

}  // namespace mbench::strategies
