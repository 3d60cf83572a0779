#include "reports/build_table.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "engine/base/error.h"
#include "reports/placement.h"

namespace mbench {
namespace {

bool names_outcome(const LayoutColumn& column) {
  return std::any_of(column.lines.begin(), column.lines.end(), [](const CellText& line) {
    const auto names = line.names();
    return std::find(names.begin(), names.end(), "outcome") != names.end();
  });
}

// Whether a column tells how a point was set up, which is known even where the point failed.
bool is_configuration(const LayoutColumn& column) {
  if (column.relation) return false;
  for (const CellText& line : column.lines)
    for (const std::string& name : line.names()) {
      const std::string root = name.substr(0, name.find('.'));
      const auto& keys = point_keys();
      if (std::find(keys.begin(), keys.end(), root) == keys.end() && root != "id" && root != "world" &&
          root != "device" && root != "simulated" && root != "parameters" && root != "published" &&
          name != "error.parameters")
        return false;
    }
  return true;
}

bool is_error(const LayoutColumn& column) {
  return column.name.starts_with("error.");
}

std::string with_percent(double fraction, bool sign) {
  std::string text = fmt::format("{:.1f} %", fraction * 100);
  if (text == "-0.0 %") text = "0.0 %";
  return sign && text[0] != '-' && text != "0.0 %" ? "+" + text : text;
}

class Builder {
 public:
  Builder(Placement placement, Formatter& formatter)
      : placement_(std::move(placement)), formatter_(formatter) {
    const auto& columns = layout().columns;
    has_outcome_ = std::any_of(columns.begin(), columns.end(), names_outcome);
    for (const LayoutColumn& column : columns) configuration_.push_back(is_configuration(column));
  }

  BuiltTable build() {
    BuiltTable built;
    built.table.name = layout().name;
    built.table.title = layout().title;
    if (!layout().note.empty()) built.table.notes.push_back(layout().note);
    const auto& places = placement_.places;
    for (std::size_t i = 0; i < places.size();) {
      std::size_t end = i;
      while (end < places.size() && places[end].headings == places[i].headings)
        built.shown.insert(places[end++].record);
      built.table.sections.push_back(section(i, end));
      i = end;
    }
    return built;
  }

 private:
  using Slots =
      std::map<std::pair<std::string, std::size_t>, const Place*>;  // (pivot, column) -> who stands there
  struct Row {
    std::vector<std::string> labels;
    Slots slots;
  };

  const Layout& layout() const { return placement_.layout; }

  Section section(std::size_t begin, std::size_t end) {
    Section section;
    section.headings = placement_.places[begin].headings;
    begin_ = begin, end_ = end;
    std::vector<std::string> pivots;
    std::vector<Row> rows;
    std::map<std::vector<std::string>, std::vector<std::size_t>> rows_of;  // those with these labels
    for (std::size_t i = begin; i < end; ++i) {
      const Place& place = placement_.places[i];
      if (std::find(pivots.begin(), pivots.end(), place.pivot) == pivots.end()) pivots.push_back(place.pivot);
      std::vector<std::size_t>& same = rows_of[place.labels];
      const auto found = std::find_if(same.begin(), same.end(), [&](std::size_t row) {
        return std::none_of(place.columns.begin(), place.columns.end(), [&](std::size_t c) {
          return rows[row].slots.count({place.pivot, c}) > 0;
        });
      });
      const std::size_t row = found == same.end() ? rows.size() : *found;
      if (row == rows.size()) {
        same.push_back(row);
        rows.push_back({place.labels, {}});
      }
      for (const std::size_t column : place.columns) rows[row].slots[{place.pivot, column}] = &place;
    }
    for (const LayoutRow& row : layout().rows) section.columns.push_back({row.header, row.name, false});
    for (const std::string& pivot : pivots)
      for (const LayoutColumn& column : layout().columns) section.columns.push_back(heading(pivot, column));
    for (const Row& row : rows) section.rows.push_back(cells(row, pivots, section));
    align(section);
    return section;
  }

  Column heading(const std::string& pivot, const LayoutColumn& column) const {
    if (!layout().pivot) return {column.header, column.name, false};
    if (layout().columns.size() == 1) return {pivot, pivot, false};
    return {pivot + ", " + column.header, pivot + ": " + column.name, false};
  }

  std::vector<Cell> cells(const Row& row, const std::vector<std::string>& pivots, Section& section) {
    std::vector<Cell> cells;
    for (const std::string& label : row.labels) cells.push_back({label, {}});
    bool all_simulated = true;
    std::set<const Record*> records;
    for (const auto& [slot, place] : row.slots) {
      all_simulated = all_simulated && place->record->simulated();
      records.insert(place->record);
    }
    // What is to be said of the row's points beside their numbers goes to the outcome where there is a column
    // for it, and else to the last label.
    std::set<const Record*> noted;
    if (!has_outcome_) {
      if (all_simulated) cells.back().text += " (simulated)";
      for (const Record* record : records)
        if (record->outcome() == Outcome::ok && !record->reason().empty() && noted.insert(record).second)
          cells.back().footnote = footnote(section, record->reason());
    }
    for (const std::string& pivot : pivots)
      for (std::size_t c = 0; c < layout().columns.size(); ++c) {
        const auto slot = row.slots.find({pivot, c});
        if (slot == row.slots.end()) {
          cells.emplace_back();
          continue;
        }
        Cell cell = this->cell(*slot->second, c, section, noted);
        cell.point = slot->second->record->id();
        if (slot->second->record->simulated() &&
            (has_outcome_ ? names_outcome(layout().columns[c]) : !all_simulated))
          cell.text += " (simulated)";
        cells.push_back(std::move(cell));
      }
    return cells;
  }

  Cell cell(const Place& place, std::size_t index, Section& section, std::set<const Record*>& noted) {
    const LayoutColumn& column = layout().columns[index];
    const Record& record = *place.record;
    Cell cell;
    const auto note = [&](const std::string& reason) {
      if (!reason.empty() && noted.insert(&record).second) cell.footnote = footnote(section, reason);
    };
    if (names_outcome(column)) {
      cell.text = outcome_text(record.outcome());
      note(record.reason());
      return cell;
    }
    if (record.outcome() != Outcome::ok && !configuration_[index]) {
      if (has_outcome_ || column.relation || is_error(column)) {
        cell.text = "-";
        return cell;
      }
      cell.text = outcome_text(record.outcome());
      cell.is_gap = true;
      note(record.reason());
      return cell;
    }
    if (column.relation) return compared(place, column);
    for (std::size_t i = 0; i < column.lines.size(); ++i)
      cell.text += (i ? "\n" : "") + formatter_.format(column.lines[i], record, layout().labels);
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
      if (const std::string remark = record.remark(only); !remark.empty())
        cell.footnote = footnote(section, remark);
    }
    return cell;
  }

  // The point of the same section that `place` is compared with; null if there is none.
  const Record* reference(const Place& place, const Filter& against) const {
    for (std::size_t i = begin_; i < end_; ++i) {
      const Place& other = placement_.places[i];
      if (against.empty()) {
        if (other.pivot == place.pivot) return other.record;
        continue;
      }
      const bool agrees =
          std::all_of(placement_.axes.begin(), placement_.axes.end(), [&](const std::string& axis) {
            const bool free = std::any_of(against.terms().begin(), against.terms().end(),
                                          [&](const Filter::Term& term) { return term.field == axis; });
            return free || other.record->value(axis) == place.record->value(axis);
          });
      if (agrees && against.matches(*other.record)) return other.record;
    }
    return nullptr;
  }

  Cell compared(const Place& place, const LayoutColumn& column) const {
    const Record* other = reference(place, column.against);
    if (other == place.record) return {"-", {}};
    if (!other || other->outcome() != Outcome::ok) return {"n/a", {}};
    const auto value = place.record->value(column.value), base = other->value(column.value);
    if (!value.is_number() || !base.is_number()) return {"n/a", {}};
    const double v = value.get<double>(), r = base.get<double>();
    if (v == 0 || r == 0) return {"n/a", {}};  // no ratio
    switch (*column.relation) {
      case Relation::overhead:
        return {with_percent((v - r) / r, true), (v - r) / r};
      case Relation::saved:
        return {with_percent((r - v) / r, false), (r - v) / r};
      case Relation::difference:
        return {fmt::format("{:+.1f}", v - r), v - r};
      case Relation::ratio:
        return {fmt::format("{:.2f}x", v / r), v / r};
      case Relation::speedup:
        return {fmt::format("{:.2f}x", r / v), r / v};
      case Relation::efficiency: {
        const double scale = place.record->value("world").get<double>() / other->value("world").get<double>();
        return {with_percent(r / v / scale, false), r / v / scale};
      }
    }
    return {};
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
      const bool is_label = c < layout().rows.size();
      section.columns[c].right = std::all_of(section.rows.begin(), section.rows.end(), [&](const auto& row) {
        const Cell& cell = row[c];
        const std::string& t = cell.text;
        if (cell.number || (!t.empty() && std::isdigit(static_cast<unsigned char>(t[0])))) return true;
        return !is_label && (cell.is_gap || t == "n/a" || t == "-" || t.empty());
      });
    }
  }

  Placement placement_;
  Formatter& formatter_;
  bool has_outcome_ = false;
  std::vector<bool> configuration_;
  std::size_t begin_ = 0, end_ = 0;  // the places of the section being built
};

}  // namespace

std::string outcome_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::oom:
      return "OOM";
    case Outcome::launch_failed:
      return "launch failed";
    default:
      return std::string(name_of(outcome));
  }
}

BuiltTable build_table(const Layout& layout, const std::vector<const Record*>& records,
                       const std::vector<std::string>& swept, const SortBy& sort) {
  std::vector<const Record*> chosen;
  for (const Record* record : records)
    if (layout.where.matches(*record)) chosen.push_back(record);
  Formatter formatter(chosen);
  return Builder(place_records(layout, chosen, swept, sort, formatter), formatter).build();
}

}  // namespace mbench
