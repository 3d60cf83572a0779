#include "cli/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/sim/machine/what_if.h"

namespace mbench::cli {

std::string sensitivities(const Point& point, api::PointSimulator& simulator,
                          const std::function<bool()>& interrupted) {
  constexpr double kMore = 1.1;
  struct Row {
    std::string path;
    double value, more, change;  // of the step's time, as a share
  };
  if (interrupted && interrupted()) return "Interrupted.\n";
  const double ms = simulator.simulate(point).result.iteration_ms->mean;
  std::vector<Row> rows;
  std::size_t without = 0;
  std::vector<std::string> not_possible;
  for (sim::MachineFigure figure : sim::figures_of(sim::parse_simulated(point.device, "device").machine, "device")) {
    if (interrupted && interrupted()) return "Interrupted.\n";
    if (const auto given = point.machine.find(figure.path); given != point.machine.end()) figure.value = given->second;
    Point other = point;
    double more = figure.value * kMore;
    other.machine[figure.path] = more;
    sim::Simulation simulation;
    try {
      try {
        simulator.machine_of(other);
      } catch (const Error&) {
        if (figure.value != std::floor(figure.value) || figure.value < 10) throw;
        // A count, which is whole.
        other.machine[figure.path] = more = std::round(more);
      }
      simulation = simulator.simulate(other);
    } catch (const Error&) {  // a share of at most 1, or less memory than the layout takes
      not_possible.push_back(figure.path);
      continue;
    }
    const double change = simulation.result.iteration_ms->mean / ms - 1;
    if (std::abs(change) < 5e-5 || more == figure.value)
      ++without;
    else
      rows.push_back({figure.path, figure.value, more, change});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return std::abs(a.change) > std::abs(b.change); });
  std::size_t width = 6;
  for (const Row& row : rows) width = std::max(width, row.path.size());
  std::string text =
      fmt::format("| {:<{}} | {:>9} | {:>9} | Step time |\n| {:-<{}} | --------: | --------: | --------: |\n", "Figure",
                  width, "Now", "10 % more", "", width);
  for (const Row& row : rows)
    text += fmt::format("| {:<{}} | {:>9.5g} | {:>9.5g} | {:>+7.2f} % |\n", row.path, width, row.value, row.more,
                        row.change * 100);
  text += fmt::format("\n{} other figures change the step by less than 0.01 %.", without);
  if (!not_possible.empty()) text += fmt::format(" 10 % more cannot be of {}.", fmt::join(not_possible, ", "));
  return text + "\n";
}

}  // namespace mbench::cli
