#include "health/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/text.h"
#include "health/median.h"
#include "health/signature.h"
#include "reports/gate/junit.h"
#include "reports/tables/markdown.h"

namespace mbench::health {
namespace {

using reports::Cell;
using reports::Section;

Cell text(const std::string& t) {
  return {t, {}};
}
Cell number(double x) {
  return {fmt::format("{:.4g}", x), x};
}

Section section(const std::vector<std::pair<const char*, bool>>& columns) {
  Section s;
  for (const auto& [header, right] : columns) s.columns.push_back({header, header, right});
  return s;
}

std::size_t worst_of(const Figure& f) {
  const auto worse = [&](const RankFigure& a, const RankFigure& b) {
    return f.rate ? a.value < b.value : a.value > b.value;
  };
  return static_cast<std::size_t>(std::min_element(f.of.begin(), f.of.end(), worse) - f.of.begin());
}

template <class Of>
double median_of(const Figure& f, const Of& of) {
  std::vector<double> values;
  for (const RankFigure& m : f.of) values.push_back(of(m));
  return median(std::move(values));
}

Cell expected_cell(const Figure& f, double factor = 1) {
  const RankFigure& worst = f.of[worst_of(f)];
  if (!worst.expected) return text("n/a");
  Cell cell = number(*worst.expected * factor);
  if (worst.estimated) cell.text += " est.";
  return cell;
}

Section rank_grid(const Health& health) {
  Section s = section({{"Of each rank", false},
                       {"Unit", false},
                       {"Median", true},
                       {"Worst", true},
                       {"Of", false},
                       {"Wrong", true},
                       {"Expected", true}});
  for (const Figure& f : health.figures) {
    if (f.scope != "rank" || f.of.empty()) continue;
    std::int64_t wrong = 0;
    for (const RankFigure& m : f.of) wrong += m.wrong;
    const RankFigure& worst = f.of[worst_of(f)];
    const double median = median_of(f, [](const RankFigure& m) { return m.value; });
    const Printed as = printed_as(f.unit, median);
    s.rows.push_back({text(f.what), text(as.unit), number(median * as.factor), number(worst.value * as.factor),
                      text(ranks_text(health, worst.ranks)), number(static_cast<double>(wrong)),
                      expected_cell(f, as.factor)});
  }
  return s;
}

Section collective_grid(const Health& health) {
  Section s = section({{"Collective", false},
                       {"Over", false},
                       {"Ranks", true},
                       {"Size", true},
                       {"Time (us)", true},
                       {"Algorithm (GB/s)", true},
                       {"Bus (GB/s)", true},
                       {"Worst", true},
                       {"Of", false},
                       {"Wrong", true},
                       {"Expected", true}});
  for (const Figure& f : health.figures) {
    if (f.scope == "rank" || f.of.empty()) continue;
    const double seconds = median_of(f, [](const RankFigure& m) { return m.seconds; });
    std::int64_t wrong = 0;
    for (const RankFigure& m : f.of) wrong += m.wrong;
    const RankFigure& worst = f.of[worst_of(f)];
    s.rows.push_back({text(f.what), text(f.scope), number(static_cast<double>(f.of.front().ranks.size())),
                      text(format_bytes(static_cast<std::uint64_t>(f.bytes))), number(seconds * 1e6),
                      number(static_cast<double>(f.bytes) / seconds * 1e-9),
                      number(median_of(f, [](const RankFigure& m) { return m.value; })), number(worst.value),
                      text(ranks_text(health, worst.ranks)), number(static_cast<double>(wrong)), expected_cell(f)});
  }
  return s;
}

}  // namespace

std::vector<std::string> found_in(const Health& health, double tolerance) {
  std::vector<std::string> lines;
  for (const std::string& line : differences_of(health.hosts)) lines.push_back("Not alike: " + line);
  for (const Finding& f : judge(health, tolerance)) lines.push_back(f.text);
  for (const std::string& fault : faults_of(health)) lines.push_back(fault);
  return lines;
}

std::string nothing_found(const Health& health, double tolerance) {
  return fmt::format("Nothing is more than {:.4g} % worse than its peers{}, and all data was right.", tolerance * 100,
                     health.machine.empty() ? "" : fmt::format(" or than {} says", health.machine));
}

std::vector<Section> grids_of(const Health& health) {
  std::vector<Section> grids = {rank_grid(health), collective_grid(health), signatures_grid(health)};
  std::erase_if(grids, [](const Section& s) { return s.rows.empty(); });
  return grids;
}

std::string how_to_read_check() {
  return "Medians; all ranks work at once. Bandwidths are those of nccl-tests. Wrong: elements of results that are not "
         "what they must be. Peers are compared at the largest size. est.: the machine's file estimates it, so nothing "
         "is "
         "judged by it.";
}

std::string to_markdown(const Health& health, double tolerance) {
  std::string out = fmt::format("# Check of {} rank{} ({})\n\n", health.devices.size(),
                                health.devices.size() == 1 ? "" : "s", reports::escape_markdown(health.device));
  for (const std::string& line : found_in(health, tolerance)) out += "- " + reports::escape_markdown(line) + "\n";
  if (judge(health, tolerance).empty() && faults_of(health).empty())
    out += "- " + reports::escape_markdown(nothing_found(health, tolerance)) + "\n";
  for (const Section& grid : grids_of(health)) out += "\n" + reports::grid_to_markdown(grid);
  return out + "\n" + how_to_read_check() + "\n";
}

std::string to_junit(const Health& health, double tolerance) {
  const std::vector<Finding> findings = judge(health, tolerance);
  std::vector<reports::JunitCase> cases;
  for (std::size_t i = 0; i < health.figures.size(); ++i) {
    const Figure& f = health.figures[i];
    reports::JunitCase c;
    c.classname = "mbench.check." + f.scope;
    c.name = f.bytes > 0 ? fmt::format("{} {} bytes", f.what, f.bytes) : f.what;
    for (const RankFigure& m : f.of) {
      const Printed as = printed_as(f.unit, m.value);
      c.output.push_back(fmt::format("{}: {:.6g} {}", ranks_text(health, m.ranks), m.value * as.factor, as.unit));
    }
    for (const Finding& finding : findings)
      if (finding.figure == i) c.failures.push_back({std::string(name_of(finding.kind)), finding.text});
    cases.push_back(std::move(c));
  }
  if (const std::vector<std::string> faults = faults_of(health); !faults.empty()) {
    reports::JunitCase c;
    c.classname = "mbench.check.device", c.name = "faults";
    for (const std::string& fault : faults) c.failures.push_back({"fault", fault});
    cases.push_back(std::move(c));
  }
  return reports::junit_xml("mbench check", cases);
}

}  // namespace mbench::health
