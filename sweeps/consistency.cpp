#include "sweeps/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/spec/fields.h"
#include "engine/spec/tolerance.h"

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
  return point_id(without(point, {FieldKind::layout, FieldKind::limit, FieldKind::place}));
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
  const Precision precision = tolerance_of(result.point);
  const auto apart = [&](const char* what, std::size_t step, double mine, double theirs, double tolerance) {
    const double difference = relative_difference(mine, theirs, 1e-3);
    if (difference <= tolerance) return false;
    result.outcome = Outcome::wrong;
    result.reason = fmt::format(
        "the {} of step {} is {:.6g} and that of {} ({}) is {:.6g}: {:.1e} apart, need {:.0e}", what,
        step + 1, mine, layout_of(reference->point), reference->id, theirs, difference, tolerance);
    return true;
  };
  // One of them may have stopped earlier, by max_seconds: what both have is compared.
  const auto both = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::min(a.size(), b.size());
  };
  for (std::size_t i = 0; i < both(result.losses, reference->losses); ++i)
    if (apart("loss", i, result.losses[i], reference->losses[i], loss_tolerance(precision, i))) return;
  for (std::size_t i = 0; i < both(result.gradient_norms, reference->gradient_norms); ++i)
    if (const auto tolerance = gradient_norm_tolerance(precision, i))
      if (apart("gradient norm", i, result.gradient_norms[i], reference->gradient_norms[i], *tolerance))
        return;
}

}  // namespace mbench::sweeps
