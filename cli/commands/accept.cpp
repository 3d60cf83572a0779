// mbench accept: checks, training and a soak on this machine against what it should do, and one verdict.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api/point_simulator.h"
#include "cli/acceptance.h"
#include "cli/cli.h"
#include "cli/commands/check.h"
#include "cli/find_spec.h"
#include "cli/launch.h"
#include "cli/seconds.h"
#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/platform/registry.h"
#include "engine/point/result_file.h"
#include "engine/process/process.h"
#include "health/expected.h"
#include "reports/tables/report.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAcceptAbout =
    "Says whether a machine does what it should: PASS or FAIL. Checks every rank and link, trains the points of SPEC, "
    "soaks\n"
    "them, checks again, and holds all of it against peers, a machine's file and simulated steps. Writes one page.";

constexpr const char* kAcceptFooter =
    "In DIR: accept.html, accept.json, check-before.json, check-after.json, and the folder of the sweep.\n"
    "Example:\n"
    "  mbench accept configs/llama8b.json --expect H100-SXM5-80GB --soak 8h --out acceptance\n"
    "Exit codes: 0 PASS; 1 FAIL; 2 bad usage or bad input; 3 ranks could not be started, or it was interrupted.";

struct AcceptOptions {
  sweeps::SpecOptions spec;
  std::string device, machine, out, soak = "10min", peers = "10%", data_sheet = "15%", largest;
  int repeat = 3;
  double timeout = 600;
  bool quiet = false;
  LaunchOptions launch;
};

void say(const AcceptOptions& options, const std::string& text) {
  if (!options.quiet) fmt::print(stderr, "accept: {}\n", text);
}

void write_json(const fs::path& path, const nlohmann::ordered_json& json) {
  write_file_atomically(path.string(), dump_json(json) + "\n");
}

health::Health check(const AcceptOptions& options, const CheckRequest& request, process::Interrupt& interrupt,
                     const char* name) {
  say(options, fmt::format("{} rank{} and {} links, {} time{}", request.ranks, request.ranks == 1 ? "" : "s",
                           request.ranks == 1 ? "its" : "their", request.repeat, request.repeat == 1 ? "" : "s"));
  health::Health found = check_ranks(request, find_launcher(options.launch), &interrupt);
  health::expect(found, options.machine, "--expect");
  write_json(fs::path(options.out) / (std::string(name) + ".json"),
             health::to_json(found, read_tolerance(options.peers, "--peers")));
  return found;
}

// The rows of the sweep that trains the points.
ResultFile train(const AcceptOptions& options, process::Interrupt& interrupt) {
  const std::string folder = (fs::path(options.out) / "sweep").string();
  process::ProcessRequest sweep;
  sweep.argv = {this_program(), "sweep", options.spec.path, "--on", options.device, "--out", folder, "--quiet"};
  for (const std::string& text : options.spec.set) sweep.argv.insert(sweep.argv.end(), {"--set", text});
  for (const std::string& text : options.spec.filter) sweep.argv.insert(sweep.argv.end(), {"--filter", text});
  if (!options.soak.empty()) sweep.argv.insert(sweep.argv.end(), {"--soak", options.soak});
  options.launch.append_to(sweep.argv);
  sweep.log = (fs::path(options.out) / "sweep.log").string();
  sweep.interrupt = &interrupt;
  const process::ProcessEnd end = process::run_process(sweep);
  if (end.how == process::ProcessEnd::How::interrupted)
    fail(ErrorKind::launch_failed, "accept", "interrupted in training");
  const std::string results = (fs::path(folder) / "results.json").string();
  if (!fs::exists(results))
    fail(ErrorKind::launch_failed, "accept", "the sweep left no result, exit code {}: {}", end.code,
         end.tail.empty() ? sweep.log : end.tail.back());
  return read_result_file(results);
}

PointResult simulated_on(api::PointSimulator& simulator, Point point, const std::string& machine) {
  point.device = fmt::format("sim:{}x{}", point.world(), machine);
  simulator.check(point);
  return simulator.run(point);
}

int run(AcceptOptions options) {
  process::Interrupt interrupt;
  if (options.device.empty()) options.device = platform::gpus().empty() ? "cpu" : "cuda";
  if (const auto why = platform::why_not_built(options.device))
    fail(ErrorKind::unsupported, "--on", "{}, got {}, need cpu", *why, options.device);
  if (options.soak == "0") options.soak.clear();
  if (!options.soak.empty()) parse_duration(options.soak, "--soak");
  Acceptance a;
  a.peers = read_tolerance(options.peers, "--peers");
  a.data_sheet = read_tolerance(options.data_sheet, "--data-sheet");
  options.machine = sim::full_machine_name(options.machine, "--expect");
  const sim::Machine machine = sim::find_machine(options.machine, "--expect");
  find_and_import(options.spec);
  options.spec.device = options.device;
  const auto spec = sweeps::read_spec(options.spec);
  CheckRequest request;
  request.device = options.device;
  request.repeat = options.repeat;
  request.timeout_s = options.timeout;
  request.quiet = options.quiet;
  if (!options.largest.empty()) request.largest = static_cast<std::int64_t>(parse_bytes(options.largest, "--largest"));
  cover(request, spec.points);
  if (fs::exists(options.out) && !fs::is_empty(options.out))
    fail(ErrorKind::bad_input, "--out", "{} is there and not empty, need a new folder", options.out);
  fs::create_directories(options.out);
  a.spec = options.spec.path, a.machine = machine.name;
  a.ranks = request.ranks, a.repeat = options.repeat, a.soak = options.soak;
  a.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));

  a.before = check(options, request, interrupt, "check-before");
  say(options, fmt::format("training {} point{}", spec.points.size(), spec.points.size() == 1 ? "" : "s"));
  const ResultFile results = train(options, interrupt);
  a.after = check(options, request, interrupt, "check-after");
  a.gates = mbench::reports::gate_summary(results).failures;
  api::PointSimulator simulator;
  for (const sweeps::SpecPoint& p : spec.points) {
    const auto row =
        std::find_if(results.points.begin(), results.points.end(), [&](const PointResult& r) { return r.id == p.id; });
    AcceptedStep step{
        p.label,
        row != results.points.end() ? *row : not_run(p.point, Outcome::crashed, "the sweep did not come to it"),
        std::nullopt};
    step.simulated = simulated_on(simulator, p.point, options.machine);
    a.steps.push_back(std::move(step));
  }

  const std::vector<std::string> reasons = reasons_to_fail(a);
  write_json(fs::path(options.out) / "accept.json", acceptance_to_json(a));
  const std::string page = (fs::path(options.out) / "accept.html").string();
  write_file_atomically(page, acceptance_page(a));
  fmt::print("{}: {} against {}\n", reasons.empty() ? "PASS" : "FAIL", a.spec, a.machine);
  for (const std::string& reason : reasons) fmt::print("- {}\n", printable(reason));
  fmt::print("{}\n", page);
  return reasons.empty() ? Exit::kDone : Exit::kRegression;
}

}  // namespace

void add_accept(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<AcceptOptions>();
  CLI::App* command = app.add_subcommand("accept", kAcceptAbout);
  command->footer(kAcceptFooter);
  command->add_option("SPEC", options->spec.path, "What is trained: a spec, as of mbench sweep")->required();
  command
      ->add_option("--expect", options->machine,
                   "What the machine should be: one that can be simulated, by name or file")
      ->type_name("MACHINE")
      ->required();
  command->add_option("--out", options->out, "A new folder for the page and all that was measured")
      ->type_name("DIR")
      ->required();
  command->add_option("--on", options->device, "cpu or cuda; default cuda where there is a GPU")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--peers", options->peers, "How much worse than its peers a rank or group may be; default 10%")
      ->type_name("SHARE");
  command
      ->add_option("--data-sheet", options->data_sheet,
                   "How much worse than the machine's file a figure may be, and a step than the simulated one; default "
                   "15%")
      ->type_name("SHARE");
  command->add_option("--repeat", options->repeat, "Check so often, before and after training; default 3")
      ->type_name("N")
      ->check(CLI::Range(1, 99));
  command
      ->add_option("--soak", options->soak,
                   "Train each point for so long, such as 90s, 30min or 8h; default 10min; 0: the spec's iterations")
      ->type_name("DURATION");
  command->add_option("--largest", options->largest, "The largest size of collectives, as of mbench check")
      ->type_name("BYTES");
  command->add_option("--timeout", options->timeout, "End a check after so many seconds; default 600")
      ->type_name("SECONDS")
      ->check(seconds_between(0.001, 1e9));
  command->add_option("--set", options->spec.set, "field=value: set a field of every point (repeatable)");
  command->add_option("--filter", options->spec.filter, "field=value: only points with that value (repeatable)");
  command->add_flag("--quiet", options->quiet, "No progress");
  options->launch.add_to(*command);
  command->callback([options, &exit] { exit.code = run(*options); });
}

}  // namespace mbench::cli
