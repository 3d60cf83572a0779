#include "reports/tables/table_declaration.h"

#include "engine/base/error.h"
#include "reports/tables/builtin_tables.h"

namespace mbench::reports {

ColumnDeclaration column_of(const std::string& name) {
  ColumnDeclaration column;
  const MetricFormat* format = find_metric_format(name);
  column.header = format ? format->header : name;
  column.name = name;
  column.every = name == "*";
  if (column.every) return column;
  column.lines.push_back(CellText::parse(format ? format->text : "{" + name + "}", name));
  return column;
}

RowDeclaration row_of(const std::string& field) {
  RowDeclaration row;
  row.header = row.name = field;
  row.swept = field == "*";
  if (!row.swept) row.lines.push_back(CellText::parse("{" + field + "}", field));
  return row;
}

SortBy sort_from_text(const std::string& text, const std::string& where) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, false};
  const std::string order = text.substr(colon + 1);
  if (order != "asc" && order != "desc")
    fail(ErrorKind::bad_input, where, "unknown order, got \"{}\", need FIELD, FIELD:asc or FIELD:desc", text);
  return {text.substr(0, colon), order == "desc"};
}

std::vector<std::string> TableDeclaration::names() const {
  std::vector<std::string> all;
  const auto add_text = [&](const CellText& text) {
    for (std::string& name : text.names()) all.push_back(std::move(name));
  };
  const auto add_filter = [&](const Condition& filter) {
    for (const Condition::Term& term : filter.terms()) all.push_back(term.field);
  };
  add_filter(where);
  for (const CellText& section : sections) add_text(section);
  for (const RowDeclaration& row : rows) {
    for (const CellText& line : row.lines) add_text(line);
    for (const RowName& name : row.names) {
      for (const CellText& line : name.lines) add_text(line);
      add_filter(name.where);
    }
  }
  if (pivot) add_text(*pivot);
  for (const ColumnDeclaration& column : columns) {
    for (const CellText& line : column.lines) add_text(line);
    add_filter(column.where);
    add_filter(column.against);
    if (!column.value.empty()) all.push_back(column.value);
  }
  for (const SortBy& key : sort) all.push_back(key.name);
  return all;
}

}  // namespace mbench::reports
