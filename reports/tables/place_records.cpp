#include "reports/tables/place_records.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace mbench::reports {
namespace {

// The declaration's "*" as one label column for each swept field that nothing else names.
void write_out_swept(TableDeclaration& declaration, const std::vector<std::string>& swept) {
  std::set<std::string> named;
  const auto add = [&](const CellText& text) {
    for (const std::string& name : text.names()) named.insert(name);
  };
  for (const CellText& section : declaration.sections) add(section);
  if (declaration.pivot) add(*declaration.pivot);
  for (const RowDeclaration& row : declaration.rows)
    for (const CellText& line : row.lines) add(line);
  std::vector<RowDeclaration> rows;
  for (const RowDeclaration& row : declaration.rows) {
    if (!row.swept) {
      rows.push_back(row);
      continue;
    }
    for (const std::string& field : swept)
      if (named.insert(field).second) rows.push_back(row_of(field));
  }
  if (rows.empty()) rows.push_back(row_of("model"));  // one point, or points that differ in nothing
  declaration.rows = std::move(rows);
}

// The declaration's "*" as one column for each metric that a record has and no other column names.
void write_out_metrics(TableDeclaration& declaration, const std::vector<const Record*>& records) {
  if (std::none_of(declaration.columns.begin(), declaration.columns.end(), [](const auto& c) { return c.every; }))
    return;
  std::set<std::string> named;
  for (const ColumnDeclaration& column : declaration.columns) named.insert(column.name);
  std::vector<ColumnDeclaration> columns;
  for (const ColumnDeclaration& column : declaration.columns) {
    if (!column.every) {
      columns.push_back(column);
      continue;
    }
    for (const std::string& name : metric_names(records))
      if (named.insert(name).second) columns.push_back(column_of(name));
  }
  declaration.columns = std::move(columns);
}

std::set<std::string> axes_of(const TableDeclaration& declaration) {
  std::set<std::string> axes;
  const auto add = [&](const CellText& text) {
    for (const std::string& name : text.names()) axes.insert(name);
  };
  for (const CellText& section : declaration.sections) add(section);
  if (declaration.pivot) add(*declaration.pivot);
  for (const RowDeclaration& row : declaration.rows) {
    for (const CellText& line : row.lines) add(line);
    for (const RowName& name : row.names)
      for (const Condition::Term& term : name.where.terms()) axes.insert(term.field);
  }
  for (const ColumnDeclaration& column : declaration.columns)
    for (const Condition::Term& term : column.where.terms()) axes.insert(term.field);
  return axes;
}

std::string text_of_lines(const std::vector<CellText>& lines, const Record& record, const Labels& labels,
                          Formatter& formatter) {
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i) text += '\n';
    text += formatter.format(lines[i], record, labels);
  }
  return text;
}

// The row's labels; false if a named row of the declaration would have to fit and none does.
bool label(const TableDeclaration& declaration, const Record& record, Formatter& formatter, Place& place) {
  for (const RowDeclaration& row : declaration.rows) {
    if (row.names.empty()) {
      place.labels.push_back(text_of_lines(row.lines, record, declaration.labels, formatter));
      continue;
    }
    const auto name =
        std::find_if(row.names.begin(), row.names.end(), [&](const RowName& n) { return n.where.matches(record); });
    if (name == row.names.end()) return false;
    place.labels.push_back(text_of_lines(name->lines, record, declaration.labels, formatter));
    place.rank = place.rank * row.names.size() + static_cast<std::size_t>(name - row.names.begin());
  }
  return true;
}

// What two places must share to fall into one cell, but for the column.
std::string cell_key(const Place& place) {
  std::string key;
  for (const auto* part : {&place.headings, &place.labels})
    for (const std::string& text : *part) key += text + '\x1f';
  return key + place.pivot + '\x1f';
}

// Adds swept fields to the innermost heading until no two points that differ share a cell.
void tell_apart(std::vector<Place>& places, const std::vector<std::string>& swept, std::set<std::string>& axes) {
  for (const std::string& field : swept) {
    if (axes.count(field)) continue;
    std::unordered_map<std::string, nlohmann::ordered_json> seen;
    bool conflict = false;
    for (const Place& place : places) {
      const std::string key = cell_key(place);
      const auto value = place.record->value(field);
      for (const std::size_t column : place.columns) {
        const auto [it, fresh] = seen.try_emplace(key + std::to_string(column), value);
        conflict = conflict || (!fresh && it->second != value);
      }
      if (conflict) break;
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

// Sections in order of appearance at every level: those below one heading stand together.
void number_sections(std::vector<Place>& places) {
  using Path = std::vector<std::size_t>;                                // which heading it is at each level
  std::map<std::pair<std::size_t, std::string>, std::size_t> headings;  // (parent, text) -> number, from 1
  std::vector<Path> paths;
  for (const Place& place : places) {
    std::size_t parent = 0;
    Path path;
    for (const std::string& heading : place.headings)
      path.push_back(parent = headings.try_emplace({parent, heading}, headings.size() + 1).first->second);
    paths.push_back(std::move(path));
  }
  std::map<Path, std::size_t> sections;
  for (const Path& path : paths) sections.try_emplace(path, 0);
  std::size_t next = 0;
  for (auto& [path, number] : sections) number = next++;
  for (std::size_t i = 0; i < places.size(); ++i) places[i].section = sections.at(paths[i]);
}

// Before, in a column of numbers, of texts, or of both; unknown values come last in either direction.
int compare_values(const nlohmann::ordered_json& x, const nlohmann::ordered_json& y, bool descending) {
  if (x.is_null() || y.is_null()) return static_cast<int>(x.is_null()) - static_cast<int>(y.is_null());
  int order = 0;
  if (x.is_number() && y.is_number()) {
    const double a = x.get<double>(), b = y.get<double>();
    order = a < b ? -1 : a > b;
  } else {
    order = text_of(x).compare(text_of(y));
  }
  return descending ? -order : order;
}

// Stable; `by_rank` puts named rows in their order first.
void sort_places(std::vector<Place>& places, const std::vector<SortBy>& keys, bool by_rank) {
  struct Keyed {
    std::vector<nlohmann::ordered_json> values;
    Place place;
  };
  std::vector<Keyed> keyed;
  keyed.reserve(places.size());
  for (Place& place : places) {
    std::vector<nlohmann::ordered_json> values;
    for (const SortBy& key : keys) values.push_back(place.record->value(key.name));
    keyed.push_back({std::move(values), std::move(place)});
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    if (a.place.section != b.place.section) return a.place.section < b.place.section;
    if (by_rank && a.place.rank != b.place.rank) return a.place.rank < b.place.rank;
    for (std::size_t k = 0; k < keys.size(); ++k)
      if (const int order = compare_values(a.values[k], b.values[k], keys[k].descending)) return order < 0;
    return false;
  });
  for (std::size_t i = 0; i < keyed.size(); ++i) places[i] = std::move(keyed[i].place);
}

}  // namespace

PlacedRecords place_records(const TableDeclaration& declaration, const std::vector<const Record*>& records,
                            const std::vector<std::string>& swept, const SortBy& sort, Formatter& formatter) {
  PlacedRecords placement{declaration, {}, {}};
  write_out_swept(placement.declaration, swept);
  write_out_metrics(placement.declaration, records);
  placement.axes = axes_of(placement.declaration);
  for (const Record* record : records) {
    Place place;
    place.record = record;
    for (const CellText& section : placement.declaration.sections)
      place.headings.push_back(formatter.format(section, *record, placement.declaration.labels));
    if (!label(placement.declaration, *record, formatter, place)) continue;
    if (placement.declaration.pivot)
      place.pivot = formatter.format(*placement.declaration.pivot, *record, placement.declaration.labels);
    for (std::size_t i = 0; i < placement.declaration.columns.size(); ++i)
      if (placement.declaration.columns[i].where.matches(*record)) place.columns.push_back(i);
    if (!place.columns.empty()) placement.places.push_back(std::move(place));
  }
  tell_apart(placement.places, swept, placement.axes);
  number_sections(placement.places);
  sort_places(placement.places, placement.declaration.sort, true);
  for (std::size_t i = 0; i < placement.places.size(); ++i) placement.places[i].natural = i;
  if (!sort.name.empty()) sort_places(placement.places, {sort}, false);
  return placement;
}

}  // namespace mbench::reports
