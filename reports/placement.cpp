#include "reports/placement.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mbench {
namespace {

// The layout's "*" as one label column for each swept field that nothing else names.
void write_out_swept(Layout& layout, const std::vector<std::string>& swept) {
  std::set<std::string> named;
  for (const CellText& section : layout.sections)
    for (const std::string& name : section.names()) named.insert(name);
  if (layout.pivot)
    for (const std::string& name : layout.pivot->names()) named.insert(name);
  for (const LayoutRow& row : layout.rows)
    if (row.text)
      for (const std::string& name : row.text->names()) named.insert(name);
  std::vector<LayoutRow> rows;
  for (const LayoutRow& row : layout.rows) {
    if (!row.swept) {
      rows.push_back(row);
      continue;
    }
    for (const std::string& field : swept)
      if (named.insert(field).second) rows.push_back(row_of(field));
  }
  if (rows.empty()) rows.push_back(row_of("model"));  // one point, or points that differ in nothing
  layout.rows = std::move(rows);
}

std::set<std::string> axes_of(const Layout& layout) {
  std::set<std::string> axes;
  const auto add = [&](const CellText& text) {
    for (const std::string& name : text.names()) axes.insert(name);
  };
  for (const CellText& section : layout.sections) add(section);
  if (layout.pivot) add(*layout.pivot);
  for (const LayoutRow& row : layout.rows) {
    if (row.text) add(*row.text);
    for (const LayoutRowName& name : row.names)
      for (const Filter::Term& term : name.where.terms()) axes.insert(term.field);
  }
  for (const LayoutColumn& column : layout.columns)
    for (const Filter::Term& term : column.where.terms()) axes.insert(term.field);
  return axes;
}

// The row's labels; false if a named row of the layout would have to fit and none does.
bool label(const Layout& layout, const Record& record, Formatter& formatter, Place& place) {
  for (const LayoutRow& row : layout.rows) {
    if (row.text) {
      place.labels.push_back(formatter.format(*row.text, record, layout.labels));
      continue;
    }
    const auto name = std::find_if(row.names.begin(), row.names.end(),
                                   [&](const LayoutRowName& n) { return n.where.matches(record); });
    if (name == row.names.end()) return false;
    place.labels.push_back(formatter.format(name->text, record, layout.labels));
    place.rank = place.rank * row.names.size() + static_cast<std::size_t>(name - row.names.begin());
  }
  return true;
}

// Adds swept fields to the innermost heading until no two points that differ share a cell.
void tell_apart(std::vector<Place>& places, const std::vector<std::string>& swept,
                std::set<std::string>& axes) {
  using Key = std::tuple<std::vector<std::string>, std::vector<std::string>, std::string, std::size_t>;
  for (const std::string& field : swept) {
    if (axes.count(field)) continue;
    std::map<Key, nlohmann::ordered_json> seen;
    bool conflict = false;
    for (const Place& place : places)
      for (const std::size_t column : place.columns) {
        const auto value = place.record->value(field);
        const auto [it, fresh] = seen.try_emplace({place.headings, place.labels, place.pivot, column}, value);
        conflict = conflict || (!fresh && it->second != value);
      }
    if (!conflict) continue;
    axes.insert(field);
    for (Place& place : places) {
      const std::string text = field + " " + place.record->text(field);
      if (place.headings.empty())
        place.headings.push_back(text);
      else
        place.headings.back() += ", " + text;
    }
  }
}

// Before, in a column of numbers, of texts, or of both; unknown values come last in either direction.
bool sorts_before(const Record& a, const Record& b, const SortBy& sort) {
  const auto x = a.value(sort.name), y = b.value(sort.name);
  if (x.is_null() || y.is_null()) return !x.is_null() && y.is_null();
  if (x.is_number() && y.is_number())
    return sort.descending ? y.get<double>() < x.get<double>() : x.get<double>() < y.get<double>();
  return sort.descending ? text_of(y) < text_of(x) : text_of(x) < text_of(y);
}

// Sections in order of appearance at every level; within one, named rows in theirs, then as asked for.
void order(std::vector<Place>& places, const SortBy& sort) {
  std::map<std::vector<std::string>, std::size_t> first;
  for (const Place& place : places)
    for (std::size_t depth = 1; depth <= place.headings.size(); ++depth)
      first.try_emplace({place.headings.begin(), place.headings.begin() + static_cast<std::ptrdiff_t>(depth)},
                        first.size());
  const auto section = [&](const Place& place) {
    std::vector<std::size_t> key;
    for (std::size_t depth = 1; depth <= place.headings.size(); ++depth)
      key.push_back(
          first.at({place.headings.begin(), place.headings.begin() + static_cast<std::ptrdiff_t>(depth)}));
    return key;
  };
  std::vector<std::pair<std::vector<std::size_t>, Place>> keyed;
  keyed.reserve(places.size());
  for (Place& place : places) {
    std::vector<std::size_t> key = section(place);
    keyed.emplace_back(std::move(key), std::move(place));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    if (!sort.name.empty()) return sorts_before(*a.second.record, *b.second.record, sort);
    return a.second.rank < b.second.rank;
  });
  for (std::size_t i = 0; i < keyed.size(); ++i) places[i] = std::move(keyed[i].second);
}

}  // namespace

Placement place_records(const Layout& layout, const std::vector<const Record*>& records,
                        const std::vector<std::string>& swept, const SortBy& sort, Formatter& formatter) {
  Placement placement{layout, {}, {}};
  write_out_swept(placement.layout, swept);
  placement.axes = axes_of(placement.layout);
  for (const Record* record : records) {
    Place place;
    place.record = record;
    for (const CellText& section : placement.layout.sections)
      place.headings.push_back(formatter.format(section, *record, placement.layout.labels));
    if (!label(placement.layout, *record, formatter, place)) continue;
    if (placement.layout.pivot)
      place.pivot = formatter.format(*placement.layout.pivot, *record, placement.layout.labels);
    for (std::size_t i = 0; i < placement.layout.columns.size(); ++i)
      if (placement.layout.columns[i].where.matches(*record)) place.columns.push_back(i);
    if (!place.columns.empty()) placement.places.push_back(std::move(place));
  }
  tell_apart(placement.places, swept, placement.axes);
  order(placement.places, sort);
  return placement;
}

}  // namespace mbench
