// Data parallelism: every rank of the axis trains on its own samples; gradients are summed in buckets as
// backward makes them ready.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  const std::int64_t samples = p.micro_batch * p.dp;
  if (p.global_batch % samples != 0)
    return infeasible("global_batch {} is no multiple of micro_batch {} x dp {}, need {}", p.global_batch,
                      p.micro_batch, p.dp, nearest_multiples(p.global_batch, samples));
  if (p.replicas == Replicas::single_process)
    return not_built_in("data parallelism in a single process", "replicas ranks");
  if (p.loader_workers != 0) return not_built_in(fmt::format("loader_workers {}", p.loader_workers), "0");
  if (p.pinned) return not_built_in("pinned true", "false");
  return std::nullopt;
}

std::vector<Choice> choices(const Point& p, std::int64_t devices) {
  Choice dp{"dp", {}}, micro_batch{"micro_batch", {}};
  for (const std::int64_t d : divisors(p.global_batch / p.micro_batch, devices)) dp.values.push_back(d);
  for (const std::int64_t b : divisors(p.global_batch / p.dp, p.global_batch))
    micro_batch.values.push_back(b);
  return {dp, micro_batch};
}

void write(const Point& point, Plan& plan) {
  plan.mesh.resize(Axis::dp, static_cast<int>(point.dp));
  plan.hidden = plan.hidden.with(Axis::dp, shard(1), shard(1));
  // PyTorch DDP's default of 25 MiB: large enough to amortise a collective's latency, small enough to start
  // early.
  plan.gradient_bucket_bytes = std::size_t{25} << 20;
}

}  // namespace

Strategy data() {
  return {"data", {"dp", "micro_batch", "global_batch", "replicas", "data", "loader_workers", "pinned"}, refuse, choices, write};
}

}  // namespace mbench::strategies
