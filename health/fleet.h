// A fleet: what many nodes reach in a check, and which of them fall out. The baseline of a node is the fleet without its outliers.
//
// A node's value of a figure is the worst that its ranks, or groups of ranks within it, measured. For several checks of one node it is
// the median. Groups over several hosts say nothing about one node and are left out.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "health/figures.h"
#include "reports/tables/table.h"

namespace mbench::health {

struct FleetFigure {
  std::string what, scope, unit;
  std::int64_t bytes = 0;
  std::int64_t ranks = 1;  // of a group
  bool rate = true;
  double median = 0;  // over the nodes that were kept
  double spread = 0;  // of these: 1.4826 times the median distance from it
  double least = 0, most = 0;
  std::int64_t nodes = 0, cut = 0;  // kept, and left out as outliers
};

struct FallenOut {
  std::string node;
  std::vector<std::string> reasons;  // "2 of *@5%: memory ..., launch ..."; "gave 3 wrong elements"
};

struct Fleet {
  std::string device, date;
  std::string hardware;            // of its devices; on CPUs of its hosts
  std::vector<std::string> nodes;  // all of them
  std::vector<FleetFigure> figures;
  std::vector<std::string> rules;  // by which its nodes were judged; empty: they were not
  std::vector<FallenOut> out;      // by these rules
};

// "memory@5%", "2 of memory,launch@5%", "2 of *@3%": so many of these figures are worse than the fleet's median by more than that share.
// A figure is named by what it is, or with its scope: "all_reduce/pairs".
struct Rule {
  std::string text;
  std::size_t needed = 1;
  std::vector<std::string> figures;  // "*": any
  double share = 0.1;
};
Rule read_rule(const std::string& text, const std::string& where);
// Throws bad_input where a rule names a figure that the fleet has not.
void check_rules(const Fleet& fleet, const std::vector<Rule>& rules, const std::string& where);

// One node's value of a figure.
struct NodeValue {
  std::string node;
  double value = 0;
};
struct NodeFigure {
  FleetFigure figure;  // without statistics
  std::vector<NodeValue> nodes;
  std::int64_t wrong = 0;
};
// Throws bad_input for checks of different devices, and for none.
std::vector<NodeFigure> values_by_node(const std::vector<Health>& checks);

// A value is cut if it differs from the median by more than 3.5 spreads and 1 %.
Fleet make_fleet(const std::vector<Health>& checks);

struct Deviation {
  std::string node, text;  // "memory 0.52 GB/s, 38 % below the fleet's 0.85"
  FleetFigure figure;      // as the fleet has it
  double value = 0;
  double share = 0;    // by how much it is worse
  double spreads = 0;  // so many of the fleet's spreads; 0: it has none
};
// Compares every node and figure that both have, the worst first.
std::vector<Deviation> deviations(const Fleet& fleet, const std::vector<Health>& checks);

std::vector<FallenOut> fallen_out(const Fleet& fleet, const std::vector<Health>& checks,
                                  const std::vector<Rule>& rules);
// Fills in `rules` and `out`.
void judge(Fleet& fleet, const std::vector<Health>& checks, const std::vector<Rule>& rules);

// {"schema": "mbench.fleet/1", "device", "hardware", "date", "nodes", "figures": [{"what", "scope", "unit", "bytes", "ranks", "rate",
// "median", "spread", "least", "most", "nodes", "cut"}], "rules", "fallen_out": [{"node", "reasons"}]}
nlohmann::ordered_json to_json(const Fleet& fleet);
Fleet fleet_from_json(const nlohmann::json& json, const std::string& where);
bool is_fleet(const nlohmann::json& json);
bool is_check(const nlohmann::json& json);

// The fleet's figures.
reports::Section grid_of(const Fleet& fleet);
// A test case for each figure, and one for each node if they were judged. A node that falls out fails.
std::string to_junit(const Fleet& fleet);

// Markdown: who falls out, and the fleet's figures.
std::string to_markdown(const Fleet& fleet);

}  // namespace mbench::health
