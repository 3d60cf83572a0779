#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/text.h"
#include "health/fleet.h"
#include "health/report.h"
#include "reports/gate/junit.h"
#include "reports/tables/markdown.h"

namespace mbench::health {

reports::Section grid_of(const Fleet& fleet) {
  reports::Section s;
  for (const auto& [header, right] : {std::pair{"Figure", false},
                                      {"Over", false},
                                      {"Unit", false},
                                      {"Median", true},
                                      {"Spread", true},
                                      {"Least", true},
                                      {"Most", true},
                                      {"Nodes", true},
                                      {"Cut", true}})
    s.columns.push_back({header, header, right});
  const auto words = [](const std::string& t) { return reports::Cell{t, {}}; };
  const auto number = [](double x) { return reports::Cell{fmt::format("{:.4g}", x), x}; };
  for (const FleetFigure& f : fleet.figures) {
    const std::string what =
        f.bytes > 0 ? fmt::format("{}, {}", f.what, format_bytes(static_cast<std::uint64_t>(f.bytes))) : f.what;
    const Printed as = printed_as(f.unit, f.median);
    s.rows.push_back({words(what), words(f.ranks > 1 ? fmt::format("{} of {}", f.scope, f.ranks) : f.scope),
                      words(as.unit), number(f.median * as.factor),
                      words(f.median > 0 ? fmt::format("{:.1f} %", 100 * f.spread / f.median) : "n/a"),
                      number(f.least * as.factor), number(f.most * as.factor), number(static_cast<double>(f.nodes)),
                      number(static_cast<double>(f.cut))});
  }
  return s;
}

std::string to_junit(const Fleet& fleet) {
  std::vector<reports::JunitCase> cases;
  for (const FleetFigure& f : fleet.figures) {
    reports::JunitCase c;
    c.classname = "mbench.fleet." + f.scope;
    c.name = f.bytes > 0 ? fmt::format("{} {} bytes", f.what, f.bytes) : f.what;
    const Printed as = printed_as(f.unit, f.median);
    c.output = {fmt::format("median {:.6g} {} of {} nodes, {:.6g} to {:.6g}, {} cut", f.median * as.factor, as.unit,
                            f.nodes, f.least * as.factor, f.most * as.factor, f.cut)};
    cases.push_back(std::move(c));
  }
  std::vector<std::string> judged;
  if (!fleet.rules.empty()) judged = fleet.nodes;
  for (const FallenOut& node : fleet.out)  // groups over several nodes have a name of their own
    if (std::find(judged.begin(), judged.end(), node.node) == judged.end()) judged.push_back(node.node);
  for (const std::string& node : judged) {
    reports::JunitCase c;
    c.classname = "mbench.fleet.node";
    c.name = node;
    for (const FallenOut& out : fleet.out)
      if (out.node == node)
        for (const std::string& reason : out.reasons) c.failures.push_back({"falls out", reason});
    cases.push_back(std::move(c));
  }
  return reports::junit_xml("mbench fleet", cases);
}

std::string to_markdown(const Fleet& fleet) {
  std::string text = fmt::format("# Fleet of {} node{} ({})\n\n", fleet.nodes.size(),
                                 fleet.nodes.size() == 1 ? "" : "s", reports::escape_markdown(fleet.device));
  for (const FallenOut& node : fleet.out)
    for (const std::string& reason : node.reasons)
      text += fmt::format("- **{}** falls out: {}\n", reports::escape_markdown(node.node),
                          reports::escape_markdown(reason));
  if (fleet.rules.empty())
    text += "- A baseline: its nodes were not judged.\n\n";
  else
    text += fmt::format("{}\nRules: {}.\n\n", fleet.out.empty() ? "- No node falls out, and all data was right.\n" : "",
                        reports::escape_markdown(fmt::format("{}", fmt::join(fleet.rules, "; "))));
  text += reports::grid_to_markdown(grid_of(fleet));
  text +=
      "\nOf each node the worst of its ranks or groups. Cut: values further from the median than 3.5 spreads. The "
      "other "
      "figures are of the nodes that were kept.\n";
  return text;
}

}  // namespace mbench::health
