// mbench cost: what training to a number of tokens takes, from the time of a step that was simulated or measured.
#include <fmt/format.h>

#include <iostream>

#include "api/point_simulator.h"
#include "cli/cli.h"
#include "cli/find_spec.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/plan/checkpoint.h"
#include "engine/point/result_file.h"
#include "reports/cost/run_cost.h"
#include "reports/page/point_label.h"
#include "reports/records/record.h"
#include "strategies/strategies.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

using nlohmann::ordered_json;
using reports::Quantity;
using reports::Range;

constexpr const char* kCostAbout =
    "Prints what training to a number of tokens takes: time, device hours, money, energy, the best interval between "
    "checkpoints, and\n"
    "goodput, the share of the time that is training. Steps are those of a result file, or of a spec simulated --on a "
    "machine.\n"
    "A figure may be a range, LOW..HIGH; then so is what follows from it. What is not given stays unknown.";

constexpr const char* kCostFooter =
    "Examples:\n"
    "  mbench cost out/llama-3-70b --tokens 15T --price 2.10 --mtbf 50000h --restart 10min --checkpoint-bandwidth "
    "40GB/s\n"
    "  mbench cost spec.json --on sim:512xH100-SXM5-80GB --tokens 1T..2T --price 1.9..2.5 --watts 1300";

constexpr double kHardly = 0.01;  // of the time is training

struct CostOptions {
  sweeps::SpecOptions spec;
  std::string on, tokens, price, mtbf, restart, bandwidth, watts;
  bool json = false;
};

struct Row {
  std::string label;
  PointResult result;
};

// By the fields in which the points differ; of one point its model.
std::vector<std::string> labels_of_results(const ResultFile& results) {
  std::vector<reports::Record> records;
  std::vector<const reports::Record*> all;
  std::vector<std::string> labels;
  for (const PointResult& p : results.points) records.emplace_back(p);
  for (const reports::Record& record : records) all.push_back(&record);
  const std::vector<std::string> swept = reports::swept_fields(results.spec, all);
  for (const reports::Record& record : records)
    labels.push_back(swept.empty() ? record.text("model") : reports::point_label(record, swept));
  return labels;
}

// Of a spec, simulated, or as a result file has them.
std::vector<Row> rows_of(const CostOptions& options) {
  sweeps::SpecOptions spec = options.spec;
  spec.path = find_spec(spec.path);
  const std::string file = sweeps::results_file(spec.path);
  spec.json = imported_spec(file);
  std::vector<Row> rows;
  if (!spec.json && options.on.empty()) {
    const nlohmann::ordered_json json = parse_json(read_text_file(file), file);
    if (!json.is_object() || !json.contains("schema") || !json.contains("points"))
      fail(ErrorKind::bad_input, file,
           "is a spec, whose steps nobody measured, need --on sim:<N>x<MACHINE>, or a result file");
    ResultFile results = read_result_file(file);
    const std::vector<std::string> labels = labels_of_results(results);
    for (std::size_t i = 0; i < results.points.size(); ++i) rows.push_back({labels[i], std::move(results.points[i])});
    return rows;
  }
  if (!options.on.starts_with("sim:"))
    fail(ErrorKind::bad_input, "--on", "got \"{}\", need sim:<N>x<MACHINE> for a spec", options.on);
  spec.device = device_asked(options.on);
  api::PointSimulator simulator;
  for (const sweeps::SpecPoint& p : sweeps::read_spec(spec).points) {
    simulator.check(p.point);
    rows.push_back({p.label, simulator.run(p.point)});
  }
  return rows;
}

reports::RunAsked asked_of(const CostOptions& o) {
  const auto optional = [](const std::string& text, Quantity q, const char* where) {
    return text.empty() ? std::nullopt : std::optional(reports::read_range(text, q, where));
  };
  return {.tokens = reports::read_range(o.tokens, Quantity::tokens, "--tokens"),
          .price = optional(o.price, Quantity::plain, "--price"),
          .device_mtbf = optional(o.mtbf, Quantity::seconds, "--mtbf"),
          .restart = optional(o.restart, Quantity::seconds, "--restart"),
          .checkpoint_bandwidth = optional(o.bandwidth, Quantity::bytes_per_second, "--checkpoint-bandwidth"),
          .watts = optional(o.watts, Quantity::plain, "--watts")};
}

reports::StepFacts facts_of(const PointResult& r) {
  const Point& p = r.point;
  return {.seconds = r.iteration_ms->mean / 1e3,
          .tokens = static_cast<double>(p.global_batch * p.seq),
          .devices = r.world,
          .checkpoint_bytes = checkpoint_bytes(strategies::make_plan(p)),
          .joules = r.energy_joules};
}

// "3.58 M": of what there are many.
std::string count_text(double x) {
  if (!(x < 1e15)) return "more than 1000 T";
  static constexpr std::pair<double, const char*> kScales[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}};
  for (const auto& [scale, name] : kScales)
    if (x >= scale) return fmt::format("{:.3g}{}", x / scale, name);
  return x >= 1e4 ? fmt::format("{:.0f}", x) : fmt::format("{:.4g}", x);
}
std::string energy_text(double joules) {
  const double mwh = joules / 3.6e9;
  return mwh >= 1000 ? fmt::format("{:.3g} GWh", mwh / 1000)
         : mwh >= 1  ? fmt::format("{:.3g} MWh", mwh)
                     : fmt::format("{:.3g} kWh", mwh * 1000);
}
std::string years_or_less(double seconds) {
  if (!(seconds < 1000 * 365.25 * 86400)) return "more than 1000 years";
  return seconds > 2 * 86400.0 ? fmt::format("{:.1f} days", seconds / 86400) : format_duration(seconds);
}
std::string of(const Range& range, std::string (*text)(double)) {
  return reports::range_text(range, text);
}

// "need --mtbf and --restart": those that were not given.
std::string unknown(std::initializer_list<std::pair<const char*, bool>> inputs) {
  std::vector<std::string> missing;
  for (const auto& [flag, given] : inputs)
    if (!given) missing.emplace_back(flag);
  std::string text;
  for (std::size_t i = 0; i < missing.size(); ++i)
    text += (i == 0 ? "" : i + 1 < missing.size() ? ", " : " and ") + missing[i];
  return "unknown, need " + text;
}

void print_cost(const Row& row, const reports::StepFacts& step, const reports::RunAsked& asked,
                const reports::RunCost& cost) {
  const auto line = [](const char* what, const std::string& text) { fmt::print("  {:<18} {}\n", what, text); };
  const auto known = [&](const char* what, const std::optional<Range>& range, std::string (*text)(double),
                         const std::string& otherwise,
                         const std::string& after = "") { line(what, range ? of(*range, text) + after : otherwise); };
  fmt::print("{}\n", row.label);
  line("step", fmt::format("{:.4g} s, {} tokens, {} device{}{}", step.seconds, count_text(step.tokens), step.devices,
                           step.devices == 1 ? "" : "s", row.result.simulated ? " (simulated)" : ""));
  line("steps", of(cost.steps, count_text));
  line("training only", of(cost.work, years_or_less));
  const bool mtbf = asked.device_mtbf.has_value(), bandwidth = asked.checkpoint_bandwidth.has_value(),
             restart = asked.restart.has_value();
  const std::string failures =
      unknown({{"--mtbf", mtbf}, {"--checkpoint-bandwidth", bandwidth}, {"--restart", restart}});
  known("MTBF of the job", cost.job_mtbf, years_or_less, unknown({{"--mtbf", mtbf}}));
  const bool small = step.checkpoint_bytes < 1e9;
  line("checkpoint", fmt::format("{:.4g} {}{}", step.checkpoint_bytes / (small ? 1e6 : 1e9), small ? "MB" : "GB",
                                 cost.checkpoint ? ", " + of(*cost.checkpoint, format_duration) : ""));
  known("best interval", cost.interval, format_duration, failures, " of training between two checkpoints");
  known("failures", cost.failures, count_text, failures);
  known(
      "goodput", cost.goodput, [](double x) { return fmt::format("{:.1f} %", 100 * x); }, failures);
  known("elapsed", cost.elapsed, years_or_less, failures);
  if (cost.goodput && cost.goodput->high < kHardly)
    line("",
         "the job fails so often that it hardly comes on, need a larger --mtbf or --checkpoint-bandwidth, or fewer "
         "devices");
  const char* least = cost.elapsed ? "" : ", without failures";
  line("device hours", of(cost.device_hours, count_text) + least);
  known("money", cost.money, count_text, unknown({{"--price", false}}), least);
  const bool of_devices = !asked.watts && cost.joules;
  known("energy", cost.joules, energy_text, unknown({{"--watts", false}}),
        of_devices ? ", only of the devices in training" : least);
  fmt::print("\n");
}

ordered_json json_of(const Row& row, const reports::StepFacts& step, const reports::RunAsked& asked,
                     const reports::RunCost& cost) {
  const auto pair = [](const Range& r) { return ordered_json::array({r.low, r.high}); };
  const auto known = [&](const std::optional<Range>& r) { return r ? pair(*r) : ordered_json(nullptr); };
  return {{"label", row.label},
          {"id", row.result.id},
          {"simulated", row.result.simulated},
          {"step_s", step.seconds},
          {"tokens_per_step", step.tokens},
          {"devices", step.devices},
          {"checkpoint_bytes", step.checkpoint_bytes},
          {"steps", pair(cost.steps)},
          {"training_s", pair(cost.work)},
          {"job_mtbf_s", known(cost.job_mtbf)},
          {"checkpoint_s", known(cost.checkpoint)},
          {"checkpoint_interval_s", known(cost.interval)},
          {"failures", known(cost.failures)},
          {"goodput", known(cost.goodput)},
          {"elapsed_s", known(cost.elapsed)},
          {"device_hours", pair(cost.device_hours)},
          {"money", known(cost.money)},
          {"joules", known(cost.joules)},
          {"joules_of", asked.watts ? "all that --watts counts" : "devices in training"},
          {"includes_failures", cost.goodput.has_value()}};
}

void run(const CostOptions& options, Exit& exit) {
  const reports::RunAsked asked = asked_of(options);
  ordered_json all = ordered_json::array();
  for (const Row& row : rows_of(options)) {
    if (row.result.outcome != Outcome::ok || !row.result.iteration_ms) {
      exit.code = Exit::kFailed;
      if (options.json)
        all.push_back({{"label", row.label}, {"outcome", name_of(row.result.outcome)}, {"reason", row.result.reason}});
      else
        fmt::print("{}\n  {}: {}\n\n", row.label, name_of(row.result.outcome), row.result.reason);
      continue;
    }
    const reports::StepFacts step = facts_of(row.result);
    const reports::RunCost cost = reports::cost_of(step, asked);
    if (options.json)
      all.push_back(json_of(row, step, asked, cost));
    else
      print_cost(row, step, asked, cost);
  }
  if (options.json) std::cout << all.dump(2) << "\n";
}

}  // namespace

void add_cost(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<CostOptions>();
  CLI::App* command = app.add_subcommand("cost", kCostAbout);
  command->footer(kCostFooter);
  command
      ->add_option("SPEC", options->spec.path,
                   "A results.json, or the folder of a sweep or search that has one; or a spec, with --on")
      ->required();
  command->add_option("--tokens", options->tokens, "How many tokens are trained on: 15T, 300B")
      ->type_name("TOKENS")
      ->required();
  command->add_option("--on", options->on, "Of a spec: sim:<N>x<MACHINE>")->type_name("DEVICE");
  command->add_option("--price", options->price, "Of a device for an hour, in any currency")->type_name("MONEY");
  command
      ->add_option("--mtbf", options->mtbf,
                   "Mean time between failures of one device and its share of the node: 50000h")
      ->type_name("TIME");
  command->add_option("--restart", options->restart, "From a failure until the job trains again: 10min")
      ->type_name("TIME");
  command
      ->add_option("--checkpoint-bandwidth", options->bandwidth, "Of all ranks together, while training waits: 40GB/s")
      ->type_name("RATE");
  command
      ->add_option("--watts", options->watts,
                   "Of a device with its share of host, network and cooling; without it energy is what the steps took")
      ->type_name("WATTS");
  command->add_flag("--json", options->json,
                    "Print JSON: ranges as [low, high], what is unknown as null; seconds, bytes, joules");
  command->add_option("--set", options->spec.set, "Of a spec, field=value: set a field of every point (repeatable)");
  command->add_option("--filter", options->spec.filter,
                      "Of a spec, field=value: only points with that value (repeatable)");
  command->callback([options, &exit] { run(*options, exit); });
}

}  // namespace mbench::cli
