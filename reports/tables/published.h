// The table `published | simulated (or measured) | error` of a spec that has published figures (engine/point/published.h). Below it
// stands how far off the figures are, and how many pairs of strategies are in the published order. Doubted figures are printed but not
// counted.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/point/published.h"
#include "reports/records/record.h"
#include "reports/tables/builtin_tables.h"
#include "reports/tables/table_declaration.h"

namespace mbench::reports {

// The table "published": a row for each point, sections as in "strategies" where a strategy was swept.
TableDeclaration published_table(const Published& published, const std::vector<const Record*>& records,
                                 const std::vector<std::string>& swept);

// How published.<metric> and error.<metric> are printed outside of that table; null for other names.
const MetricFormat* find_published_format(const std::string& name);

class PublishedSummary {
 public:
  // The records of one file; `all` of it too, to count published rows that it has no point for.
  PublishedSummary(const Published& published, const std::vector<const Record*>& records,
                   const std::vector<Record>& all);
  PublishedSummary() = default;
  void add(const PublishedSummary& other);
  // One line a metric, and one for each kind of row that is not counted.
  std::vector<std::string> lines() const;

  struct Figures {
    int published = 0, rows = 0;           // those in the table, and those of them that are compared
    double sum = 0, max = 0;               // of |error|
    int pairs = 0, ordered = 0;            // of strategies
    int apart = 0, apart_and_ordered = 0;  // pairs whose published figures differ by more than 3 %
  };
  const std::map<std::string, Figures>& figures() const { return figures_; }  // by metric

 private:
  void compare(const std::string& metric, const Published& published, const std::vector<const Record*>& records);
  void count_rows(const Published& published, const std::vector<const Record*>& records);

  std::map<std::string, Figures> figures_;
  std::map<std::string, std::map<std::string, int>> failed_;  // outcome -> reason -> rows
  int doubted_ = 0, absent_ = 0, oom_ = 0, oom_here_ = 0;
  std::string simulated_by_;  // the published machine, where all ran on this CPU
};

}  // namespace mbench::reports
