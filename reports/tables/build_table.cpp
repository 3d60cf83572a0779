#include "reports/tables/build_table.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/point/fields.h"
#include "engine/point/outcome.h"
#include "reports/tables/place_records.h"
#include "reports/tables/relate.h"
#include "reports/tables/relate_interval.h"

namespace mbench::reports {
namespace {

bool names_outcome(const ColumnDeclaration& column) {
  return std::any_of(column.lines.begin(), column.lines.end(), [](const CellText& line) {
    const auto names = line.names();
    return std::find(names.begin(), names.end(), "outcome") != names.end();
  });
}

// Whether a column tells how a point was set up, which is known even where the point failed.
bool is_configuration(const ColumnDeclaration& column) {
  if (column.relation) return false;
  for (const CellText& line : column.lines)
    for (const std::string& name : line.names()) {
      const std::string root = name.substr(0, name.find('.'));
      if (!is_field(name) && !find_field(root) && root != "id" && root != "world" && root != "device" &&
          root != "simulated" && root != "parameters" && root != "published" && name != "error.parameters")
        return false;
    }
  return true;
}

// The names of all values of a column's text, each once.
std::vector<std::string> value_names(const ColumnDeclaration& column) {
  std::vector<std::string> names;
  for (const CellText& line : column.lines)
    for (std::string& name : line.names())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  return names;
}

bool is_error(const ColumnDeclaration& column) {
  return column.name.starts_with("error.");
}

class Builder {
 public:
  Builder(PlacedRecords placement, Formatter& formatter) : placement_(std::move(placement)), formatter_(formatter) {
    const auto& columns = declaration().columns;
    has_outcome_ = std::any_of(columns.begin(), columns.end(), names_outcome);
    for (const ColumnDeclaration& column : columns) {
      names_outcome_.push_back(names_outcome(column));
      configuration_.push_back(is_configuration(column));
      values_.push_back(value_names(column));
    }
  }

  BuiltTable build() {
    BuiltTable built;
    built.table.name = declaration().name;
    built.table.title = declaration().title;
    const auto& places = placement_.places;
    for (std::size_t i = 0; i < places.size();) {
      std::size_t end = i;
      while (end < places.size() && places[end].section == places[i].section) built.shown.insert(places[end++].record);
      built.table.sections.push_back(section(i, end));
      i = end;
    }
    if (!declaration().note.empty()) built.table.notes.push_back(declaration().note);
    if (has_interval_) built.table.notes.push_back(kIntervalNote);
    return built;
  }

 private:
  struct Row {
    std::vector<std::string> labels;
    std::vector<const Place*> slots;  // who stands in each column, pivot by pivot; null: nobody
  };

  const TableDeclaration& declaration() const { return placement_.declaration; }

  Section section(std::size_t begin, std::size_t end) {
    Section section;
    section.headings = placement_.places[begin].headings;
    const std::vector<std::string> pivots = refer(begin, end);
    std::vector<Row> rows;
    std::map<std::vector<std::string>, std::vector<std::size_t>> rows_of;  // those with these labels
    std::unordered_map<std::string, std::size_t> pivot_numbers;
    for (const std::string& pivot : pivots) pivot_numbers.emplace(pivot, pivot_numbers.size());
    const std::size_t columns = declaration().columns.size();
    for (std::size_t i = begin; i < end; ++i) {
      const Place& place = placement_.places[i];
      const std::size_t first = columns * pivot_numbers.at(place.pivot);
      std::vector<std::size_t>& same = rows_of[place.labels];
      const auto found = std::find_if(same.begin(), same.end(), [&](std::size_t row) {
        return std::none_of(place.columns.begin(), place.columns.end(),
                            [&](std::size_t c) { return rows[row].slots[first + c] != nullptr; });
      });
      const std::size_t row = found == same.end() ? rows.size() : *found;
      if (row == rows.size()) {
        same.push_back(row);
        rows.push_back({place.labels, std::vector<const Place*>(columns * pivots.size())});
      }
      for (const std::size_t column : place.columns) rows[row].slots[first + column] = &place;
    }
    for (const RowDeclaration& row : declaration().rows) section.columns.push_back({row.header, row.name, false, {}});
    for (const std::string& pivot : pivots)
      for (std::size_t c = 0; c < declaration().columns.size(); ++c) section.columns.push_back(heading(pivot, c));
    for (const Row& row : rows) section.rows.push_back(cells(row, section));
    align(section);
    name_for_machines(section);
    return section;
  }

  // Finds what the section's points are compared with. Returns the headers of its pivot, in the table's own
  // order.
  std::vector<std::string> refer(std::size_t begin, std::size_t end) {
    std::vector<const Place*> natural;
    for (std::size_t i = begin; i < end; ++i) natural.push_back(&placement_.places[i]);
    std::sort(natural.begin(), natural.end(), [](const Place* a, const Place* b) { return a->natural < b->natural; });
    references_.clear();
    for (std::size_t c = 0; c < declaration().columns.size(); ++c)
      if (declaration().columns[c].relation)
        references_.emplace(c, References(declaration().columns[c], placement_.axes, natural));
    std::vector<std::string> pivots;
    std::set<std::string> seen;
    for (const Place* place : natural)
      if (seen.insert(place->pivot).second) pivots.push_back(place->pivot);
    return pivots;
  }

  Column heading(const std::string& pivot, std::size_t index) const {
    const ColumnDeclaration& column = declaration().columns[index];
    const bool alone = declaration().columns.size() == 1;
    Column heading = {column.header, column.name, false, {}};
    if (values_[index].size() > 1 && !names_outcome(column)) heading.values = values_[index];
    if (compares_steps(column)) heading.values = {column.name, column.name + ".low", column.name + ".high"};
    if (!declaration().pivot) return heading;
    heading.header = alone ? pivot : pivot + ", " + column.header;
    heading.name = alone ? pivot : pivot + ": " + column.name;
    for (std::string& value : heading.values) value = pivot + ": " + value;
    return heading;
  }

  std::vector<Cell> cells(const Row& row, Section& section) {
    std::vector<Cell> cells;
    for (const std::string& label : row.labels) cells.push_back({label, {}});
    bool all_simulated = true;
    for (const Place* place : row.slots) all_simulated = all_simulated && (!place || place->record->simulated());
    // What is to be said of the row's points beside their numbers goes to the outcome where there is a column
    // for it, and else to the last label.
    std::set<const Record*> noted;
    if (!has_outcome_) {
      if (all_simulated) cells.back().marked = true;
      for (const Place* place : row.slots)
        if (place && place->record->outcome() == Outcome::ok && !place->record->reason().empty() &&
            noted.insert(place->record).second)
          cells.back().footnote = footnote(section, place->record->reason());
    }
    for (std::size_t slot = 0; slot < row.slots.size(); ++slot) {
      const Place* place = row.slots[slot];
      if (!place) {
        cells.emplace_back();
        continue;
      }
      const std::size_t column = slot % declaration().columns.size();
      Cell cell = this->cell(*place, column, section, noted);
      cell.point = place->record->id();
      cell.simulated = place->record->simulated();
      cell.marked = cell.simulated && (has_outcome_ ? names_outcome_[column] : !all_simulated);
      cells.push_back(std::move(cell));
    }
    return cells;
  }

  Cell cell(const Place& place, std::size_t index, Section& section, std::set<const Record*>& noted) {
    const ColumnDeclaration& column = declaration().columns[index];
    const Record& record = *place.record;
    Cell cell;
    const auto note = [&](const std::string& reason) {
      if (!reason.empty() && noted.insert(&record).second) cell.footnote = footnote(section, reason);
    };
    if (names_outcome_[index]) {
      cell.text = outcome_word(record.outcome());
      note(record.reason());
      return cell;
    }
    if (record.outcome() != Outcome::ok && !configuration_[index]) {
      if (has_outcome_ || column.relation || is_error(column)) {
        cell.text = "-";
        return cell;
      }
      cell.text = outcome_word(record.outcome());
      cell.is_gap = true;
      note(record.reason());
      return cell;
    }
    if (column.relation) {
      cell = compared(record, references_.at(index).find(place), column, formatter_);
      has_interval_ = has_interval_ || !cell.values.empty();
      return cell;
    }
    for (const CellText& line : column.lines) {
      const std::string text = formatter_.format(line, record, declaration().labels);
      if (text.empty()) continue;  // a line in brackets, of which something is unknown
      if (!cell.text.empty()) cell.text += '\n';
      cell.text += text;
    }
    // One value, its spread in brackets aside, is a number.
    std::string only;
    int values = 0;
    for (const CellText& line : column.lines)
      for (const CellText::Part& part : line.parts())
        if (!part.name.empty() && !part.group) only = part.name, ++values;
    if (values == 1) {
      const auto value = record.value(only);
      if (value.is_number()) cell.number = value.get<double>();
      cell.is_gap = only.starts_with("published.") && value.is_string();  // published as OOM
      if (const std::string remark = record.remark(only); !remark.empty()) cell.footnote = footnote(section, remark);
    }
    if (values_[index].size() < 2 || cell.is_gap) return cell;
    for (const std::string& name : values_[index]) {
      const auto value = record.value(name);
      cell.values.push_back(value.is_number() ? std::optional(value.get<double>()) : std::nullopt);
      if (!value.is_number() && !value.is_null()) is_text_.insert(index);
    }
    return cell;
  }

  // An outcome as this table says it.
  std::string outcome_word(Outcome outcome) const {
    const auto labels = declaration().labels.find("outcome");
    if (labels != declaration().labels.end())
      if (const auto it = labels->second.find(std::string(name_of(outcome))); it != labels->second.end())
        return it->second;
    return outcome_text(outcome);
  }

  static int footnote(Section& section, const std::string& reason) {
    const auto it = std::find(section.footnotes.begin(), section.footnotes.end(), reason);
    const auto index = it - section.footnotes.begin();
    if (it == section.footnotes.end()) section.footnotes.push_back(reason);
    return static_cast<int>(index) + 1;
  }

  // Numbers, and the words that stand for one, align right.
  void align(Section& section) const {
    for (std::size_t c = 0; c < section.columns.size(); ++c) {
      const bool is_label = c < declaration().rows.size();
      const std::size_t column = is_label ? 0 : (c - declaration().rows.size()) % declaration().columns.size();
      if (!is_label && declaration().columns[column].relation) {
        section.columns[c].right = true;
        continue;
      }
      section.columns[c].right = std::all_of(section.rows.begin(), section.rows.end(), [&](const auto& row) {
        const Cell& cell = row[c];
        const std::string& t = cell.text;
        if (cell.number || (!t.empty() && std::isdigit(static_cast<unsigned char>(t[0])))) return true;
        return !is_label && (cell.is_gap || t == "n/a" || t == "-" || t.empty());
      });
    }
  }

  // Programs find a column by its name: one name, one column. Columns with a text among their values have
  // one.
  void name_for_machines(Section& section) const {
    std::set<std::string> seen;
    const auto make_unique = [&](std::string& name, const std::string& header) {
      if (!seen.count(name) || (name = header + ": " + name, !seen.count(name))) {
        seen.insert(name);
        return;
      }
      const std::string stem = name;
      for (int i = 2; !seen.insert(name = fmt::format("{} ({})", stem, i)).second; ++i) {
      }
    };
    for (std::size_t c = 0; c < section.columns.size(); ++c) {
      Column& column = section.columns[c];
      const std::size_t labels = declaration().rows.size();
      if (c >= labels && is_text_.count((c - labels) % declaration().columns.size())) column.values.clear();
      if (column.values.empty()) make_unique(column.name, column.header);
      for (std::string& value : column.values) make_unique(value, column.header);
    }
  }

  PlacedRecords placement_;
  Formatter& formatter_;
  bool has_outcome_ = false, has_interval_ = false;
  std::vector<bool> configuration_, names_outcome_;  // of each column
  std::vector<std::vector<std::string>> values_;     // of each column's text
  std::set<std::size_t> is_text_;                    // columns of which some value is no number
  std::map<std::size_t, References> references_;     // of the comparing columns, in the section being built
};

}  // namespace

BuiltTable build_table(const TableDeclaration& declaration, const std::vector<const Record*>& records,
                       const std::vector<std::string>& swept, const SortBy& sort) {
  std::vector<const Record*> chosen;
  for (const Record* record : records)
    if (declaration.where.matches(*record)) chosen.push_back(record);
  Formatter formatter(chosen);
  return Builder(place_records(declaration, chosen, swept, sort, formatter), formatter).build();
}

}  // namespace mbench::reports
