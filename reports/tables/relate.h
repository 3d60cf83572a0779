// A cell that compares a point with another one of its section: which point that is, and the text of the comparison. Part of
// build_table.h.
#pragma once
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "reports/tables/place_records.h"
#include "reports/tables/table.h"
#include "reports/tables/table_declaration.h"

namespace mbench::reports {

// The points of one section that a comparing column may refer to, found by what they share with the point.
class References {
 public:
  // `places` are those of the section, in the table's own order.
  References(const ColumnDeclaration& column, const std::set<std::string>& axes,
             const std::vector<const Place*>& places);
  // Null if there is none.
  const Record* find(const Place& place) const;

 private:
  std::string key(const Place& place) const;
  bool by_pivot_ = false;            // "first": of those in the same column
  std::vector<std::string> shared_;  // else: axes that must agree
  std::unordered_map<std::string, const Record*> found_;
};

// The value v of one point and r of another, in that relation; `scale` is the ratio of their devices.
double related(Relation relation, double v, double r, double scale);

// With its interval where the steps of both are known.
Cell compared(const Record& point, const Record* reference, const ColumnDeclaration& column, Formatter& formatter);

}  // namespace mbench::reports
