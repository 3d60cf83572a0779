#include "sweeps/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mbench::sweeps {
namespace {

std::string layout_of(const Point& p) {
  std::string text = fmt::format("tp {} pp {} dp {}", p.tp, p.pp, p.dp);
  if (p.sequence_parallel) text += " sequence_parallel";
  if (p.recompute != Recompute::none) text += fmt::format(" recompute {}", name_of(p.recompute));
  return text;
}

}  // namespace

std::string agreement_key(const Point& point) {
  const Point defaults;
  Point p = point;
  p.tp = p.pp = p.dp = p.cp = p.ep = 1;
  p.sequence_parallel = false;
  p.recompute = Recompute::none;
  p.strategy.clear();
  p.schedule = defaults.schedule;
  p.virtual_stages = 1;
  p.zero = 0;
  p.offload = Offload::none;
  p.graph = defaults.graph;
  p.memory_limit = 0;
  p.max_seconds = 0;
  p.env.clear();
  p.framework = defaults.framework;
  return point_id(p);
}

double loss_tolerance(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return 1e-4;
    case Precision::tf32:
    case Precision::bf16:
    case Precision::fp16:
      return 2e-2;
    case Precision::fp8:
      return 1e-1;
  }
  return 0;
}

void check_losses(PointResult& result, const std::vector<PointResult>& before) {
  if (result.outcome != Outcome::ok) return;
  for (std::size_t i = 0; i < result.losses.size(); ++i) {
    if (std::isfinite(result.losses[i])) continue;
    result.outcome = Outcome::wrong;
    result.reason = fmt::format("the loss of step {} is not a finite number", i + 1);
    return;
  }
  const std::string key = agreement_key(result.point);
  const PointResult* reference = nullptr;
  for (const PointResult& other : before)
    if (other.id != result.id && other.outcome == Outcome::ok && !other.losses.empty() &&
        agreement_key(other.point) == key && (!reference || other.world < reference->world))
      reference = &other;
  if (!reference) return;
  const double tolerance = loss_tolerance(result.point.precision);
  // One of them may have stopped earlier, by max_seconds: what both have is compared.
  for (std::size_t i = 0; i < std::min(result.losses.size(), reference->losses.size()); ++i) {
    const double mine = result.losses[i], theirs = reference->losses[i];
    const double apart = std::abs(mine - theirs) / std::max({std::abs(mine), std::abs(theirs), 1e-3});
    if (apart <= tolerance) continue;
    result.outcome = Outcome::wrong;
    result.reason =
        fmt::format("the loss of step {} is {:.6g} and that of {} ({}) is {:.6g}: {:.1e} apart, need {:.0e}",
                    i + 1, mine, layout_of(reference->point), reference->id, theirs, apart, tolerance);
    return;
  }
}

}  // namespace mbench::sweeps
