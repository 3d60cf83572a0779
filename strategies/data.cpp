// Data parallelism: every rank of the axis trains on its own samples; gradients are summed in buckets as
// backward makes them ready.
#include "engine/framework/framework.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kRanks = one_of("replicas", "ranks");

// nn.DataParallel copies whole models.
MaybeFault why_not_one_process(const Point& p) {
  if (p.tp * p.pp * p.cp * p.ep != 1)
    return infeasible({exactly(p.tp > 1   ? "tp"
                               : p.pp > 1 ? "pp"
                               : p.cp > 1 ? "cp"
                                          : "ep",
                               1),
                       kRanks},
                      "replicas single_process of models that are cut up by tp {} x pp {} x cp {} x ep {}", p.tp, p.pp,
                      p.cp, p.ep);
  if (p.zero != Zero::none)
    return infeasible({one_of("zero", "0"), kRanks}, "replicas single_process with zero {}, whose ranks own parts",
                      name_of(p.zero));
  if (p.offload != Offload::none)
    return not_built_in({one_of("offload", "none"), kRanks}, "replicas single_process with offload {}",
                        name_of(p.offload));
  if (p.model.experts > 0 || p.model.mtp_layers > 0)
    return not_built_in({kRanks}, "replicas single_process of a model with {}",
                        p.model.experts > 0 ? "experts" : "multi-token prediction");
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  const std::int64_t samples = p.micro_batch * p.dp;
  if (p.global_batch % samples != 0)
    return infeasible({multiple("global_batch", samples)}, "global_batch {} is no multiple of micro_batch {} x dp {}",
                      p.global_batch, p.micro_batch, p.dp);
  if (p.replicas == Replicas::single_process) return why_not_one_process(p);
  return std::nullopt;
}

std::vector<Choice> choices(const Point& p, std::int64_t devices) {
  Choice dp{"dp", {}}, micro_batch{"micro_batch", {}};
  for (const std::int64_t d : divisors(p.global_batch / p.micro_batch, devices)) dp.values.push_back(d);
  for (const std::int64_t b : divisors(p.global_batch / p.dp, p.global_batch)) micro_batch.values.push_back(b);
  return {dp, micro_batch};
}

void write(const Point& point, Plan& plan) {
  // Two axes where there are several copies of sharded state (sharded_state.cpp): samples are split along both.
  plan.mesh.resize(Axis::dp, static_cast<int>(point.dp / point.optimizer_instances));
  plan.mesh.resize(Axis::dp_replicate, static_cast<int>(point.optimizer_instances));
  for (const Axis axis : kBatchAxes.list()) plan.hidden = plan.hidden.with(axis, shard(1), shard(1));
  plan.loader = {static_cast<int>(point.loader_workers), point.pinned};
  plan.single_process = point.replicas == Replicas::single_process;
  // PyTorch DDP's default of 25 MiB: large enough to amortise a collective's latency, small enough to start
  // early. Or the framework's own.
  const GradientBuckets& buckets = plan.framework->buckets;
  const std::int64_t elements = buckets.hidden_squared ? point.model.hidden * point.model.hidden : buckets.elements;
  plan.gradient_bucket_bytes =
      elements > 0 ? static_cast<std::size_t>(elements) * size_of(plan.precision.gradients) : std::size_t{25} << 20;
}

}  // namespace

Strategy data() {
  return {"data",
          {"dp", "micro_batch", "global_batch", "replicas", "data", "loader_workers", "pinned"},
          refuse,
          choices,
          write};
}

}  // namespace mbench::strategies
