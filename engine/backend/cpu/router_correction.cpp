#include "engine/ops/router_correction.h"

#include "engine/backend/cpu/cpu_ops.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::AddCounts& op) {
  const auto* counts = op.counts.as<std::int64_t>();
  auto* load = op.load.as<float>();
  for (std::int64_t e = 0; e < op.load.numel(); ++e) load[e] += static_cast<float>(counts[e]);
}

template <>
void compute(CpuOps&, const ops::MoveCorrection& op) {
  auto *load = op.load.as<float>(), *correction = op.correction.as<float>();
  for (std::int64_t e = 0; e < op.load.numel(); ++e) {
    if (load[e] < op.mean) correction[e] += op.speed;
    if (load[e] > op.mean) correction[e] -= op.speed;
    load[e] = 0;
  }
}

}  // namespace mbench::cpu
