#include "cli/check_files.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/check_page.h"
#include "cli/cli.h"
#include "cli/reported_by_ranks.h"
#include "engine/base/atomic_file.h"
#include "engine/base/folder_lock.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "health/report.h"
#include "reports/gate/junit.h"
#include "reports/plots/sparkline.h"
#include "reports/tables/markdown.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kHistorySchema = "mbench.checks/1";
constexpr double kReportTolerance = 0.1;  // of a file that does not say its own

json read_json(const std::string& path) {
  return json(parse_json(read_text_file(path), path));
}

double tolerance_of(const json& check) {
  return check.contains("tolerance") && check["tolerance"].is_number() && check["tolerance"] < 1
             ? check["tolerance"].get<double>()
             : kReportTolerance;
}

std::string history_path(const std::string& folder) {
  return (fs::path(folder) / "checks.json").string();
}

std::vector<health::Fleet> read_history(const std::string& folder) {
  const std::string path = history_path(folder);
  std::vector<health::Fleet> history;
  if (!fs::exists(path)) return history;
  const json all = read_json(path);
  if (!all.is_object() || all.value("schema", "") != kHistorySchema || !all.contains("history") ||
      !all["history"].is_array())
    fail(ErrorKind::bad_input, path, "is no history of checks, need \"schema\": \"{}\"", kHistorySchema);
  for (std::size_t i = 0; i < all["history"].size(); ++i)
    history.push_back(health::fleet_from_json(all["history"][i], fmt::format("{}: $.history[{}]", path, i)));
  return history;
}

std::string figure_text(const health::FleetFigure& f) {
  std::string text = f.what;
  if (f.bytes > 0) text += fmt::format(", {}", format_bytes(static_cast<std::uint64_t>(f.bytes)));
  if (f.ranks > 1) text += fmt::format(", {} of {} ranks", f.scope, f.ranks);
  return text;
}

// The newest entry on the same hardware.
health::Fleet newest_like(const std::string& folder, const health::Fleet& now) {
  const std::vector<health::Fleet> history = read_history(folder);
  for (auto it = history.rbegin(); it != history.rend(); ++it)
    if (it->device == now.device && it->hardware == now.hardware) return *it;
  fail(ErrorKind::bad_input, history_path(folder), "has no check of {}, need mbench baseline add CHECK", now.hardware);
}

// A figure of two fleets.
struct Change {
  health::FleetFigure now, baseline;
  double share = 0;  // worse by so much; negative: better
  std::string verdict;
};

std::vector<Change> changes_of(const health::Fleet& now, const health::Fleet& baseline, double tolerance) {
  std::vector<Change> changes;
  for (const health::FleetFigure& b : baseline.figures)
    for (const health::FleetFigure& n : now.figures) {
      if (n.what != b.what || n.scope != b.scope || n.bytes != b.bytes || n.ranks != b.ranks) continue;
      if (!(b.median > 0) || !(n.median > 0)) continue;
      health::Figure kind;
      kind.rate = b.rate;
      Change c{n, b, health::shortfall(kind, n.median, b.median), "same"};
      // Within what the nodes of the baseline differ by among themselves nothing is said.
      const bool in_spread = std::abs(n.median - b.median) <= 3 * b.spread;
      if (std::abs(c.share) > tolerance) c.verdict = in_spread ? "ambiguous" : c.share > 0 ? "worse" : "better";
      changes.push_back(std::move(c));
    }
  return changes;
}

std::string changes_text(const std::vector<Change>& changes, double tolerance) {
  const auto count = [&](const char* verdict) {
    return std::count_if(changes.begin(), changes.end(), [&](const Change& c) { return c.verdict == verdict; });
  };
  std::string text = fmt::format("## mbench check: {} of {} figures worse by more than {:.4g} %, {} better\n\n",
                                 count("worse"), changes.size(), tolerance * 100, count("better"));
  reports::Section s;
  for (const auto& [header, right] : {std::pair{"Figure", false},
                                      {"Unit", false},
                                      {"Baseline", true},
                                      {"New", true},
                                      {"Change", true},
                                      {"Spread", true},
                                      {"Verdict", false}})
    s.columns.push_back({header, header, right});
  const auto words = [](const std::string& t) { return reports::Cell{t, {}}; };
  for (const Change& c : changes) {
    const health::Printed as = health::printed_as(c.baseline.unit, c.baseline.median);
    s.rows.push_back({words(figure_text(c.baseline)), words(as.unit),
                      words(fmt::format("{:.4g}", c.baseline.median * as.factor)),
                      words(fmt::format("{:.4g}", c.now.median * as.factor)),
                      words(fmt::format("{:+.1f} %", 100 * (c.now.median / c.baseline.median - 1))),
                      words(fmt::format("{:.1f} %", 100 * c.baseline.spread / c.baseline.median)),
                      words(c.verdict == "worse" ? "**worse**" : c.verdict)});
  }
  return text + reports::grid_to_markdown(s) +
         "\nMedians over nodes, of each the worst of its ranks. Spread: of the baseline's nodes. A change within three "
         "spreads is ambiguous.\n";
}

// A test case for each figure; a worse one fails, an ambiguous one is skipped.
std::string changes_junit(const std::vector<Change>& changes) {
  std::vector<reports::JunitCase> cases;
  for (const Change& c : changes) {
    reports::JunitCase one;
    one.classname = "mbench.check";
    one.name = figure_text(c.baseline);
    const health::Printed as = health::printed_as(c.baseline.unit, c.baseline.median);
    const std::string text =
        fmt::format("{}: {:.4g} {}, baseline {:.4g}, spread {:.1f} %", c.verdict, c.now.median * as.factor, as.unit,
                    c.baseline.median * as.factor, 100 * c.baseline.spread / c.baseline.median);
    one.output = {text};
    if (c.verdict == "worse") one.failures.push_back({"worse", text});
    if (c.verdict == "ambiguous") one.skipped = text;
    cases.push_back(std::move(one));
  }
  return reports::junit_xml("mbench compare", cases);
}

std::vector<health::Rule> rules_of(const FleetRequest& request) {
  std::vector<health::Rule> rules;
  for (const std::string& text : request.rules) rules.push_back(health::read_rule(text, "--rule"));
  if (rules.empty()) rules.push_back(health::read_rule(fmt::format("*@{:g}%", request.tolerance * 100), "--tolerance"));
  return rules;
}

}  // namespace

bool is_check_file(const std::string& path) {
  if (std::error_code unknown; !fs::is_regular_file(path, unknown)) return false;  // who reads it says why
  // Results may be large, and what a file is stands at its beginning.
  std::ifstream in(path);
  std::string begin(256, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin.find("\"mbench.check/1\"") != std::string::npos || begin.find("\"mbench.fleet/1\"") != std::string::npos;
}

health::Health read_check(const std::string& path) {
  return health::health_from_json(read_json(path), path + ": $");
}

health::Fleet read_fleet(const std::string& path) {
  const json file = read_json(path);
  return health::is_fleet(file) ? health::fleet_from_json(file, path + ": $")
                                : health::make_fleet({health::health_from_json(file, path + ": $")});
}

std::string report_checks(const std::vector<std::string>& paths, const std::string& format) {
  const std::vector<std::string> formats = {"md", "json", "junit", "html"};
  if (std::find(formats.begin(), formats.end(), format) == formats.end())
    fail(ErrorKind::bad_input, "--format", "a check has no such format, got \"{}\", {}", format,
         nearest_choice(format, formats));
  if (paths.size() > 1 && (format == "json" || format == "junit"))
    fail(ErrorKind::bad_input, "report", "--format {} holds one check, got {}, need one call for each", format,
         paths.size());
  std::vector<CheckSource> sources;
  for (const std::string& path : paths) {
    const json file = read_json(path);
    if (health::is_fleet(file))
      sources.push_back({path, health::fleet_from_json(file, path + ": $")});
    else
      sources.push_back({path, health::health_from_json(file, path + ": $"), tolerance_of(file)});
  }
  if (format == "html") return check_page(sources);
  std::string text;
  for (const CheckSource& source : sources) {
    if (!text.empty()) text += "\n";
    if (const auto* fleet = std::get_if<health::Fleet>(&source.content))
      text += format == "json"    ? dump_json(health::to_json(*fleet)) + "\n"
              : format == "junit" ? health::to_junit(*fleet)
                                  : health::to_markdown(*fleet);
    else if (const auto& check = std::get<health::Health>(source.content); format == "json")
      text += dump_json(health::to_json(check, source.tolerance)) + "\n";
    else
      text +=
          format == "junit" ? health::to_junit(check, source.tolerance) : health::to_markdown(check, source.tolerance);
  }
  return text;
}

bool compare_checks(const std::string& now_path, const std::string& baseline_path, double tolerance,
                    const std::string& format) {
  const std::vector<std::string> formats = {"md", "json", "junit"};
  if (std::find(formats.begin(), formats.end(), format) == formats.end())
    fail(ErrorKind::bad_input, "--format", "a comparison has no such format, got \"{}\", {}", format,
         nearest_choice(format, formats));
  const health::Fleet now = read_fleet(now_path);
  std::error_code unknown;
  const bool store = fs::is_directory(baseline_path, unknown);
  if (!store && !is_check_file(baseline_path))
    fail(ErrorKind::bad_input, baseline_path,
         "is no check, and {} is one, need a check, a fleet or a folder of "
         "baselines",
         now_path);
  const health::Fleet baseline = store ? newest_like(baseline_path, now) : read_fleet(baseline_path);
  if (now.device != baseline.device)
    fail(ErrorKind::bad_input, "compare", "checks of different devices, got {} and {}, need one kind", now.device,
         baseline.device);
  const std::vector<Change> changes = changes_of(now, baseline, tolerance);
  if (changes.empty()) fail(ErrorKind::bad_input, "compare", "the checks have no figure in common, need one");
  ordered_json list = ordered_json::array();
  for (const Change& c : changes)
    list.push_back({{"figure", figure_text(c.baseline)},
                    {"unit", c.baseline.unit},
                    {"baseline", c.baseline.median},
                    {"now", c.now.median},
                    {"spread", c.baseline.spread},
                    {"verdict", c.verdict}});
  const bool worse = std::any_of(changes.begin(), changes.end(), [](const Change& c) { return c.verdict == "worse"; });
  if (format == "json")
    std::cout << dump_json({{"schema", "mbench.compare-checks/1"},
                            {"tolerance", tolerance},
                            {"regression", worse},
                            {"figures", list}})
              << "\n";
  else
    std::cout << (format == "junit" ? changes_junit(changes) : changes_text(changes, tolerance));
  std::cout << std::flush;
  return worse;
}

std::string add_checks(const std::vector<std::string>& paths, const std::string& folder) {
  std::vector<health::Health> checks;
  std::optional<health::Fleet> fleet;
  for (const std::string& path : paths) {
    if (const json file = read_json(path); health::is_fleet(file))
      fleet = health::fleet_from_json(file, path + ": $");
    else
      checks.push_back(health::health_from_json(file, path + ": $"));
  }
  if (fleet && (!checks.empty() || paths.size() > 1))
    fail(ErrorKind::bad_input, "baseline add", "got a fleet and {} other files, need one fleet, or only check files",
         paths.size() - 1);
  if (!fleet) fleet = health::make_fleet(checks);
  if (fleet->date.empty()) fleet->date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  fs::create_directories(folder);
  const FolderLock lock = FolderLock::wait_for(folder);
  std::vector<health::Fleet> history = read_history(folder);
  history.push_back(std::move(*fleet));
  ordered_json all = ordered_json::array();
  for (const health::Fleet& f : history) all.push_back(health::to_json(f));
  write_file_atomically(history_path(folder),
                        dump_json({{"schema", kHistorySchema}, {"history", std::move(all)}}) + "\n");
  return history_path(folder);
}

std::string check_trends(const std::string& folder, const std::string& format) {
  struct Line {
    std::string figure, unit, hardware;
    std::vector<std::string> dates;
    std::vector<double> values;
  };
  std::vector<Line> lines;
  std::map<std::string, std::size_t> place;
  for (const health::Fleet& fleet : read_history(folder))
    for (const health::FleetFigure& f : fleet.figures) {
      const std::string figure = figure_text(f);
      const auto [it, added] = place.emplace(fleet.hardware + "\n" + figure + "\n" + f.scope, lines.size());
      if (added) lines.push_back({figure, f.unit, fleet.hardware, {}, {}});
      lines[it->second].dates.push_back(fleet.date);
      lines[it->second].values.push_back(f.median);
    }
  if (lines.empty()) return "";
  if (format == "json") {
    ordered_json all = ordered_json::array();
    for (const Line& l : lines)
      all.push_back({{"figure", l.figure},
                     {"unit", l.unit},
                     {"hardware", l.hardware},
                     {"dates", l.dates},
                     {"medians", l.values}});
    return dump_json({{"schema", "mbench.trend-checks/1"}, {"trends", std::move(all)}}) + "\n";
  }
  std::string text;
  for (const Line& l : lines) {
    const health::Printed as = health::printed_as(l.unit, l.values.front());
    text += fmt::format("{} ({}): {}  {:.4g} to {:.4g} {}, {:+.1f} % since {}\n", l.figure, l.hardware,
                        reports::sparkline(l.values), l.values.front() * as.factor, l.values.back() * as.factor,
                        as.unit, 100 * (l.values.back() / l.values.front() - 1), l.dates.front());
  }
  return text;
}

bool makes_fleet(const FleetRequest& request) {
  std::size_t fleets = 0;
  for (const std::string& path : request.files) {
    const json file = read_json(path);
    if (!health::is_fleet(file) && !health::is_check(file))
      fail(ErrorKind::bad_input, path, "is neither a check nor a fleet, need the --result of mbench check");
    fleets += health::is_fleet(file) ? 1 : 0;
  }
  if (fleets > 0 && request.files.size() > 1)
    fail(ErrorKind::bad_input, "--fleet",
         "got {} files with a stored fleet among them, need only the fleet, or check files", request.files.size());
  if (fleets > 0) health::check_rules(read_fleet(request.files.front()), rules_of(request), "--rule");
  return fleets == 0;
}

int run_fleet(const FleetRequest& request) {
  const std::vector<health::Rule> rules = rules_of(request);
  std::vector<health::Health> checks;
  for (const std::string& path : request.files) checks.push_back(read_check(path));
  health::Fleet fleet = health::make_fleet(checks);
  health::check_rules(fleet, rules, "--rule");
  health::judge(fleet, checks, rules);
  const std::string stored = dump_json(health::to_json(fleet)) + "\n";
  std::cout << (request.format == "json"    ? stored
                : request.format == "junit" ? health::to_junit(fleet)
                                            : health::to_markdown(fleet))
            << std::flush;
  for (const health::FallenOut& node : fleet.out)
    if (request.format != "md")
      fmt::print(stderr, "{} falls out: {}\n", printable(node.node), printable(node.reasons.front()));
  if (!request.result.empty() && !write_or_print(request.result, stored, request.format == "json"))
    return Exit::kFailed;
  return fleet.out.empty() ? Exit::kDone : Exit::kRegression;
}

std::vector<std::string> against_fleet(const FleetRequest& request, const health::Health& check) {
  const health::Fleet fleet = read_fleet(request.files.front());
  if (fleet.device != check.device)
    fail(ErrorKind::bad_input, "--fleet", "is of another device, got {}, need {}", fleet.device, check.device);
  const std::vector<health::Rule> rules = rules_of(request);
  std::vector<std::string> lines;
  for (const health::FallenOut& node : health::fallen_out(fleet, {check}, rules))
    for (const std::string& reason : node.reasons)
      lines.push_back(fmt::format("{} falls out of the fleet: {}", node.node, reason));
  return lines;
}

}  // namespace mbench::cli
