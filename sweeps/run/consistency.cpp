#include "sweeps/run/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/point/fields.h"
#include "engine/point/tolerance.h"

namespace mbench::sweeps {
namespace {

std::string layout_of(const Point& p) {
  std::string text = fmt::format("tp {} pp {} dp {}", p.tp, p.pp, p.dp);
  if (p.cp > 1) text += fmt::format(" cp {}", p.cp);
  if (p.etp > 0) text += fmt::format(" etp {}", p.etp);
  if (p.sequence_parallel) text += " sequence_parallel";
  if (p.recompute != Recompute::none) text += fmt::format(" recompute {}", name_of(p.recompute));
  return text;
}

}  // namespace

namespace {

std::string training_key(const Point& point) {
  return point_id(without(point, {FieldKind::layout, FieldKind::limit, FieldKind::place}));
}

// Of those before, the one of the smallest world, the first of several.
template <class Is>
const PointResult* smallest(const PointResult& result, const std::vector<PointResult>& before, const Is& is) {
  const PointResult* found = nullptr;
  for (const PointResult& other : before)
    if (other.id != result.id && other.outcome == Outcome::ok && !other.losses.empty() && is(other.point) &&
        (!found || other.world < found->world))
      found = &other;
  return found;
}

// A row whose layout decides what is trained otherwise than that of a row before it says so: it looks comparable and is not compared.
void tell_other_training(PointResult& result, const std::vector<PointResult>& before) {
  const std::string mine = decided_by_layout(result.point), key = training_key(result.point);
  if (mine.empty()) return;
  const PointResult* other =
      smallest(result, before, [&](const Point& p) { return training_key(p) == key && decided_by_layout(p) != mine; });
  if (!other) return;
  const std::string note = fmt::format("{}, in {} ({}) {}: losses of the two are not compared", mine,
                                       layout_of(other->point), other->id, decided_by_layout(other->point));
  if (result.reason.find(note) == std::string::npos) result.reason += (result.reason.empty() ? "" : "; ") + note;
}

}  // namespace

std::string agreement_key(const Point& point) {
  const std::string decided = decided_by_layout(point);
  return training_key(point) + (decided.empty() ? "" : ", " + decided);
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
  tell_other_training(result, before);
  const PointResult* reference = smallest(result, before, [&](const Point& p) { return agreement_key(p) == key; });
  if (!reference) return;
  const Precision precision = tolerance_of(result.point);
  const auto apart = [&](const char* what, std::size_t step, double mine, double theirs, double tolerance) {
    const double difference = relative_difference(mine, theirs, 1e-3);
    if (difference <= tolerance) return false;
    result.outcome = Outcome::wrong;
    result.reason =
        fmt::format("the {} of step {} is {:.6g}, but {:.6g} with {} ({}): they differ by {:.1e}, need at most {:.0e}",
                    what, step + 1, mine, theirs, layout_of(reference->point), reference->id, difference, tolerance);
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
      if (apart("gradient norm", i, result.gradient_norms[i], reference->gradient_norms[i], *tolerance)) return;
}

}  // namespace mbench::sweeps
