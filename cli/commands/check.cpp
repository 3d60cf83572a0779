// mbench check: what the ranks of a job and the ways between them reach, and which of them stand out.
#include "cli/commands/check.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/check_files.h"
#include "cli/cli.h"
#include "cli/commands/hosts.h"
#include "cli/find_spec.h"
#include "cli/launch.h"
#include "cli/reported_by_ranks.h"
#include "cli/seconds.h"
#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/platform/fp64_gemm.h"
#include "engine/platform/registry.h"
#include "engine/point/processes.h"
#include "engine/process/process.h"
#include "health/expected.h"
#include "health/measure.h"
#include "health/report.h"
#include "health/signature.h"
#include "strategies/strategies.h"
#include "sweeps/spec/spec.h"
#include "sweeps/store/session_folder.h"

namespace mbench::cli {
namespace {

constexpr const char* kCheckHelp =
    "Measures every rank (GEMMs by precision, memory bandwidth, what a launch costs) and collectives between them.\n"
    "Looks at their data, and names by host, device and rank what is worse than its peers:\n"
    "  mpirun -np 8 mbench check   or   mbench check --ranks 8   or   mbench check quickstart --ranks 4\n"
    "With a spec, collectives are measured over the axes of its points too.";

constexpr const char* kCheckFooter =
    "Bandwidths are counted as nccl-tests counts them. Peers are the other ranks, or the other groups of a scope that "
    "lie\n"
    "over as many hosts; they are compared at the largest size.\n"
    "Exit codes: 0 nothing stands out; 1 something does, or gave wrong data; 2 bad usage or bad input; 3 ranks could "
    "not be\n"
    "started, hung or crashed.";

struct CheckOptions {
  std::string spec, device, tolerance = "10%", machine, format = "md", result, largest, end_with;
  std::vector<std::string> meshes, fleet, rules;
  int ranks = 0, repeat = 1;
  double timeout = 600;
  bool reported = false, quiet = false;
  LaunchOptions launch;
};

constexpr std::int64_t kMostRanks = 1 << 20;  // as of --ranks

constexpr Axis kMeshAxes[] = {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::etp, Axis::ep, Axis::dp_replicate};

std::string text_of(const Mesh& mesh) {
  std::string text;
  for (const Axis axis : kMeshAxes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name_of(axis), mesh.size(axis));
  return text;
}

// "tp=2,dp=4".
Mesh read_mesh(const std::string& text) {
  Mesh mesh;
  std::vector<std::string> names;
  for (const Axis axis : kMeshAxes) names.emplace_back(name_of(axis));
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    const std::size_t equal = item.find('=');
    const auto axis = std::find(names.begin(), names.end(), item.substr(0, equal));
    if (axis == names.end() || equal == std::string::npos)
      fail(ErrorKind::bad_input, "--mesh", "not the size of an axis, got \"{}\", {}", item,
           nearest_choice(item.substr(0, equal), names));
    int size = 0;
    const auto [last, error] = std::from_chars(item.data() + equal + 1, item.data() + item.size(), size);
    if (error != std::errc{} || last != item.data() + item.size() || size < 1 || size > kMostRanks)
      fail(ErrorKind::bad_input, "--mesh", "not a number of ranks, got \"{}\", need 1 or more", item);
    mesh.resize(kMeshAxes[axis - names.begin()], size);
    at = end + 1;
  }
  std::int64_t ranks = 1, experts = 1;
  for (const Axis axis : kDenseAxes.list()) ranks = std::min(ranks * mesh.size(axis), kMostRanks + 1);
  for (const Axis axis : {Axis::etp, Axis::ep, Axis::dp_replicate, Axis::pp})
    experts = std::min(experts * mesh.size(axis), kMostRanks + 1);
  if (ranks > kMostRanks || experts > kMostRanks)
    fail(ErrorKind::bad_input, "--mesh", "more ranks than a job has, got \"{}\", need {} at most", text, kMostRanks);
  if (mesh.world() % mesh.size({Axis::etp, Axis::ep, Axis::dp_replicate, Axis::pp}) != 0)
    fail(ErrorKind::bad_input, "--mesh", "etp x ep x dp_replicate x pp must divide the ranks, got \"{}\"", text);
  return mesh;
}

// `ranks`: of the job. A mesh that was asked for by name needs as many; a point of the spec that has more is left out.
std::vector<Mesh> wanted_meshes(const CheckOptions& options, std::int64_t ranks) {
  std::vector<Mesh> meshes;
  for (const std::string& text : options.meshes) {
    meshes.push_back(read_mesh(text));
    if (!options.reported && meshes.back().world() > ranks)
      fail(ErrorKind::bad_input, "--mesh",
           "\"{}\" has {} ranks, got a job of {}, need a job of as many, or a smaller mesh", text,
           meshes.back().world(), ranks);
  }
  if (options.spec.empty()) return meshes;
  sweeps::SpecOptions spec;
  spec.path = options.spec;
  find_and_import(spec);
  spec.device = options.device;
  std::vector<Point> points;
  for (const sweeps::SpecPoint& p : sweeps::read_spec(spec).points) points.push_back(p.point);
  const std::vector<Mesh> more = meshes_of(points);
  meshes.insert(meshes.end(), more.begin(), more.end());
  return meshes;
}

std::int64_t largest_of(const CheckOptions& options) {
  if (options.largest.empty()) return options.device == "cuda" ? std::int64_t{256} << 20 : std::int64_t{16} << 20;
  const std::uint64_t bytes = parse_bytes(options.largest, "--largest");
  if (bytes < 4 || bytes > std::uint64_t{1} << 40)
    fail(ErrorKind::bad_input, "--largest", "got {}, need from 4 bytes to 1 TiB", options.largest);
  return static_cast<std::int64_t>(bytes);
}

// Each rank's device as its host calls it.
std::vector<std::string> devices_of(const std::vector<Host>& hosts, const std::string& kind, int ranks) {
  std::vector<std::string> devices(static_cast<std::size_t>(ranks), kind);
  for (const Host& h : hosts)
    for (std::size_t i = 0; i < h.ranks.size(); ++i)
      if (!h.gpus.empty()) devices.at(static_cast<std::size_t>(h.ranks[i])) = h.gpus[i % h.gpus.size()];
  return devices;
}

FleetRequest fleet_of(const CheckOptions& options) {
  return {options.fleet, options.rules, read_tolerance(options.tolerance, "--tolerance"), options.format,
          options.result};
}

// What the ranks of this job find; complete on rank 0.
health::Health check_here(const CheckOptions& options, platform::Job& job) {
  health::Health health;
  const JobHosts where = gather_hosts(job, options.device);
  health.device = options.device;
  health.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  health.hosts = where.hosts;
  health.devices = devices_of(where.hosts, options.device, job.world().size());
  const std::vector<Mesh> meshes = wanted_meshes(options, job.world().size());
  const auto device = job.open_device(options.device, 0, Precision::f32);
  comm::World& world = job.world_of(*device);
  health::MeasureOptions measure;
  measure.sizes = health::sizes_up_to(largest_of(options));
  measure.fp64_gemm = platform::fp64_gemm_on(options.device);
  if (!options.quiet && !options.reported)
    measure.progress = [](const std::string& what) { fmt::print(stderr, "check: {}\n", what); };
  const auto faults = job.watch_faults();
  std::vector<health::Health> repeats;
  for (int i = 0; i < options.repeat; ++i) {
    health.figures = health::measure(*device, world, health::scopes_of(world.size(), meshes), measure);
    repeats.push_back(health);
  }
  health::Health merged = health::merge_repeats(repeats);
  if (options.device == "cuda") {
    std::vector<int> everyone(static_cast<std::size_t>(world.size()));
    std::iota(everyone.begin(), everyone.end(), 0);
    merged.signatures = health::gather_signatures(*world.group(*device, "signatures", everyone),
                                                  faults ? faults->read() : DeviceSignature());
  }
  return merged;
}

// Prints what was found; the exit code.
int report(const CheckOptions& options, health::Health health) {
  if (!options.machine.empty()) health::expect(health, options.machine, "--expect");
  const double tolerance = read_tolerance(options.tolerance, "--tolerance");
  const std::string json = dump_json(health::to_json(health, tolerance)) + "\n";
  std::cout << (options.format == "json"    ? json
                : options.format == "junit" ? health::to_junit(health, tolerance)
                                            : health::to_markdown(health, tolerance))
            << std::flush;
  if (!options.result.empty() && !write_or_print(options.result, json, options.format == "json")) return Exit::kFailed;
  bool fell_out = false;
  if (!options.fleet.empty())
    for (const std::string& line : against_fleet(fleet_of(options), health)) {
      fmt::print(options.format == "md" ? stdout : stderr, "{}\n", printable(line));
      fell_out = true;
    }
  if (!options.fleet.empty() && !fell_out && options.format == "md")
    fmt::print("Nothing falls out of the fleet: {}.\n", printable(options.fleet.front()));
  return health::judge(health, tolerance).empty() && health::faults_of(health).empty() && !fell_out ? Exit::kDone
                                                                                                    : Exit::kRegression;
}

// As a rank of a job.
int run_as_rank(const CheckOptions& options) {
  if (!options.end_with.empty()) sweeps::end_with(options.end_with);
  const auto job = platform::join_job(300);
  const bool first = job->world().rank() == 0;
  try {
    const health::Health health = check_here(options, *job);
    if (!first) return Exit::kDone;
    if (!options.reported) return report(options, health);
    tell_as_rank(health::to_json(health, 1));
    return Exit::kDone;
  } catch (const Error& e) {
    if (job->world().size() == 1) throw;
    fmt::print(stderr, "mbench: rank {}: {}\n", job->world().rank(), printable(e.what()));
    std::fflush(stderr);
    job->abort(exit_code_of(e.kind()));  // the others wait for this one
    throw;                               // not reached, which GCC does not see at -O1
  }
}

int run(CheckOptions options) {
  if (options.fleet.empty() && !options.rules.empty())
    fail(ErrorKind::bad_input, "--rule", "is of a fleet, got no --fleet, need --fleet FILE");
  if (!options.fleet.empty() && makes_fleet(fleet_of(options))) return run_fleet(fleet_of(options));
  // Before any thread begins, which would take a signal that only the first one blocks. What is a rank itself ends as its launcher wants.
  std::optional<process::Interrupt> interrupt;
  if (options.ranks > 0) interrupt.emplace();
  if (options.device.empty()) options.device = platform::gpus().empty() ? "cpu" : "cuda";
  if (const auto why = platform::why_not_built(options.device))
    fail(ErrorKind::unsupported, "--on", "{}, got {}, need cpu", *why, options.device);
  // What is wrong with what was asked for is said before anything is measured.
  read_tolerance(options.tolerance, "--tolerance");
  if (!options.machine.empty()) sim::find_machine(options.machine, "--expect");
  if (!options.result.empty()) check_writable(options.result);
  CheckRequest request;
  request.largest = largest_of(options);
  if (options.ranks == 0) return run_as_rank(options);
  request.meshes = wanted_meshes(options, options.ranks);
  request.device = options.device;
  request.ranks = options.ranks;
  request.repeat = options.repeat;
  request.timeout_s = options.timeout;
  return report(options, check_ranks(request, find_launcher(options.launch), &*interrupt));
}

}  // namespace

health::Health check_ranks(const CheckRequest& request, const sweeps::Launcher& launcher,
                           process::Interrupt* interrupt) {
  RankJob job;
  job.command = "check";
  job.arguments = {"--reported", "--on", request.device};
  for (const Mesh& mesh : request.meshes) job.arguments.insert(job.arguments.end(), {"--mesh", text_of(mesh)});
  if (request.repeat > 1) job.arguments.insert(job.arguments.end(), {"--repeat", std::to_string(request.repeat)});
  if (request.largest > 0) job.arguments.insert(job.arguments.end(), {"--largest", std::to_string(request.largest)});
  job.device = request.device;
  job.ranks = request.ranks;
  job.timeout_s = request.timeout_s;
  job.interrupt = interrupt;
  health::Health reported =
      health::health_from_json(nlohmann::json(reported_by_ranks(job, launcher)), "mbench check: $.reported");
  if (reported.devices.size() == static_cast<std::size_t>(request.ranks)) return reported;
  fail(ErrorKind::launch_failed, launcher.program,
       "starts jobs of {} ranks, need one of {}: it is another MPI's, or speaks another PMI than this program",
       reported.devices.size(), request.ranks);
}

std::vector<Mesh> meshes_of(const std::vector<Point>& points) {
  std::vector<Mesh> meshes;
  std::vector<std::string> known;
  for (const Point& point : points) {
    if (point.replicas == Replicas::single_process) continue;
    try {
      const Mesh mesh = strategies::make_plan(point).mesh;
      if (std::find(known.begin(), known.end(), text_of(mesh)) != known.end()) continue;
      known.push_back(text_of(mesh));
      meshes.push_back(mesh);
    } catch (const Error& e) {
      if (!outcome_of(e.kind())) throw;  // a point that cannot be is a row of the sweep
    }
  }
  return meshes;
}

void cover(CheckRequest& request, const std::vector<sweeps::SpecPoint>& points) {
  std::vector<Point> all;
  for (const sweeps::SpecPoint& p : points) {
    request.ranks = std::max(request.ranks, static_cast<int>(processes_of(p.point)));
    all.push_back(p.point);
  }
  request.meshes = meshes_of(all);
}

double read_tolerance(const std::string& text, const std::string& where) {
  const bool percent = text.ends_with('%');
  double x = 0;
  const char* end = text.data() + text.size() - (percent ? 1 : 0);
  const auto [last, error] = std::from_chars(text.data(), end, x);
  if (percent) x /= 100;
  if (error != std::errc{} || last != end || !(x > 0 && x < 1))
    fail(ErrorKind::bad_input, where, "not a share between 0 and 1, got \"{}\", need one such as 10% or 0.1", text);
  return x;
}

void add_check(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", kCheckHelp);
  command->footer(kCheckFooter);
  command->add_option("SPEC", options->spec, "A sweep: collectives are measured over the axes of its points too");
  command
      ->add_option("--ranks", options->ranks,
                   "Start so many ranks; default: this process is a rank of the job that a launcher started")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--on", options->device, "cpu or cuda; default cuda where there is a GPU")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option(
          "--mesh", options->meshes,
          "Measure collectives over the axes of this mesh too, such as tp=2,dp=4: tp, cp, dp, pp, etp, ep. May be "
          "repeated")
      ->type_name("SIZES")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option("--fleet", options->fleet,
                   "Check files of many nodes: measure nothing, say who falls out, and write the fleet to --result. Or "
                   "one such fleet: hold what is measured against it too")
      ->type_name("FILE")
      ->expected(1, 1 << 20);
  command
      ->add_option("--rule", options->rules,
                   "What makes a node fall out of a fleet: memory@5%, or \"2 of memory,launch@5%\", or \"2 of *@3%\". "
                   "May be repeated; default *@ the tolerance")
      ->type_name("RULE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option("--repeat", options->repeat,
                   "Measure so often: a figure is their median, and an outlier is out in two of three")
      ->type_name("N")
      ->check(CLI::Range(1, 99));
  command
      ->add_option("--tolerance", options->tolerance,
                   "How much worse than its peers, or than what is expected, a figure may be; default 10%")
      ->type_name("SHARE");
  command
      ->add_option("--expect", options->machine,
                   "A machine that can be simulated, by name or file: its figures stand next to those measured, which "
                   "may not be "
                   "below them")
      ->type_name("MACHINE");
  command
      ->add_option(
          "--largest", options->largest,
          "The largest size of collectives, such as 64MiB; default 16 MiB, on GPUs 256 MiB. They begin at 4 KiB")
      ->type_name("BYTES");
  command->add_option("--format", options->format, "md, json or junit; default md")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"md", "json", "junit"}));
  command->add_option("--result", options->result, "Write the figures to FILE as JSON too")->type_name("FILE");
  command
      ->add_option("--timeout", options->timeout, "End ranks that --ranks started after so many seconds; default 600")
      ->type_name("SECONDS")
      ->check(seconds_between(0.001, 1e9));
  command->add_flag("--quiet", options->quiet, "No progress");
  command->add_flag("--reported", options->reported, "A line of JSON, for the program that started the ranks")
      ->group("");
  command->add_option("--end-with", options->end_with, "")->group("");  // as of run
  options->launch.add_to(*command);
  command->callback([options, &exit] { exit.code = run(*options); });
}

}  // namespace mbench::cli
