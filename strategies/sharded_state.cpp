// Where weights, gradients and optimizer state lie over the ranks that replicate them (ZeRO: Rajbhandari et al. 2020), and
// on the device or the host. They may be sharded over a part of those ranks and replicated over the rest (optimizer_instances:
// PyTorch's HSDP, Megatron-Core's --num-distributed-optimizer-instances, Zhang et al. 2022, "MiCS"): the axis of the mesh that the
// copies lie along is written with data parallelism, which it is a part of.
#include <nlohmann/json.hpp>

#include "engine/framework/framework.h"
#include "engine/point/abilities.h"
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

// Where only the last micro batch's gradients are reduced, a framework may drop those that others own as it goes: then stage 1 is
// stage 2 for a step of one micro batch.
bool drops_early(const Point& p) {
  return p.zero == Zero::stage_1 && p.global_batch == p.micro_batch * p.dp && p.pp == 1 &&
         framework_of(p.framework)->buckets.early;
}

const StatePlan& plan_of(const Point& p) {
  if (drops_early(p)) return kPlans[static_cast<std::size_t>(Zero::stage_2)];
  return p.fsdp_no_sync ? kNoSync : kPlans[static_cast<std::size_t>(p.zero)];
}

bool weights_are_sharded(const Point& p) {
  return plan_of(p).weights.sharded();
}

// The ranks that have the same experts; 0 where the experts' axes do not fit the others, which their strategy says.
std::int64_t ranks_of_experts(const Point& p) {
  const std::int64_t stage = p.tp * p.cp * p.dp, experts = p.expert_tp() * p.ep;
  return stage % experts == 0 ? stage / experts : 0;
}

constexpr Way kOneCopy = exactly("optimizer_instances", 1), kNotOffloaded = one_of("offload", "none"),
              kAllOfIt = exactly("offload_fraction", 1);

MaybeFault refuse_instances(const Point& p) {
  const std::int64_t n = p.optimizer_instances, edp = ranks_of_experts(p);
  if (n == 1) return std::nullopt;
  if (p.replicas == Replicas::single_process)
    return infeasible({one_of("replicas", "ranks"), kOneCopy},
                      "optimizer_instances {} with replicas single_process, whose first replica has all state", n);
  if (!plan_of(p).sharded())
    return infeasible({one_of("zero", "1|2|3|fsdp|oss|oss+sdp"), kOneCopy},
                      "optimizer_instances {} with zero {}, where every rank has all state", n, name_of(p.zero));
  if (p.dp % n != 0)
    return infeasible({divisor("optimizer_instances", p.dp)}, "optimizer_instances {} does not divide dp {}", n, p.dp);
  if (p.model.experts > 0 && edp % n != 0)
    return infeasible({divisor("optimizer_instances", p.dp)},
                      "optimizer_instances {} does not divide the {} ranks that have the same experts (tp {} x cp {} x "
                      "dp {} / etp {} / ep "
                      "{})",
                      n, edp, p.tp, p.cp, p.dp, p.expert_tp(), p.ep);
  return std::nullopt;
}

// Gradients go to the host as a bucket is reduced: what is summed later, over other ranks, would have to come back.
MaybeFault refuse_gradients_on_host(const Point& p) {
  const std::string_view offload = name_of(p.offload);
  const Way on_device = one_of("offload", offloads_weights(p.offload) ? "all" : "optimizer");
  const StatePlan& plan = plan_of(p);
  if (!plan.gradients.sharded())
    return infeasible({one_of("zero", "2|3|fsdp"), on_device},
                      "offload {} with zero {}{}, whose gradients are all there", offload, name_of(p.zero),
                      p.fsdp_no_sync ? " and fsdp_no_sync true" : "");
  if (plan.cut != StatePlan::Cut::even)
    return not_built_in({one_of("zero", "2|3|fsdp"), on_device}, "offload {} with zero {}", offload, name_of(p.zero));
  if (p.optimizer_instances > 1)
    return not_built_in({kOneCopy, on_device}, "offload {} with optimizer_instances {}", offload,
                        p.optimizer_instances);
  if (p.tp * p.pp * p.ep > 1)
    return not_built_in({exactly(p.tp > 1   ? "tp"
                                 : p.pp > 1 ? "pp"
                                            : "ep",
                                 1),
                         on_device},
                        "offload {} with tp {} x pp {} x ep {}", offload, p.tp, p.pp, p.ep);
  return std::nullopt;
}

MaybeFault refuse_offload(const Point& p) {
  const std::string_view offload = name_of(p.offload);
  if (offloads_weights(p.offload) && !weights_are_sharded(p))
    return infeasible({one_of("zero", "3|fsdp"), one_of("offload", "optimizer")},
                      "offload {} with zero {}, whose weights are all there", offload, name_of(p.zero));
  if (offloads_gradients(p.offload))
    if (const MaybeFault refusal = refuse_gradients_on_host(p)) return refusal;
  if (p.capture.step)
    return infeasible({one_of("capture", "false"), kNotOffloaded},
                      "offload {} with capture true, where no device replays what its host does", offload);
  if (p.optimizer != OptimizerKind::adamw)
    return not_built_in({one_of("optimizer", "adamw"), kNotOffloaded}, "offload {} with optimizer {}", offload,
                        name_of(p.optimizer));
  if (p.offload_fraction != 1 && (offloads_gradients(p.offload) || offloads_weights(p.offload)))
    return not_built_in({one_of("offload", "optimizer|moments"), kAllOfIt}, "offload_fraction {} with offload {}",
                        p.offload_fraction, offload);
  if (p.offload_fraction == 0)
    return infeasible({kNotOffloaded, kAllOfIt}, "offload_fraction 0 with offload {}", offload);
  if (p.offload == Offload::moments && !precision_plan(p).main_weights())
    return infeasible({one_of("precision", "bf16|fp16"), one_of("offload", "optimizer")},
                      "offload moments with precision {}, whose weights have no f32 originals", name_of(p.precision));
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  if (const MaybeFault refusal = refuse_instances(p)) return refusal;
  if (p.fsdp_no_sync && p.zero != Zero::fsdp)
    return infeasible({one_of("zero", "fsdp"), one_of("fsdp_no_sync", "false")}, "fsdp_no_sync with zero {}",
                      name_of(p.zero));
  if (!p.overlap_grad_reduce && (plan_of(p).gradients.sharded() || p.replicas == Replicas::single_process))
    return infeasible({plan_of(p).gradients.sharded() ? one_of("zero", "0|1|oss") : one_of("replicas", "ranks"),
                       one_of("overlap_grad_reduce", "true")},
                      "overlap_grad_reduce false with zero {} and replicas {}, which reduce gradients as they come",
                      name_of(p.zero), name_of(p.replicas));
  if (!p.overlap_param_gather && (plan_of(p).weights.sharded() || !plan_of(p).sharded()))
    return infeasible({one_of("zero", "1|2|oss|oss+sdp"), one_of("overlap_param_gather", "true")},
                      "overlap_param_gather false with zero {}, which fetches no updated weights for a step",
                      name_of(p.zero));
  if (p.offload == Offload::none && p.offload_fraction != 1)
    return infeasible({one_of("offload", "optimizer|moments"), kAllOfIt}, "offload_fraction {} with offload none",
                      p.offload_fraction);
  return p.offload == Offload::none ? std::nullopt : refuse_offload(p);
}

// Least in host memory first. A share that is not all goes with what it may be of.
Choice offloads(const Point& p) {
  using nlohmann::json;
  if (p.offload_fraction != 1) {
    Choice part{"offload,offload_fraction", {json::array({"none", 1})}};
    if (precision_plan(p).main_weights()) part.values.push_back(json::array({"moments", p.offload_fraction}));
    part.values.push_back(json::array({"optimizer", p.offload_fraction}));
    return part;
  }
  Choice offload{"offload", {"none"}};
  if (precision_plan(p).main_weights()) offload.values.push_back("moments");
  offload.values.push_back("optimizer");
  const bool gradients = !refuse_gradients_on_host(p);
  if (gradients) offload.values.push_back("optimizer+gradients");
  if (weights_are_sharded(p)) offload.values.push_back("all");
  if (weights_are_sharded(p) && gradients) offload.values.push_back("all+gradients");
  return offload;
}

// Where no rank replicates another's weights there is nothing to shard, and every stage is stage 0. fsdp without no_sync is
// stage 3. Of copies those are offered that are a node of today each, or a rack of them, to a search that names them: with all other fields free
// these two alone make it up to twice as long. A copy has two ranks of data at least. Optimizers that own whole parameters are offered
// where the framework names them: elsewhere stages 1 and 2 shard the same state evenly.
std::vector<Choice> choices(const Point& p, std::int64_t) {
  using nlohmann::json;
  Choice zero{"zero,fsdp_no_sync", {}};
  zero.values.push_back(json::array({0, false}));
  if (p.dp * p.cp > 1) {
    for (const int stage : {1, 2, 3}) zero.values.push_back(json::array({stage, false}));
    const Abilities& can = framework_of(p.framework)->can;
    for (const char* stage : {"oss", "oss+sdp"})
      if (lists(can, "zero", stage)) zero.values.push_back(json::array({stage, false}));
    zero.values.push_back(json::array({"fsdp", true}));
  }
  Choice instances{"optimizer_instances", {1}, true};
  if (p.replicas == Replicas::ranks && plan_of(p).sharded())
    for (const std::int64_t neighbours : {64, 8}) {
      const std::int64_t stage = p.tp * p.cp * p.dp, n = stage / neighbours;
      if (stage % neighbours != 0 || n <= 1 || p.dp % n != 0 || n > p.dp * p.cp / 2) continue;
      const bool divides_experts = p.model.experts == 0 || (ranks_of_experts(p) > 0 && ranks_of_experts(p) % n == 0);
      if (divides_experts) instances.values.push_back(n);
    }
  return {zero, instances, offloads(p)};
}

void write(const Point& p, Plan& plan) {
  plan.overlap_grad_reduce = p.overlap_grad_reduce;
  plan.overlap_param_gather = p.overlap_param_gather;
  if (p.replicas == Replicas::single_process) {
    plan.state = {R, R, S, StatePlan::Cut::first};
    return;
  }
  plan.state = plan_of(p);
  if (p.offload != Offload::none) plan.state.optimizer_at = Residence::host;
  plan.state.main_on_device = p.offload == Offload::moments;
  plan.state.host_share = p.offload_fraction;
  if (offloads_weights(p.offload)) plan.state.weights_at = Residence::host;
  if (offloads_gradients(p.offload)) plan.state.gradients_at = Residence::host;
}

}  // namespace

Strategy sharded_state() {
  return {"sharded state",
          {"zero", "optimizer_instances", "overlap_grad_reduce", "overlap_param_gather", "fsdp_no_sync", "offload",
           "offload_fraction"},
          refuse,
          choices,
          write};
}

}  // namespace mbench::strategies
