#include "engine/ops/dispatch_plan.h"

#include "engine/backend/cpu/cpu_ops.h"

namespace mbench::cpu {

// Two passes over the pairs by one thread: a few bytes for each token, where its row has thousands.
template <>
void compute(CpuOps& cpu, const ops::DispatchPlan& op) {
  const std::int64_t number = op.number(), n = op.experts.numel();
  const auto* experts = op.experts.as<std::int64_t>();
  auto *rows = op.rows.as<std::int64_t>(), *pairs = op.pairs.as<std::int64_t>(), *counts = op.counts.as<std::int64_t>(),
       *offsets = op.offsets.as<std::int64_t>();
  const auto expert_of = [=, first = op.first](std::int64_t pair) { return experts[pair] - first; };
  const auto is_expert = [=](std::int64_t e) { return e >= 0 && e < number; };
  std::fill(counts, counts + number, 0);
  for (std::int64_t i = 0; i < n; ++i)
    if (const std::int64_t e = expert_of(i); is_expert(e)) ++counts[e];
  offsets[0] = 0;
  for (std::int64_t e = 0; e < number; ++e) {
    const std::int64_t used = (counts[e] + op.multiple - 1) / op.multiple * op.multiple;
    offsets[e + 1] = offsets[e] + (op.capacity > 0 ? op.capacity : used);
  }
  std::fill(pairs, pairs + op.pairs.numel(), -1);
  auto* next = static_cast<std::int64_t*>(cpu.scratch.bytes(static_cast<std::size_t>(number) * sizeof *offsets));
  std::copy(offsets, offsets + number, next);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t e = expert_of(i);
    rows[i] = is_expert(e) && next[e] < offsets[e + 1] ? next[e]++ : -1;
    if (rows[i] >= 0) pairs[rows[i]] = i;
  }
}

}  // namespace mbench::cpu
