#include "reports/tables/relate.h"

#include <algorithm>

#include "engine/point/outcome.h"
#include "reports/tables/relate_interval.h"

namespace mbench::reports {
namespace {

// {"world": "first"}: the field may have any value.
bool means_first(const Condition::Term& term) {
  return term.value == "first";
}

}  // namespace

double related(Relation relation, double v, double r, double scale) {
  switch (relation) {
    case Relation::overhead:
      return (v - r) / r;
    case Relation::saved:
      return (r - v) / r;
    case Relation::reduction:
      return r - v;
    case Relation::difference:
      return v - r;
    case Relation::ratio:
      return v / r;
    case Relation::speedup:
    case Relation::weak_efficiency:
      return r / v;
    case Relation::efficiency:
      return r / v / scale;
  }
  return 0;
}

References::References(const ColumnDeclaration& column, const std::set<std::string>& axes,
                       const std::vector<const Place*>& places)
    : by_pivot_(column.against.empty()) {
  Condition wanted;
  std::set<std::string> free;
  for (const Condition::Term& term : column.against.terms()) {
    free.insert(term.field);
    if (!means_first(term)) wanted.add(term.field, term.value);
  }
  for (const std::string& axis : axes)
    if (!free.count(axis)) shared_.push_back(axis);
  for (const Place* place : places)
    if (wanted.matches(*place->record)) found_.try_emplace(key(*place), place->record);
}

std::string References::key(const Place& place) const {
  if (by_pivot_) return place.pivot;
  std::string key;
  for (const std::string& axis : shared_) key += place.record->text(axis) + '\x1f';
  return key;
}

const Record* References::find(const Place& place) const {
  const auto it = found_.find(key(place));
  return it == found_.end() ? nullptr : it->second;
}

Cell compared(const Record& point, const Record* reference, const ColumnDeclaration& column, Formatter& formatter) {
  if (reference == &point) return {column.self, {}};
  const Cell unknown = {"n/a", {}};
  if (!reference || reference->outcome() != Outcome::ok) return unknown;
  const auto value = point.value(column.value), base = reference->value(column.value);
  if (!value.is_number() || !base.is_number()) return unknown;
  const double v = value.get<double>(), r = base.get<double>();
  const Relation relation = *column.relation;
  const bool of_two = relation == Relation::difference || relation == Relation::reduction;
  if (!of_two && (v == 0 || r == 0)) return unknown;  // no ratio
  const double scale = point.value("world").get<double>() / reference->value("world").get<double>();
  const double number = related(relation, v, r, scale);
  Cell cell = {formatter.number(number, column.format), number};
  if (const auto interval = related_interval(point, *reference, column)) {
    cell.text += interval_text(*interval, column, formatter);
    cell.values = {number, interval->interval.low, interval->interval.high};
  }
  return cell;
}

}  // namespace mbench::reports
