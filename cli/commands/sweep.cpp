// mbench sweep: expands a spec, runs every point in an MPI job of its own and writes results.json and
// results.md.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <set>

#include "api/point_simulator.h"
#include "cli/cli.h"
#include "cli/commands/check.h"
#include "cli/environment.h"
#include "cli/find_spec.h"
#include "cli/launch.h"
#include "cli/out_folder.h"
#include "cli/preflight.h"
#include "cli/seconds.h"
#include "cli/trace_file.h"
#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/platform/registry.h"
#include "engine/process/process.h"
#include "engine/process/turns.h"
#include "engine/train/data.h"
#include "health/report.h"
#include "health/signature.h"
#include "reports/plots/report_plots.h"
#include "reports/tables/report.h"
#include "sweeps/run/consistency.h"
#include "sweeps/run/runner.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSweepAbout =
    "Expands SPEC into points, runs each in an MPI job of its own and writes results.json and results.md.\n"
    "Where gnuplot is installed, plots of the results are drawn next to them.\n"
    "A point that runs out of memory, hangs or crashes is a row of the table, not the end of the sweep.";

constexpr const char* kSweepFooter =
    "DIR holds results.json, results.md, plots, and the folder points: of each point its JSON "
    "(ID.point.json),\n"
    "its result (ID.json) and what it printed (ID.log).\n"
    "Ctrl-C ends the running point and keeps what is done (exit code 3), of the running point what it had measured\n"
    "in a row partial. --resume goes on from there: points that are ok, oom, infeasible or unsupported are kept, all\n"
    "others run again.\n"
    "Exit codes: 0 done; 1 --check found something; 2 bad usage or bad input; 3 a crash, a hang, a wrong loss, an "
    "interrupted\n"
    "sweep or unwritten results.\n"
    "\n"
    "Examples:\n"
    "  mbench sweep quickstart\n"
    "  mbench sweep quickstart --set iterations=20 --set seq=[64,128] --filter strategy=full\n"
    "  mbench sweep gpt345m --dry-run\n"
    "  mbench sweep gpt345m --on sim:8xV100-SXM2-16GB";

struct SweepOptions {
  sweeps::SpecOptions spec;
  formats::ImportOptions trainer;  // how a trainer's file is read
  std::string on;                  // empty: default_device()
  std::string out;
  LaunchOptions launch;
  std::string trace, metrics, soak, turns;
  double timeout = 0, collective_timeout = 0;
  std::string check_tolerance = "10%";
  bool check = false, resume = false, dry_run = false, quiet = false;
};

// The GPUs of the nodes if every rank of every point gets one of its own, else the CPU. A simulation is
// never run unasked.
std::string default_device(sweeps::SpecOptions spec, const sweeps::Launcher& launcher) {
  const auto have = static_cast<std::int64_t>(launcher.gpus);
  if (have == 0) return "cpu";
  spec.device = "cpu";
  const std::int64_t nodes = launcher.nodes;
  for (const sweeps::SpecPoint& p : sweeps::read_spec(spec).points)
    if ((p.point.world() + nodes - 1) / nodes > have) return "cpu";
  return "cuda";
}

// The device of every point. What was asked for is what runs.
void check_device(const std::string& on) {
  if (on == "cpu") return;
  if (on == "cuda") {
    if (const auto why = platform::why_not_built(on))
      fail(ErrorKind::unsupported, "--on", "{}, got cuda, need cpu or sim:<N>x<MACHINE>", *why);
    return;
  }
  if (on.starts_with("sim:")) {
    sim::parse_simulated(on, "--on");
    return;
  }
  fail(ErrorKind::bad_input, "--on", "no such device, got \"{}\", need cpu, cuda or sim:<N>x<MACHINE>", on);
}

// Where the ranks will run on this machine, it must have a GPU.
void check_gpus(const std::string& on, const sweeps::Launcher& launcher) {
  if (on == "cuda" && !launcher.allocated && platform::gpus().empty())
    fail(ErrorKind::unsupported, "--on", "no GPU here: {}; got cuda, need cpu or sim:<N>x<MACHINE>",
         platform::why_no_gpu());
}

// What a rank would find wrong with the data, found before any is started: the file, and the tokens that the first samples
// draw from it.
void check_data(const sweeps::SpecPoint& p) {
  const Point& point = p.point;
  const auto source = train::open_data(p.data, point.model.vocab, point.seq, point.seed);
  constexpr std::int64_t kMostTokens = 1 << 22;  // some tens of milliseconds
  std::vector<std::int64_t> sample(static_cast<std::size_t>(point.seq) + 1);
  std::int64_t left = kMostTokens;
  for (std::int64_t step = 0; step < point.warmup + point.iterations; ++step)
    for (std::int64_t g = 0; g < point.global_batch; ++g) {
      if ((left -= point.seq) < 0) return;
      source->fill(step, g, point.seq, sample.data());
    }
}

// The newest folder that a sweep of this name has made by itself; empty if there is none.
std::string newest_folder(const std::string& name) {
  std::string newest;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("out", none))
    if (entry.path().filename().string().starts_with(name + "-"))
      newest = std::max(newest, entry.path().string());  // names end in the time, so they sort by it
  return newest;
}

std::string folder_of(const SweepOptions& options, const sweeps::Spec& spec) {
  if (!options.out.empty()) return options.out;
  if (options.resume) {
    const std::string newest = newest_folder(spec.name);
    fail(ErrorKind::bad_input, "--resume", "which sweep is not said, need --out DIR{}",
         newest.empty() ? "" : fmt::format("; the newest of this name is {}", newest));
  }
  return free_folder(spec.name);
}

// What to type to go on with this sweep.
std::string resume_command(const SweepOptions& options, const std::string& out) {
  sweeps::Command command;
  command.argv = {"mbench", "sweep", options.spec.path, "--on", options.on, "--out", out, "--resume"};
  for (const std::string& text : options.spec.set) command.argv.insert(command.argv.end(), {"--set", text});
  for (const std::string& text : options.spec.filter) command.argv.insert(command.argv.end(), {"--filter", text});
  for (const std::string& text : options.trainer.without) command.argv.insert(command.argv.end(), {"--without", text});
  for (const std::string& text : options.trainer.variables) command.argv.insert(command.argv.end(), {"--var", text});
  for (const std::string& text : options.trainer.also) command.argv.insert(command.argv.end(), {"--also", text});
  options.launch.append_to(command.argv);
  if (options.timeout > 0) command.argv.insert(command.argv.end(), {"--timeout", fmt::format("{}", options.timeout)});
  if (options.collective_timeout > 0)
    command.argv.insert(command.argv.end(), {"--collective-timeout", fmt::format("{}", options.collective_timeout)});
  if (!options.soak.empty()) command.argv.insert(command.argv.end(), {"--soak", options.soak});
  if (!options.turns.empty()) command.argv.insert(command.argv.end(), {"--take-turns", options.turns});
  if (!options.metrics.empty()) command.argv.insert(command.argv.end(), {"--metrics", options.metrics});
  if (options.quiet) command.argv.push_back("--quiet");
  return sweeps::shell_text(command);
}

int terminal_columns() {
  winsize size{};
  if (!::isatty(STDERR_FILENO)) return 0;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// The plots beside the tables, when all points are there; a sweep without them is none the worse.
void add_plots(const ResultFile& file, const std::string& out, process::Interrupt& interrupt) {
  try {
    std::vector<std::string> notes;
    const std::string lines = reports::plots_next_to(out, file, notes, &interrupt);
    if (!lines.empty())
      write_file_atomically((fs::path(out) / "results.md").string(), reports::render_report(file, {}) + lines);
    for (const std::string& note : notes) std::cerr << note << "\n";
  } catch (const Error& e) {
    std::cerr << e.what() << "\n";
  }
}

// --check: the ranks of the largest point and the axes of all of them, into check.json in `out`. Whether nothing stands out.
bool is_healthy(const SweepOptions& options, const sweeps::Spec& spec, sweeps::RunnerOptions& runner) {
  const double tolerance = read_tolerance(options.check_tolerance, "--check-tolerance");
  CheckRequest request;
  request.device = options.on;
  cover(request, spec.points);
  if (!options.quiet) std::cerr << fmt::format("Checking {} ranks before the first point\n", request.ranks);
  const health::Health health = check_ranks(request, runner.launcher, runner.interrupt);
  fs::create_directories(runner.out);
  const std::string file = (fs::path(runner.out) / "check.json").string();
  write_file_atomically(file, dump_json(health::to_json(health, tolerance)) + "\n");
  const std::size_t findings = health::judge(health, tolerance).size() + health::faults_of(health).size();
  if (findings == 0) {
    runner.environment["check"] =
        fmt::format("{} ranks, none more than {:.4g} % worse than its peers", request.ranks, tolerance * 100);
    return true;
  }
  std::cout << health::to_markdown(health, tolerance);
  std::cerr << fmt::format("mbench: figures stand out, {} of them: nothing was trained. All of them: {}\n", findings,
                           file);
  return false;
}

// What a sweep is asked for, read and checked.
struct Request {
  double soak_s = 0;
  std::optional<sweeps::TakeTurns> turns;
  sweeps::Launcher launcher;
  std::optional<sweeps::ReportedHosts> hosts;  // where its ranks may be on other hosts
  sweeps::Spec spec;
};

void check_turns(const Request& request, const std::string& device) {
  if (!request.turns) return;
  if (request.soak_s > 0)
    fail(ErrorKind::bad_input, "--take-turns", "a soak trains by the clock, got --soak too, need one of them");
  if (device.empty()) return;
  const int nodes = request.launcher.nodes;
  if (device != "cpu" || nodes > 1)
    fail(ErrorKind::unsupported, "--take-turns", "is for the CPUs of one machine, got {} on {} node{}", device, nodes,
         nodes > 1 ? "s" : "");
}

// Settles options.on, too.
Request read_request(SweepOptions& options) {
  Request request;
  if (!options.on.empty()) options.spec.device = options.on;
  find_and_import(options.spec, options.trainer);
  request.soak_s = options.soak.empty() ? 0 : parse_duration(options.soak, "--soak");
  if (request.soak_s > 0 && options.on.starts_with("sim:"))
    fail(ErrorKind::bad_input, "--soak", "is of real time, got --on {}, need cpu or cuda", options.on);
  if (!options.turns.empty()) request.turns = sweeps::read_take_turns(options.turns);
  check_turns(request, "");
  request.launcher = find_launcher(options.launch);
  request.launcher.gpus = static_cast<int>(platform::gpus().size());
  // Ranks that may be on other hosts say themselves what these have; a simulation has none.
  if (request.launcher.allocated && !options.dry_run && !options.on.starts_with("sim:")) {
    request.hosts = sweeps::probe_hosts(request.launcher, this_program(),
                                        options.on == "cpu" || platform::why_not_built("cuda") ? "cpu" : "cuda");
    request.launcher = sweeps::on_hosts(std::move(request.launcher), request.hosts->hosts);
  }
  if (options.on.empty()) options.on = default_device(options.spec, request.launcher);
  check_device(options.on);
  options.on = device_asked(options.on);
  check_turns(request, options.on);
  options.spec.device = options.on;
  request.spec = sweeps::read_spec(options.spec);
  read_tolerance(options.check_tolerance, "--check-tolerance");
  if (options.check && options.on.starts_with("sim:"))
    fail(ErrorKind::bad_input, "--check", "a simulation has no ranks to check, got --on {}", options.on);
  reports::check_tables(request.spec.json);  // before anything runs, not when results.md is written
  return request;
}

// Machines, frameworks and data of the points, so that what cannot be read is found before anything runs.
void check_points(const sweeps::Spec& spec, api::PointSimulator& simulator) {
  std::set<std::string> checked;  // points that train on the same tokens
  for (const sweeps::SpecPoint& p : spec.points) {
    if (p.point.simulated())
      simulator.check(p.point);
    else if (p.data != "synthetic" && checked.insert(sweeps::agreement_key(p.point)).second)
      check_data(p);
  }
}

nlohmann::ordered_json environment_of(const SweepOptions& options, const Request& request,
                                      api::PointSimulator& simulator) {
  nlohmann::ordered_json environment = describe_environment(options.on);
  if (request.hosts)
    for (const auto& [key, value] : request.hosts->environment.items())
      if (key != "device") environment[key] = value;
  environment["spec_file"] = request.spec.path;
  if (request.soak_s > 0) environment["soak"] = options.soak;
  const Point& first = request.spec.points.front().point;
  if (first.simulated()) {
    const sim::Machine& machine = simulator.machine_of(first);
    environment["machine"] = machine.description;
    environment["devices_per_node"] = machine.node.devices;
    environment["device_memory_mib"] = machine.device.memory_bytes >> 20;
    std::set<std::string> frameworks;
    for (const sweeps::SpecPoint& p : request.spec.points) {
      const Framework& f = *framework_of(p.point.framework);
      frameworks.insert(fmt::format("{} ({})", f.name, f.description));
    }
    environment["framework"] = fmt::format("{}", fmt::join(frameworks, "; "));
  } else {
    environment["launcher"] = request.launcher.describe();
  }
  environment["started"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  return environment;
}

sweeps::RunnerOptions runner_of(const SweepOptions& options, const Request& request) {
  sweeps::RunnerOptions runner;
  runner.program = this_program();
  runner.out = folder_of(options, request.spec);
  runner.launcher = request.launcher;
  if (!options.dry_run) check_gpus(options.on, runner.launcher);
  runner.resume = options.resume;
  runner.quiet = options.quiet;
  runner.timeout_s = options.timeout;
  runner.metrics = options.metrics;
  runner.soak_s = request.soak_s;
  runner.turns = request.turns;
  runner.collective_timeout_s = options.collective_timeout;
  runner.columns = terminal_columns();
  runner.resume_command = resume_command(options, runner.out);
  runner.preflight = [launcher = runner.launcher](const Point& point) { return preflight(point, launcher); };
  runner.render_tables = [](const ResultFile& file) { return reports::render_report(file, {}); };
  runner.progress = &std::cerr;
  runner.tables = &std::cout;
  return runner;
}

// `unwritten` becomes true where the trace of a simulated point could not be written.
void add_simulation(const SweepOptions& options, const sweeps::Spec& spec, api::PointSimulator& simulator,
                    bool& unwritten, sweeps::RunnerOptions& runner) {
  runner.simulate = [&](const Point& point) {
    if (options.trace.empty()) return simulator.run(point);
    TracedResult traced = simulate_with_trace(simulator, point, trace_path(options.trace, spec, point));
    if (!traced.unwritten.empty()) {
      unwritten = true;
      traced.result.reason += (traced.result.reason.empty() ? "" : "; ") + traced.unwritten;
    }
    return traced.result;
  };
  runner.trace = [&](const Point& point) {
    return options.trace.empty() ? std::string() : trace_path(options.trace, spec, point);
  };
}

int run(SweepOptions options) {
  const Request request = read_request(options);
  const sweeps::Spec& spec = request.spec;
  sweeps::RunnerOptions runner = runner_of(options, request);
  api::PointSimulator simulator;
  check_points(spec, simulator);
  bool unwritten = false;
  add_simulation(options, spec, simulator, unwritten, runner);
  runner.environment = environment_of(options, request, simulator);
  if (options.dry_run) {
    std::cout << printable(sweeps::describe_sweep(spec, runner), std::string::npos);
    return Exit::kDone;
  }
  // A reader of our output that has gone (`| head`) must not end the sweep.
  std::signal(SIGPIPE, SIG_IGN);
  if (!options.metrics.empty()) check_writable(options.metrics);
  if (request.turns) process::Turns::make_folder(request.turns->folder);
  if (!options.trace.empty()) check_writable(trace_path(options.trace, spec, spec.points.front().point));
  // From here to the end of the process, which must not end by a signal that comes late: never destroyed.
  process::Interrupt& interrupt = *new process::Interrupt;
  runner.interrupt = &interrupt;
  if (options.out.empty()) {  // it is ours from here on, if another sweep begins in the same second
    runner.out = take_free_folder(spec.name);
    runner.resume_command = resume_command(options, runner.out);
  }
  if (options.check && !is_healthy(options, spec, runner)) return Exit::kRegression;
  const sweeps::SweepEnd end = sweeps::run_sweep(spec, runner);
  if (!end.interrupted && !end.file.points.empty()) add_plots(end.file, runner.out, interrupt);
  if (end.failed || unwritten || interrupt.pending()) return Exit::kFailed;
  const reports::GateSummary gates = reports::gate_summary(end.file);
  if (!gates.headline.empty()) std::cerr << fmt::format("mbench: {}\n", gates.headline);
  return gates.failed > 0 ? Exit::kRegression : Exit::kDone;
}

// How it runs, and what is kept of it.
void add_run_options(CLI::App* command, const std::shared_ptr<SweepOptions>& options) {
  command->add_flag("--resume", options->resume, "Go on with the sweep in --out");
  command->add_flag("--dry-run", options->dry_run, "List the points and their commands; run and write nothing");
  options->launch.add_to(*command);
  command
      ->add_option("--timeout", options->timeout,
                   "Kill a point after so many seconds; default 20 times its estimate, at least 600")
      ->type_name("SECONDS")
      ->check(seconds_between(0.001, 1e9));
  command
      ->add_option(
          "--collective-timeout", options->collective_timeout,
          "End a point after so many seconds without a sign of life of a rank, progress of any, or the end of a "
          "collective between GPUs. The reason names host and rank. Default 300, at most half of --timeout")
      ->type_name("SECONDS")
      ->check(seconds_between(0.001, 1e9));
  command
      ->add_option("--trace", options->trace,
                   "Write the timeline of every rank over one step to FILE, for Perfetto or "
                   "chrome://tracing; with several points, to FILE with the point's id before its extension")
      ->type_name("FILE");
  command
      ->add_option("--soak", options->soak,
                   "Train every point for so long, such as 90s, 30min or 8h, instead of its iterations. Its row has "
                   "throughput and clocks over time, with drift and dips flagged")
      ->type_name("DURATION");
  command
      ->add_option("--take-turns", options->turns,
                   "Take turns with another sweep of this machine, so that what else it does falls on both alike: K "
                   "steps each. Both "
                   "name one FOLDER; N is 1 for one of them and 2 for the other. mbench compare holds their steps "
                   "against each other "
                   "pair by pair")
      ->type_name("FOLDER,N,K");
  command
      ->add_option("--metrics", options->metrics,
                   "Keep FILE up to date with what the sweep does, once a second, as OpenMetrics text: for the "
                   "textfile collector of "
                   "Prometheus' node exporter")
      ->type_name("FILE");
  command->add_flag(
      "--check", options->check,
      "First check the ranks and the ways between them, as mbench check does, and train nothing where something "
      "stands out. The figures are kept in DIR/check.json");
  command
      ->add_option("--check-tolerance", options->check_tolerance,
                   "Of --check: how much worse than its peers a figure may be; default 10%")
      ->type_name("SHARE");
  command->add_flag("--quiet", options->quiet, "No progress: only errors, and the tables at the end");
}

}  // namespace

void add_sweep(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* command = app.add_subcommand("sweep", kSweepAbout);
  command->footer(kSweepFooter);
  command
      ->add_option("SPEC", options->spec.path,
                   "The sweep: a JSON file, or the name of one that comes with mbench; or a results.json or the folder "
                   "of a sweep or "
                   "search, whose points are run again")
      ->required();
  add_import_options(*command, options->trainer);
  command
      ->add_option("--on", options->on,
                   "Device: cpu, cuda or sim:<N>x<MACHINE>, a machine of mbench devices or the path of a machine file; "
                   "default cuda if every rank gets a GPU of its own, else cpu")
      ->type_name("DEVICE");
  command
      ->add_option("--out", options->out,
                   "Folder of the results, made if it is not there; default out/<name>-<date>-<time>")
      ->type_name("DIR");
  command
      ->add_option("--set", options->spec.set,
                   "Give a field another value, swept or not; an array sweeps over its values. May be repeated")
      ->type_name("FIELD=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option("--filter", options->spec.filter,
                   "Run the points with this value only. May be repeated: different fields must all match, of the "
                   "same field any")
      ->type_name("FIELD=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  add_run_options(command, options);
  command->callback([options, &exit] { exit.code = run(*options); });
}

}  // namespace mbench::cli
