// How results are laid out as a table, as a declaration: which fields make sections, rows and columns, and what a cell holds.
// Declarations are JSON: the built-in ones (reports/tables/declarations/*.json, a file for each) and a spec's "tables". Fields and
// metrics have the names of the spec, of the result file and of record.h. Texts have the grammar of cell_text.h.
//
//   "name"      What --table calls it.
//   "like"      A built-in table that this one equals, except for the keys given here (optional).
//   "title"     Printed above it (optional).
//   "note"      Printed below it (optional).
//   "where"     {"field": value or [values]}: only these points (optional).
//
//   "each"      What a row stands for, if not a point (optional). "rank": a rank of a point, with the names rank.* of record.h.
//               "window": a window of time of a soak, with the names window.*.
//               "seeds": points that differ only in their seed, with the names seeds.*.
//
//   "sections"  Headings, outermost first: ["{model} ({tp}-way Tensor Parallelism)", "{seq} Sequence Length"].
//               A text without braces is a list of fields: "tp,pp" is "tp {tp}, pp {pp}".
//   "rows"      The columns that label a row: "field", or {"header", "text"}. A text may be an array: one line each.
//               {"header", "names": [{"text", "where"}]} gives rows names by several fields, printed in this order.
//               "*": a column for each swept field.
//
//   "pivot"     "{world} GPUs": the columns below repeat for each value, under this header (optional).
//   "columns"   What a row shows, by one of these.
//               - "metric": its usual header and format. "*": every known one.
//               - An object of "header", "text" (or an array: one line each), and "where" (the points it shows, for columns
//                 such as "w/ --fp16").
//
//               - A comparison with another point of the same section, an object of these keys.
//                 "header"
//                 "value": The metric.
//                 "as": overhead | saved | reduction | difference | ratio | speedup | efficiency | weak_efficiency.
//
//                 "against": "first" (row of the section), or the values of the row to compare with: {"strategy": "baseline"}.
//                 The other labels are the same. The value "first" is whichever of them stands first.
//                 "format": "{value*100:0} %" (optional).
//                 "self": What stands in the row that the others are compared with ("-" unless given).
//                 "where"
//
//   "labels"    {"field": {"value": "printed instead"}}. Those of "outcome" stand in a cell without a result.
//   "sort"      "field" or "field:desc", or an array of them: the order of the rows unless --sort is given.
//
// A swept field that no heading, row or column names is added to the innermost heading: points are never merged.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reports/records/record.h"
#include "reports/tables/cell_text.h"

namespace mbench::reports {

// A metric of this point (v) and of another (r), combined in one of these ways.
enum class Relation {
  overhead,         // (v - r) / r, "+18.1 %"
  saved,            // (r - v) / r, "14.2 %"
  reduction,        // r - v
  difference,       // v - r
  ratio,            // v / r, "0.52x"
  speedup,          // r / v, "1.92x"
  efficiency,       // (r / v) / (world of v / world of r), "96.0 %": strong scaling, the work is the same
  weak_efficiency,  // r / v, "96.0 %": the work of each device is the same
};

struct SortBy {
  std::string name;  // a field or metric
  bool descending = false;
};
// "FIELD", "FIELD:asc", "FIELD:desc".
SortBy sort_from_text(const std::string& text, const std::string& where);

struct RowName {
  std::vector<CellText> lines;
  Condition where;
};

struct RowDeclaration {
  std::string header;
  std::string name;             // of the field, for machines
  std::vector<CellText> lines;  // or:
  std::vector<RowName> names;   // the first whose condition holds
  bool swept = false;           // "*"
};

struct ColumnDeclaration {
  std::string header;
  std::string name;
  std::vector<CellText> lines;
  Condition where;
  bool every = false;  // "*"
  // Comparison, if set; lines are empty then.
  std::optional<Relation> relation;
  std::string value;
  Condition against;  // empty: the first row of the section
  CellText format;
  std::string self = "-";
};

enum class Each { point, rank, window, seeds };  // what a row is of; seeds: points that differ only in their seed

struct TableDeclaration {
  std::string name, title, note;
  Condition where;
  Each each = Each::point;
  std::vector<CellText> sections;
  std::vector<RowDeclaration> rows;
  std::optional<CellText> pivot;
  std::vector<ColumnDeclaration> columns;
  Labels labels;
  std::vector<SortBy> sort;

  // Every field or metric that it names, for checks.
  std::vector<std::string> names() const;
};

// `where` is the file and JSON path for messages.
TableDeclaration table_declaration_from_json(const nlohmann::ordered_json& json, const std::string& where);

// The usual column of a metric or field: header and format from reports/tables/metrics.json, else the bare name.
ColumnDeclaration column_of(const std::string& name);
RowDeclaration row_of(const std::string& field);

}  // namespace mbench::reports
