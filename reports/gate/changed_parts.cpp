#include "reports/gate/changed_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "engine/base/printed_part.h"
#include "engine/point/result.h"
#include "reports/records/number_text.h"
#include "reports/records/statistics.h"

namespace mbench::reports {
namespace {

constexpr double kShareOfThreshold = 0.2;
constexpr double kRounding = 1e-9;  // of the whole, by which sums of parts without noise may differ

// `name`: of a part by its index.
template <class Name, class Values>
std::vector<PartChange> changes_of(const Name& name, const Values& now, const Values& baseline, double least) {
  std::vector<PartChange> changed;
  for (std::size_t i = 0; i < now.size(); ++i)
    if (std::abs(now[i] - baseline[i]) > least) changed.push_back({name(i), baseline[i], now[i]});
  return changed;
}

void largest_first(std::vector<PartChange>& parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const PartChange& a, const PartChange& b) {
    return std::abs(a.now - a.baseline) > std::abs(b.now - b.baseline);
  });
}

// "1,234,567"
std::string grouped(const std::string& digits) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string ms_change(double change) {
  const double size = std::abs(change);
  return fmt::format("{}{} ms", change < 0 ? "-" : "+",
                     fixed_text(size, size >= 100  ? 0
                                      : size >= 10 ? 1
                                      : size >= 1  ? 2
                                                   : 3));
}

}  // namespace

std::vector<PartChange> changed_time_parts(const PointResult& now, const PointResult& base, double threshold) {
  if (!now.time_anatomy_ms || !base.time_anatomy_ms || !base.iteration_ms) return {};
  const double step = base.iteration_ms->mean;
  const bool exact = now.simulated && base.simulated;
  auto changed =
      changes_of([](std::size_t i) { return printed_name(static_cast<TimePart>(i)); }, now.time_anatomy_ms->ms,
                 base.time_anatomy_ms->ms, step * (exact ? kRounding : kShareOfThreshold * threshold));
  largest_first(changed);
  return changed;
}

std::vector<PartChange> changed_memory_parts(const PointResult& now, const PointResult& base) {
  std::vector<PartChange> changed;
  const auto add = [&](const std::optional<MemoryAnatomy>& a, const std::optional<MemoryAnatomy>& b,
                       const char* where) {
    if (!a || !b) return;
    for (PartChange& part :
         changes_of([](std::size_t i) { return std::string(kCategoryNames[i]); }, a->mib, b->mib, 0)) {
      part.name += where;
      changed.push_back(std::move(part));
    }
  };
  add(now.memory_anatomy_mib, base.memory_anatomy_mib, "");
  add(now.host_memory_anatomy_mib, base.host_memory_anatomy_mib, " in host memory");
  largest_first(changed);
  return changed;
}

std::vector<PartChange> changed_communication(const PointResult& now, const PointResult& base) {
  if (!now.communication_mib || !base.communication_mib) return {};
  auto changed = changes_of([](std::size_t i) { return std::string(kCommunicationNames[i]); },
                            now.communication_mib->mib, base.communication_mib->mib, 0);
  largest_first(changed);
  return changed;
}

std::vector<PartChange> changed_tensors(const PointResult& now, const PointResult& base) {
  if (now.peak_tensors_mib.empty() || base.peak_tensors_mib.empty()) return {};
  std::map<std::string, PartChange> by_name;
  for (const PeakTensor& t : base.peak_tensors_mib) by_name[t.name].baseline = t.mib;
  for (const PeakTensor& t : now.peak_tensors_mib) by_name[t.name].now = t.mib;
  std::vector<PartChange> changed;
  for (auto& [name, change] : by_name) {
    change.name = name;
    if (change.now != change.baseline) changed.push_back(std::move(change));
  }
  largest_first(changed);
  return changed;
}

std::vector<PartChange> changed_ranks(const PointResult& now, const PointResult& base, double threshold) {
  const auto &a = now.compute_ms_by_rank, &b = base.compute_ms_by_rank;
  if (a.size() < 2 || a.size() != b.size() || !base.iteration_ms) return {};
  std::vector<double> changes;
  for (std::size_t i = 0; i < a.size(); ++i) changes.push_back(a[i].median - b[i].median);
  const double usual = median_of(changes), least = base.iteration_ms->mean * threshold * kShareOfThreshold;
  std::vector<PartChange> changed;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(changes[i] - usual) > least) changed.push_back({fmt::format("rank {}", i), b[i].median, a[i].median});
  largest_first(changed);
  return changed;
}

std::vector<PartChange> changed_memory_of_ranks(const PointResult& now, const PointResult& base) {
  const auto &a = now.peak_memory_by_rank_mib, &b = base.peak_memory_by_rank_mib;
  if (a.size() < 2 || a.size() != b.size()) return {};
  auto changed = changes_of([](std::size_t i) { return fmt::format("rank {}", i); }, a, b, 0);
  const bool alike =
      changed.size() == a.size() && std::all_of(changed.begin(), changed.end(), [&](const PartChange& c) {
        return c.now - c.baseline == changed.front().now - changed.front().baseline;
      });
  if (alike) return {{"all ranks", b.front(), a.front()}};
  largest_first(changed);
  return changed;
}

std::string byte_change(double now_mib, double baseline_mib) {
  const double bytes = std::round((now_mib - baseline_mib) * 1048576);
  if (!(std::abs(bytes) < 1e18)) return std::isfinite(bytes) ? fmt::format("{:+.3g} bytes", bytes) : "not finite";
  return fmt::format("{}{} bytes", bytes < 0 ? "-" : "+", grouped(fmt::format("{:.0f}", std::abs(bytes))));
}

std::string parts_text(const std::vector<PartChange>& parts, bool in_bytes) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (const PartChange& part : std::span(parts).first(std::min(kNamed, parts.size())))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", part.name,
                        in_bytes ? byte_change(part.now, part.baseline) : ms_change(part.now - part.baseline));
  if (parts.size() > kNamed) return fmt::format("{}, {} more", text, parts.size() - kNamed);
  return text.empty() || parts.front().name == "all ranks" ? text : text + ", the rest the same";
}

}  // namespace mbench::reports
