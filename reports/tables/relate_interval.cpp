#include "reports/tables/relate_interval.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/records/mean_ratio.h"
#include "reports/tables/relate.h"

namespace mbench::reports {
namespace {

bool is_time(const std::string& value) {
  return value == "iteration_ms" || value == "iteration_ms.mean";
}

std::optional<MeanOf> mean_step(const Record& record) {
  const std::vector<double>& samples = record.samples_ms();
  if (record.simulated() || samples.size() < 2 || record.find("seeds")) return std::nullopt;
  const MeanOf mean = mean_of(samples, autocorrelation_time(samples));
  return mean.mean > 0 ? std::optional(mean) : std::nullopt;
}

}  // namespace

bool compares_steps(const ColumnDeclaration& column) {
  if (!column.relation || !(is_time(column.value) || column.value == "samples_per_s")) return false;
  const Relation relation = *column.relation;
  return relation == Relation::overhead || relation == Relation::saved || relation == Relation::ratio ||
         relation == Relation::speedup;
}

std::optional<RelatedInterval> related_interval(const Record& point, const Record& reference,
                                                const ColumnDeclaration& column) {
  if (!compares_steps(column)) return std::nullopt;
  const auto now = mean_step(point), base = mean_step(reference);
  if (!now || !base || (now->variance == 0 && base->variance == 0))
    return std::nullopt;  // samples that are all alike have no noise to tell
  Interval ratio = mean_ratio(*now, *base).interval;
  if (!is_time(column.value)) ratio = {1 / ratio.high, 1 / ratio.low};
  Interval interval = {related(*column.relation, ratio.low, 1, 1), related(*column.relation, ratio.high, 1, 1)};
  if (interval.low > interval.high) std::swap(interval.low, interval.high);
  return RelatedInterval{interval, ratio.low <= 1 && ratio.high >= 1};
}

std::string interval_text(const RelatedInterval& related, const ColumnDeclaration& column, Formatter& formatter) {
  constexpr double kMostTimes = 1000;  // two steps may leave everything open
  const std::string mark = related.holds_no_change ? " (noise)" : "";
  if (!(related.interval.high < kMostTimes)) return mark;
  const auto& parts = column.format.parts();
  const auto value =
      std::find_if(parts.begin(), parts.end(), [](const CellText::Part& part) { return !part.name.empty(); });
  if (value == parts.end()) return mark;
  CellText::Part part = *value;
  part.mode = CellText::Part::Digits::decimals;
  const double width = (related.interval.high - related.interval.low) * part.scale;
  part.digits = width >= 5 ? 0 : width >= 0.5 ? 1 : 2;
  return fmt::format(" [{}, {}]{}", formatter.number(related.interval.low, part),
                     formatter.number(related.interval.high, part), mark);
}

}  // namespace mbench::reports
