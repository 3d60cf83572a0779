// mbench run: one point, in this MPI job. The sweep starts it; so does a person, with mpirun or srun.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/point_simulator.h"
#include "cli/cli.h"
#include "cli/commands/hosts.h"
#include "cli/environment.h"
#include "cli/heartbeat.h"
#include "cli/seconds.h"
#include "cli/trace_file.h"
#include "engine/base/atomic_file.h"
#include "engine/base/cpu_quota.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/platform/cpu_clock.h"
#include "engine/platform/cpu_energy.h"
#include "engine/platform/host_name.h"
#include "engine/platform/registry.h"
#include "engine/point/processes.h"
#include "engine/point/result_file.h"
#include "engine/process/turns.h"
#include "engine/run/gpu_peaks.h"
#include "engine/run/run_point.h"
#include "reports/records/flags.h"
#include "reports/tables/report.h"
#include "strategies/strategies.h"
#include "sweeps/run/take_turns.h"
#include "sweeps/store/session_folder.h"

namespace mbench::cli {
namespace {

constexpr const char* kRunHelp =
    "Trains one point in this MPI job and prints what it cost. Start it with as many ranks as the point's tp x pp x "
    "dp:\n"
    "  mpirun -np 8 mbench run point.json   or   srun -n 8 mbench run point.json\n"
    "A simulated point (device sim:<N>x<MACHINE>) needs no ranks.";

struct RunCommandOptions {
  std::string point;
  std::string result;
  std::string trace;
  std::string end_with;
  double collective_timeout = 300;  // seconds
  double soak = 0;                  // seconds; 0: none
  std::optional<sweeps::TakeTurns> turns;
  bool deadline = false;  // that was asked for
  bool progress = false;
};

// A spec has keys that no point has.
void refuse_spec(const nlohmann::json& json, const std::string& path) {
  for (const char* key : {"sweep", "search", "name", "tables", "published", "$schema"})
    if (json.contains(key))
      fail(ErrorKind::bad_input, path, "a spec, since it has \"{}\", need one point; mbench sweep {} runs a spec", key,
           path);
}

// A file, or the point itself, as a sweep gives it to ranks that need not see its folder.
Point read_point(const std::string& path) {
  if (path.starts_with('{')) return point_from_json(nlohmann::json(parse_json(path, "the point")), "the point: $");
  const nlohmann::json json(parse_json(read_text_file(path), path));
  refuse_spec(json, path);
  return point_from_json(json, path + ": $");
}

void print_line(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
}

void print_progress(const RunCommandOptions& options, const Progress& p) {
  const char* phase = p.warmup ? "warmup" : p.of > 0 ? "iteration" : "soak";
  if (options.progress) {
    print_line(
        {{"progress", {{"phase", phase}, {"iteration", p.iteration}, {"of", p.of}, {"ms", p.ms}, {"loss", p.loss}}}});
  } else {
    const std::string at = p.of > 0 ? fmt::format("{:>4}/{}", p.iteration, p.of) : fmt::format("{:>4}", p.iteration);
    fmt::print("{:>9} {}  {:>10.2f} ms  loss {:.5f}\n", phase, at, p.ms, p.loss);
    std::fflush(stdout);
  }
}

void print_report(const PointResult& r) {
  if (r.outcome != Outcome::ok) {
    fmt::print(stderr, "{}: {}\n", name_of(r.outcome), printable(r.reason));
    return;
  }
  ResultFile file;
  file.environment = describe_environment(r.point.device);
  file.points.push_back(r);
  reports::ReportOptions report;
  fmt::print("\n{}", reports::render_report(file, report));
}

// Tells the others what became of the point: the result file where one is wanted, else a person. What could not be written
// (a trace, `unwritten`, or that file) is said, and the record goes to standard output then: it is not measured again.
// By name, from a recording of the same plan. Where the data decide sizes it is another step, and its sum is not the peak: then no row
// has them. What was measured is handed over whether or not they can be found.
void add_tensors(const Plan& plan, PointResult& r) {
  if (!r.peak_memory_mib) return;
  try {
    std::vector<PeakTensor> tensors = sim::peak_tensors(plan);
    double sum = 0;
    for (const PeakTensor& tensor : tensors) sum += tensor.mib;
    if (std::abs(sum - *r.peak_memory_mib) * 1048576 < 0.5) r.peak_tensors_mib = std::move(tensors);
  } catch (const Error&) {
  }
}

// Why ranks had no core, where that is known: the quota of the host of rank 0.
void add_quota(PointResult& r) {
  if (reports::starved_text(r.cpu_share_by_rank).empty()) return;
  if (const auto cores = cpu_quota()) r.reason += (r.reason.empty() ? "" : "; ") + cpu_quota_text(*cores);
}

// The exit code.
int hand_over(const RunCommandOptions& options, const PointResult& r, std::string unwritten = "") {
  if (options.result.empty()) {
    print_report(r);
  } else if (options.result == "-") {
    nlohmann::ordered_json reported = {{"record", result_to_json(r)}};
    if (!unwritten.empty()) reported["unwritten"] = unwritten;
    print_line(reported);
  } else {
    try {
      write_file_atomically(options.result, dump_json(result_to_json(r)) + "\n");
    } catch (const Error& e) {
      unwritten += (unwritten.empty() ? "" : "; ") + std::string(e.what());
    }
    if (!unwritten.empty() && options.progress)
      print_line({{"record", result_to_json(r)}, {"unwritten", unwritten}});
    else if (!unwritten.empty())
      fmt::print("{}", dump_json(result_to_json(r)));
  }
  if (unwritten.empty()) return is_failure(r.outcome) ? Exit::kFailed : Exit::kDone;
  std::fflush(stdout);
  fmt::print(stderr, "mbench: {}\n", printable(unwritten));
  return Exit::kFailed;
}

// Before anything is trained, not when it is done.
void check_paths(const RunCommandOptions& options) {
  for (const std::string& path : {options.result, options.trace})
    if (!path.empty() && path != "-") check_writable(path);
}

// What MFU is held against: measured on a CPU, from its datasheet for a GPU; where none is known, MFU is n/a.
void set_peak(const Point& point, const Device& device, RunOptions& options) {
  if (point.device == "cpu") {
    const Precision precision = point.precision;
    options.measure_peak_flops = [precision](double seconds) {
      return platform::measured_peak_flops(precision, seconds);
    };
    options.peak_source =
        fmt::format("{} GEMM measured on this machine by each rank, slowest rank", name_of(precision));
  } else if (const auto peak = gpu_peak(device.name(), point.precision)) {
    options.measure_peak_flops = [flops = peak->flops](double) { return flops; };
    options.peak_source = peak->source;
  }
}

// The windows of a soak are told as they end; a GPU has sensors of its own.
void set_soak(const RunCommandOptions& options, const Point& point, RunOptions& run) {
  if (options.soak == 0) return;
  run.soak_s = options.soak;
  if (point.device == "cpu")
    run.open_gauge = [] { return platform::open_cpu_clock(); };
  else
    run.why_no_sensors = platform::why_no_gpu_sensors();
  if (options.progress)
    run.window = [](const SoakWindow& w) { print_line({{"window", soak_to_json({w.end_s, w.steps, {w}})}}); };
}

// A simulated point needs no ranks.
int simulate(const RunCommandOptions& options, const Point& point) {
  if (options.soak > 0)
    fail(ErrorKind::bad_input, "--soak", "is of real time, got it for a simulated machine, need cpu or cuda");
  api::PointSimulator simulator;
  simulator.check(point);
  check_paths(options);
  if (options.trace.empty()) return hand_over(options, simulator.run(point));
  const TracedResult traced = simulate_with_trace(simulator, point, options.trace);
  return hand_over(options, traced.result, traced.unwritten);
}

// All ranks as threads of this process. `unwritten`: why a trace could not be.
PointResult run_in_process(const RunCommandOptions& options, const Point& point, const Plan& plan,
                           std::string& unwritten) {
  PointResult result;
  platform::run_replicas(static_cast<int>(point.world()), [&](comm::World& world) {
    try {
      const auto device = platform::open_device(point.device, point.memory_limit, point.precision);
      RunOptions run_options;
      run_options.progress = [&](const Progress& p) { print_progress(options, p); };
      set_peak(point, *device, run_options);
      set_soak(options, point, run_options);
      run_options.open_energy = [] { return platform::open_cpu_energy(); };
      Timeline timeline;
      if (!options.trace.empty()) run_options.timeline = &timeline;
      PointResult mine = run_point(point, plan, *device, world, run_options);
      std::string trace;
      if (!options.trace.empty()) {
        const auto all = world.group(*device, "trace", plan.mesh.members(0, kDenseAxes));
        trace = write_trace(options.trace, timeline, 0, *all);
      }
      if (world.rank() != 0) return;
      result = std::move(mine);
      unwritten = std::move(trace);
    } catch (const Error& e) {
      fail(e.kind(), fmt::format("rank {}", world.rank()), "{}", e.what());
    }
  });
  return result;
}

// As one of the NCCL watch: this rank knows where it waits, and not for whom.
std::string reason_of_hang(int rank, const std::string& in, double limit_s) {
  return fmt::format("rank {} on {}: [mpi] no end of {} after {}: a rank has not come to it, or a link is down", rank,
                     platform::host_name(), in, format_duration(limit_s));
}

// From another thread than the one that hangs: ends this rank, and by that the job.
[[noreturn]] void give_up(const RunCommandOptions& options, const PointResult& r, bool first) {
  if (first)
    hand_over(options, r);
  else
    fmt::print(stderr, "mbench: {}\n", printable(r.reason));
  std::fflush(nullptr);
  std::_Exit(Exit::kFailed);
}

int run(const RunCommandOptions& options) {
  if (const Point point = read_point(options.point); point.simulated()) return simulate(options, point);
  if (!options.end_with.empty()) sweeps::end_with(options.end_with);
  Heartbeat heartbeat;  // ends after the job, whose end can hang too
  Deadline deadline;
  const auto job = platform::join_job(options.collective_timeout);
  const comm::World& world = job->world();
  const bool first = world.rank() == 0;
  Point point;
  Plan plan;
  // What every rank finds wrong alike, one of them says.
  try {
    point = read_point(options.point);
    if (world.size() != processes_of(point))
      fail(ErrorKind::bad_input, options.point, "ranks, got {} from the launcher, need {}", world.size(),
           processes_of(point) == point.world() ? fmt::format("tp {} x pp {} x dp {} x cp {} = {}", point.tp, point.pp,
                                                              point.dp, point.cp, point.world())
                                                : "1, whose threads are the replicas");
    if (const auto why = platform::why_not_built(point.device)) fail(ErrorKind::unsupported, "device", "{}", *why);
    plan = strategies::make_plan(point);
    if (const auto why = platform::why_unsupported_on(point.device, point))
      fail(ErrorKind::unsupported, "plan", "{}", *why);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::bad_input) {
      if (!first) return Exit::kBadInput;
      throw;
    }
    if (first) {
      check_paths(options);
      return hand_over(options, not_run(point, outcome_of(e.kind()).value_or(Outcome::crashed), e.what()));
    }
    return Exit::kDone;
  }
  // From here on an error may be this rank's alone while others wait for it: say it and end the job. The
  // device outlives what is thrown, since its end waits for the device, and one that hangs must not keep the
  // error from being told.
  std::unique_ptr<Device> device;
  JobHosts where;
  const auto reported = [&](PointResult r) {  // with where it ran
    r.hosts = where.hosts;
    r.variables = where.variables;
    return r;
  };
  try {
    if (first) check_paths(options);
    where = gather_hosts(*job, point.device);
    if (first && options.progress) print_line(reported_hosts(where, point.device));
    if (options.progress)
      heartbeat.start(job->pulse(), world.rank(), options.collective_timeout);
    else if (options.deadline && point.device == "cpu")
      deadline.start(job->pulse(), options.collective_timeout, [&](const std::string& in) {
        const std::string why = reason_of_hang(world.rank(), in, options.collective_timeout);
        give_up(options, reported(not_run(point, Outcome::timeout, why)), first);
      });
    if (first) check_ranks_per_node(where.hosts, point.ranks_per_node);
    if (plan.single_process) {
      std::string unwritten;
      PointResult result = run_in_process(options, point, plan, unwritten);
      add_tensors(plan, result);
      add_quota(result);
      return hand_over(options, reported(result), unwritten);
    }
    device = job->open_device(point.device, point.memory_limit, point.precision);
    plan.precision.turned_fp8 = device->multiplies_turned_fp8();
    comm::World& devices = job->world_of(*device);
    RunOptions run_options;
    run_options.progress = [&](const Progress& p) { print_progress(options, p); };
    set_peak(point, *device, run_options);
    set_soak(options, point, run_options);
    run_options.open_energy = [&] { return job->open_energy(); };
    if (point.device == "cuda") run_options.watch_faults = [&] { return job->watch_faults(); };
    std::optional<process::Turns> turns;
    if (options.turns) {
      turns.emplace(options.turns->folder, options.turns->number);
      run_options.turns = {options.turns->steps, [&] { turns->pass(); }, [&] { turns->wait(); }};
    }
    Timeline timeline;
    if (!options.trace.empty()) run_options.timeline = &timeline;
    PointResult result = reported(run_point(point, plan, *device, devices, run_options));
    if (first) {
      add_tensors(plan, result);
      add_quota(result);
    }
    std::string unwritten;
    if (!options.trace.empty()) {
      const auto all = devices.group(*device, "trace", plan.mesh.members(0, kDenseAxes));
      unwritten = write_trace(options.trace, timeline, plan.mesh.coordinate(world.rank(), Axis::pp), *all);
    }
    if (first) return hand_over(options, result, unwritten);
    return is_failure(result.outcome) ? Exit::kFailed : Exit::kDone;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::bad_input) {
      if (first) fmt::print(stderr, "mbench: {}\n", printable(e.what()));
      job->abort(Exit::kBadInput);
    }
    const Outcome outcome = outcome_of(e.kind()).value_or(Outcome::crashed);
    const std::string reason = world.size() > 1 ? fmt::format("rank {}: {}", world.rank(), e.what()) : e.what();
    const int code = hand_over(options, reported(not_run(point, outcome, reason)));
    if (world.size() > 1) job->abort(code);  // the other ranks wait for this one
    return code;
  }
}

}  // namespace

void add_run(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* command = app.add_subcommand("run", kRunHelp);
  command
      ->add_option("POINT", options->point,
                   "The point: a file with a JSON object of the fields of a spec, or that object itself")
      ->required();
  command->add_option(
      "--result", options->result,
      "Write the point's record to this file instead of printing it; -: as a line of JSON on standard output");
  command
      ->add_option("--trace", options->trace,
                   "Write the timeline of every rank over one step to FILE, for Perfetto or "
                   "chrome://tracing")
      ->type_name("FILE");
  command
      ->add_option("--collective-timeout", options->collective_timeout,
                   "After so many seconds a collective or message that has not ended hangs: the point ends as timeout, "
                   "naming it. Between "
                   "GPUs, by default 300; between CPUs, where a rank may compute for minutes, if it is given. A sweep "
                   "watches its ranks itself")
      ->type_name("SECONDS")
      ->check(seconds_between(0.001, 1e9));
  command
      ->add_option_function<std::string>(
          "--soak", [options](const std::string& text) { options->soak = parse_duration(text, "--soak"); },
          "Measure for so long, such as 90s, 30min or 8h, in place of the point's iterations")
      ->type_name("DURATION");
  command
      ->add_option_function<std::string>(
          "--take-turns", [options](const std::string& text) { options->turns = sweeps::read_take_turns(text); },
          "Take turns with the ranks of another sweep, which has the lock of N in FOLDER: K steps each (mbench sweep "
          "--take-turns)")
      ->type_name("FOLDER,N,K");
  command->add_flag("--progress", options->progress, "Print progress as JSON lines, for a program that reads them");
  command
      ->add_option(
          "--end-with", options->end_with,
          "End within seconds of the end of the program that holds the lock of FOLDER: the sweep that started this")
      ->type_name("FOLDER");
  command->callback([options, command, &exit] {
    options->deadline = command->count("--collective-timeout") > 0;
    exit.code = run(*options);
  });
}

}  // namespace mbench::cli
