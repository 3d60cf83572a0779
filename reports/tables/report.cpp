#include "reports/tables/report.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/fields.h"
#include "engine/point/gates.h"
#include "engine/point/result_file.h"
#include "reports/records/seeds.h"
#include "reports/tables/build_table.h"
#include "reports/tables/builtin_tables.h"
#include "reports/tables/csv.h"
#include "reports/tables/gates.h"
#include "reports/tables/json.h"
#include "reports/tables/markdown.h"
#include "reports/tables/provenance.h"
#include "reports/tables/published.h"
#include "reports/tables/report_parts.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

const TableDeclaration* find_table(const std::vector<TableDeclaration>& declarations, const std::string& name) {
  const auto it =
      std::find_if(declarations.begin(), declarations.end(), [&](const TableDeclaration& l) { return l.name == name; });
  return it == declarations.end() ? nullptr : &*it;
}

// `usual`: the built-in tables, and "published" where the spec has such figures.
const TableDeclaration& table_named(const std::string& name, const std::vector<TableDeclaration>& own,
                                    const std::vector<TableDeclaration>& usual, const std::string& where) {
  if (const TableDeclaration* declaration = find_table(own, name)) return *declaration;
  if (const TableDeclaration* declaration = find_table(usual, name)) return *declaration;
  std::vector<std::string> names;
  for (const auto* list : {&own, &usual})
    for (const TableDeclaration& declaration : *list) names.push_back(declaration.name);
  fail(ErrorKind::bad_input, where, "no table of that name, got \"{}\", {}", name, nearest_choice(name, names));
}

std::vector<TableDeclaration> usual_tables(const std::optional<Published>& published,
                                           const std::vector<const Record*>& records,
                                           const std::vector<std::string>& swept) {
  std::vector<TableDeclaration> usual = builtin_tables();
  if (published) usual.push_back(published_table(*published, records, swept));
  return usual;
}

// The declarations of the spec's "tables": a list of declarations and of names of built-in ones.
std::vector<TableDeclaration> tables_of(const Json& spec, const std::vector<TableDeclaration>& usual) {
  std::vector<TableDeclaration> declarations;
  if (!spec.is_object() || !spec.contains("tables") || spec["tables"].is_null()) return declarations;
  const Json tables = spec["tables"].is_array() ? spec["tables"] : Json::array({spec["tables"]});
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::string where = fmt::format("spec.tables[{}]", i);
    if (tables[i].is_string())
      declarations.push_back(table_named(tables[i].get<std::string>(), declarations, usual, where));
    else
      declarations.push_back(table_declaration_from_json(tables[i], where));
  }
  return declarations;
}

Condition filter_of(const std::vector<std::string>& texts, const std::vector<Record>& records) {
  Condition filter;
  for (const std::string& text : texts) {
    const std::size_t equal = text.find('=');
    if (equal == std::string::npos || equal == 0)
      fail(ErrorKind::bad_input, "--filter", "not a condition, got \"{}\", need field=value", text);
    require_name(records, text.substr(0, equal), "--filter");
    filter.add(text.substr(0, equal), text.substr(equal + 1));
  }
  return filter;
}

// bad_input if nothing is left: the values that the filtered fields do have.
void require_match(const Condition& filter, const std::vector<Record>& records,
                   const std::vector<const Record*>& chosen) {
  if (!chosen.empty() || records.empty() || filter.empty()) return;
  for (const Condition::Term& term : filter.terms()) {
    std::vector<std::string> values;
    for (const Record& record : records) {
      const std::string value = record.text(term.field);
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    Condition one;
    one.add(term.field, term.value);
    if (std::none_of(records.begin(), records.end(), [&](const Record& r) { return one.matches(r); }))
      fail(ErrorKind::bad_input, "--filter", "no point has {} = {}, {}", term.field, term.value,
           nearest_choice(term.value, values));
  }
  fail(ErrorKind::bad_input, "--filter", "no point meets all conditions, got {} of them, need fewer",
       filter.terms().size());
}

// --columns as a declaration: fields label the row, metrics follow; the order given is kept.
TableDeclaration table_of_columns(const std::vector<std::string>& names) {
  TableDeclaration declaration;
  declaration.name = "columns";
  // Labels end where the first metric stands, so the columns keep their order.
  for (const std::string& name : names) {
    const bool label = declaration.columns.empty() && (declaration.rows.empty() || find_field(name));
    if (label) {
      RowDeclaration row = row_of(name);
      const ColumnDeclaration column = column_of(name);
      row.header = column.header;
      row.lines = column.lines;
      declaration.rows.push_back(row);
    } else {
      declaration.columns.push_back(column_of(name));
    }
  }
  return declaration;
}

// --metric: the declaration with these metrics in its cells. Where it shows different points in different columns
// ("w/o fp16", "w/ fp16"), each of those columns does.
void show_metrics(TableDeclaration& declaration, const std::vector<std::string>& metrics) {
  std::vector<ColumnDeclaration> columns;
  std::set<std::string> seen;
  for (const ColumnDeclaration& column : declaration.columns) {
    if (column.relation || column.where.empty()) continue;
    std::string points;
    for (const Condition::Term& term : column.where.terms()) points += term.field + "=" + term.value + "\n";
    if (!seen.insert(points).second) continue;
    for (const std::string& name : metrics) {
      columns.push_back(column_of(name));
      columns.back().where = column.where;
      columns.back().header = metrics.size() == 1 ? column.header : column.header + ", " + columns.back().header;
    }
  }
  if (columns.empty())
    for (const std::string& name : metrics) columns.push_back(column_of(name));
  declaration.columns = std::move(columns);
  declaration.note.clear();
}

// A table with a row for each rank or window, or for points that differ in their seed alone; a point is shown where one of its own is.
BuiltTable table_of_parts(const TableDeclaration& declaration, const std::vector<const Record*>& points,
                          const std::vector<std::string>& swept, const SortBy& sort) {
  std::deque<Record> records;
  std::map<const Record*, std::vector<const Record*>> points_of;
  std::vector<const Record*> chosen;
  const auto take = [&](Record record, std::vector<const Record*> of) {
    chosen.push_back(&records.emplace_back(std::move(record)));
    points_of[chosen.back()] = std::move(of);
  };
  std::vector<std::string> reported = swept;
  if (declaration.each == Each::seeds) {
    std::erase(reported, "seed");
    for (SeedGroup& group : by_seeds(points)) take(std::move(group.record), std::move(group.points));
  } else {
    for (const Record* point : points)
      for (Record& part : declaration.each == Each::rank ? point->by_rank() : point->by_window())
        take(std::move(part), {point});
  }
  BuiltTable built = build_table(declaration, chosen, reported, sort);
  std::set<const Record*> shown;
  for (const Record* part : built.shown) shown.insert(points_of.at(part).begin(), points_of.at(part).end());
  built.shown = std::move(shown);
  return built;
}

std::vector<TableDeclaration> choose_tables(const ResultFile& file, const ReportOptions& options,
                                            const std::vector<Record>& records, const std::vector<std::string>& swept,
                                            const std::vector<TableDeclaration>& usual) {
  if (!options.columns.empty()) {
    if (!options.metrics.empty() || !options.tables.empty())
      fail(ErrorKind::bad_input, "--columns", "is a table of its own, got --{} too, need one of them",
           options.metrics.empty() ? "table" : "metric");
    for (const std::string& name : options.columns) require_name(records, name, "--columns");
    return {table_of_columns(options.columns)};
  }
  const std::vector<TableDeclaration> own = tables_of(file.spec, usual);
  std::vector<TableDeclaration> declarations;
  for (const std::string& name : options.tables) declarations.push_back(table_named(name, own, usual, "--table"));
  if (declarations.empty()) declarations = own;
  if (declarations.empty()) {
    const bool strategies = std::find(swept.begin(), swept.end(), "strategy") != swept.end();
    const bool published = find_table(usual, "published") != nullptr;
    declarations.push_back(table_named(published    ? "published"
                                       : strategies ? "strategies"
                                                    : "long",
                                       {}, usual, "--table"));
    if (std::find(swept.begin(), swept.end(), "seed") != swept.end())
      declarations.push_back(table_named("seeds", {}, usual, "--table"));
  }
  if (options.metrics.empty()) return declarations;
  for (const std::string& name : options.metrics) require_name(records, name, "--metric");
  for (TableDeclaration& declaration : declarations) show_metrics(declaration, options.metrics);
  return declarations;
}

std::string to_markdown_report(const ResultFile& file, const std::vector<const Record*>& records,
                               const std::vector<Table>& tables, std::size_t hidden) {
  std::string out = "# " + escape_markdown(report_name(file)) + "\n\n";
  for (const std::string& line : measured_on(file)) out += "- " + escape_markdown(line) + "\n";
  if (const std::string same = common_to_all(records); !same.empty())
    out += "- Every point: " + escape_markdown(same) + "\n";
  out += "\n";
  if (file.points.empty()) out += "No points.\n\n";
  for (const Table& table : tables) out += to_markdown(table);
  if (hidden > 0)
    out += fmt::format("{} of {} points have no place in the tables above; --table long lists every point.\n\n", hidden,
                       records.size());
  for (const std::string& line : how_counted(file)) out += "- " + escape_markdown(line) + "\n";
  return out;
}

}  // namespace

void check_tables(const Json& spec) {
  std::vector<Record> records;
  records.emplace_back(PointResult());  // knows every name, if no value
  const auto published = published_of(spec);
  if (published) records.back().publish(*published, {});
  const std::vector<TableDeclaration> declarations = tables_of(spec, usual_tables(published, {}, {}));
  for (std::size_t i = 0; i < declarations.size(); ++i)
    for (const std::string& name : declarations[i].names())
      if (name != "*") require_name(records, name, fmt::format("spec.tables[{}]", i));
  if (spec.is_object() && spec.contains("gates"))
    for (const Gate& gate : read_gates(spec["gates"], "spec.gates")) require_name(records, gate.metric, gate.place);
}

GateSummary gate_summary(const ResultFile& file) {
  const std::vector<Record> records = records_of(file);
  std::vector<const Record*> points;
  for (const Record& record : records) points.push_back(&record);
  const auto verdicts = judge_gates(file.spec, points, swept_fields(file.spec, points));
  return verdicts ? GateSummary{verdicts->failed, verdicts->headline(), verdicts->failures} : GateSummary{};
}

std::string report_name(const ResultFile& file) {
  const bool named = file.spec.is_object() && file.spec.contains("name") && file.spec["name"].is_string();
  return named ? file.spec["name"].get<std::string>() : "mbench results";
}

ReportParts report_parts(const ResultFile& file, const ReportOptions& options) {
  ReportParts parts;
  parts.records = records_of(file);
  const std::vector<Record>& records = parts.records;
  const Condition filter = filter_of(options.filters, records);
  for (const Record& record : records)
    if (filter.matches(record)) parts.chosen.push_back(&record);
  require_match(filter, records, parts.chosen);
  const SortBy sort = sort_from_text(options.sort, "--sort");
  if (!sort.name.empty()) require_name(records, sort.name, "--sort");

  parts.swept = swept_fields(file.spec, parts.chosen);
  std::set<const Record*> shown;
  const auto published = published_of(file.spec);
  const std::vector<TableDeclaration> usual = usual_tables(published, parts.chosen, parts.swept);
  for (const TableDeclaration& declaration : choose_tables(file, options, records, parts.swept, usual)) {
    for (const std::string& name : declaration.names())
      if (name != "*") require_name(records, name, "table " + declaration.name);
    // With --columns the reader chose what to see: a row per point, nothing added.
    const bool own = !options.columns.empty();
    const std::vector<std::string> reported = own ? std::vector<std::string>() : parts.swept;
    BuiltTable built = declaration.each == Each::point ? build_table(declaration, parts.chosen, reported, sort)
                                                       : table_of_parts(declaration, parts.chosen, reported, sort);
    shown.insert(built.shown.begin(), built.shown.end());
    if (published && declaration.name == "published")
      for (const std::string& line : PublishedSummary(*published, parts.chosen, records).lines())
        built.table.notes.push_back(line);
    parts.tables.push_back(std::move(built.table));
  }
  parts.not_shown = parts.chosen.size() - shown.size();
  const bool whole = options.columns.empty() && options.tables.empty();
  if (auto gates = judge_gates(file.spec, parts.chosen, parts.swept); gates && whole)
    parts.tables.push_back(std::move(gates->table));
  return parts;
}

std::string render_overall(const std::vector<ResultFile>& files, const ReportOptions& options) {
  PublishedSummary overall;
  for (const ResultFile& file : files) {
    const auto published = published_of(file.spec);
    if (!published) return "";
    const std::vector<Record> records = records_of(file);
    const Condition filter = filter_of(options.filters, records);
    std::vector<const Record*> chosen;
    for (const Record& record : records)
      if (filter.matches(record)) chosen.push_back(&record);
    overall.add(PublishedSummary(*published, chosen, records));
  }
  std::string out = fmt::format("# All {} files against what was published\n\n", files.size());
  for (const std::string& line : overall.lines()) out += "- " + escape_markdown(line) + "\n";
  return out;
}

std::string render_report(const ResultFile& file, const ReportOptions& options) {
  static const std::vector<std::string> formats = {"md", "csv", "json"};
  if (std::find(formats.begin(), formats.end(), options.format) == formats.end())
    fail(ErrorKind::bad_input, "--format", "unknown format, got \"{}\", {}", options.format,
         nearest_choice(options.format, formats));
  const ReportParts parts = report_parts(file, options);
  if (options.format == "csv") return to_csv(parts.tables);
  if (options.format == "json") {
    Json out = {{"schema", "mbench.report/1"}, {"environment", file.environment}, {"tables", Json::array()}};
    out["how_counted"] = how_counted(file);
    for (const Table& table : parts.tables) out["tables"].push_back(to_json(table));
    out["points_not_shown"] = parts.not_shown;
    return dump_json(out);
  }
  return to_markdown_report(file, parts.chosen, parts.tables, parts.not_shown);
}

}  // namespace mbench::reports
