#include "cli/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/launch.h"
#include "cli/preflight.h"
#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/process/process.h"
#include "reports/tables/report.h"
#include "sweeps/run/runner.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// A sweep of these layouts: the fields in which they differ are zipped.
ordered_json sweep_of(const search::Space& space, const std::vector<search::Tried>& layouts) {
  std::vector<ordered_json> points;
  for (const search::Tried& t : layouts) points.push_back(point_to_json(t.point));
  ordered_json spec = {{"name", space.name + "-measured"}};
  std::vector<std::string> differ;
  const Point plain;
  const ordered_json defaults = point_to_json(plain);
  for (const auto& [key, value] : points.front().items()) {
    if (key == "device" || key == "machine") continue;
    const auto has_it = [&key = key, &value = value](const ordered_json& p) {
      return p.at(key) == value;
    };  // named for Clang 16
    const bool same = std::all_of(points.begin(), points.end(), has_it);
    if (!same)
      differ.push_back(key);
    else if (value != defaults.at(key))
      spec[key] = value;
  }
  if (differ.empty()) return spec;
  ordered_json settings = ordered_json::array();
  for (const ordered_json& p : points) {
    ordered_json setting = ordered_json::array();
    for (const std::string& key : differ) setting.push_back(p.at(key));
    settings.push_back(differ.size() == 1 ? setting[0] : setting);
  }
  spec["sweep"][fmt::format("{}", fmt::join(differ, ","))] = settings;
  return spec;
}

}  // namespace

Agreement agreement_of(const std::vector<double>& ms) {
  Agreement a;
  for (std::size_t i = 0; i < ms.size(); ++i)
    for (std::size_t j = i + 1; j < ms.size(); ++j) {
      ++a.pairs;
      a.alike += ms[i] <= ms[j] ? 1 : 0;
    }
  if (!ms.empty()) a.best_at = static_cast<std::size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin()) + 1;
  return a;
}

MeasuredLayouts measure_best(const search::Space& space, const search::SearchEnd& end, std::size_t count,
                             const std::string& out, bool immediate, bool quiet, process::Interrupt& interrupt) {
  const std::vector<search::Tried> layouts(
      end.best.begin(), end.best.begin() + static_cast<std::ptrdiff_t>(std::min(count, end.best.size())));
  MeasuredLayouts measured;
  if (layouts.empty()) return measured;
  std::error_code ignored;
  fs::create_directories(out, ignored);
  // Beside the folder of the sweep, which wants to be empty.
  const std::string path = out + ".json";
  write_file_atomically(path, dump_json(sweep_of(space, layouts)));
  sweeps::SpecOptions options;
  options.path = path;
  options.device = immediate ? "cpu" : "cuda";
  const sweeps::Spec spec = sweeps::read_spec(options);
  sweeps::RunnerOptions runner;
  runner.program = this_program();
  runner.out = out;
  runner.launcher = find_launcher(LaunchOptions{});
  std::optional<sweeps::ReportedHosts> hosts;
  if (runner.launcher.allocated) {
    hosts = sweeps::probe_hosts(runner.launcher, runner.program, options.device);
    runner.launcher = sweeps::on_hosts(runner.launcher, hosts->hosts);
  }
  runner.quiet = quiet;
  runner.resume_command = fmt::format("mbench sweep {} --on {} --out {} --resume", path, options.device, out);
  runner.environment = describe_environment(options.device);
  if (hosts) runner.environment.update(hosts->environment);
  runner.environment["spec_file"] = path;
  runner.environment["launcher"] = runner.launcher.describe();
  runner.preflight = [&](const Point& point) { return preflight(point, runner.launcher); };
  runner.render_tables = [](const ResultFile& file) { return reports::render_report(file, {}); };
  runner.interrupt = &interrupt;
  runner.progress = &std::cerr;
  std::ostringstream tables;  // the sweep's own stand in its folder
  runner.tables = &tables;
  const sweeps::SweepEnd sweep = sweeps::run_sweep(spec, runner);

  std::vector<double> ms;
  std::string rows, reasons;
  for (const search::Tried& t : layouts) {
    Point real = t.point;
    real.device = options.device;
    real.machine.clear();
    const std::string id = point_id(real);
    const auto found = std::find_if(sweep.file.points.begin(), sweep.file.points.end(),
                                    [&](const PointResult& r) { return r.id == id; });
    const double simulated = t.result.iteration_ms->mean;
    if (found == sweep.file.points.end() || !found->iteration_ms) {
      measured.good = false;
      rows += fmt::format("| {} | {:.4g} | {} | |\n", search::label_of(space, t.point), simulated,
                          found == sweep.file.points.end() ? "not run" : name_of(found->outcome));
      if (found != sweep.file.points.end() && !found->reason.empty() &&
          reasons.find(found->reason) == std::string::npos)
        reasons += fmt::format("\n{}: {}\n", name_of(found->outcome), printable(found->reason));
      continue;
    }
    const double median = found->iteration_ms->median;
    ms.push_back(median);
    rows += fmt::format("| {} | {:.4g} | {:.4g} | {:+.1f} % |\n", search::label_of(space, t.point), simulated, median,
                        (simulated / median - 1) * 100);
  }
  measured.text =
      "## Measured on this machine\n\n| Layout | Simulated (ms) | Measured, median (ms) | Error |\n"
      "| --- | ---: | ---: | ---: |\n" +
      rows + reasons;
  const Agreement a = agreement_of(ms);
  if (a.pairs > 0)
    measured.text += fmt::format(
        "\n{} of {} pairs are measured in the simulated order; the fastest measured is number "
        "{} of the simulated.\n",
        a.alike, a.pairs, a.best_at);
  measured.text += fmt::format("The sweep: {}\n", (fs::path(out) / "results.json").string());
  return measured;
}

}  // namespace mbench::cli
