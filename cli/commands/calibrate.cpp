// mbench calibrate: this machine, measured and written down as one that can be simulated. What takes several ranks is measured
// by jobs of this program, started as a sweep starts those of its points.
#include "engine/platform/calibrate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <memory>

#include "cli/calibrate_tables.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/launch.h"
#include "cli/reported_by_ranks.h"
#include "cli/seconds.h"
#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "engine/base/machine_memory.h"
#include "engine/process/process.h"
#include "engine/run/gpu_peaks.h"
#include "engine/sim/machine/machine.h"
#include "sweeps/store/session_folder.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kCalibrateHelp =
    "Measures this machine and writes it to FILE (default machine.json), which can be simulated: --on sim:<N>xFILE.\n"
    "GEMMs by shape, memory, the engine's ops, launches, and communication by size are measured.\n"
    "It runs as many ranks as the machine has cores or GPUs, and fewer. About a minute, in which nothing else should "
    "run.";

constexpr const char* kInterrupted = "interrupted, need it to go on to the end: nothing was written";

struct CalibrateOptions {
  std::string file = "machine.json", device, end_with;
  int ranks = 0;
  double timeout = 1200;
  bool quick = false, reported = false;
  LaunchOptions launch;
};

std::string where_of(const std::string& device, int cores) {
  const auto e = describe_environment(device);
  const std::string what = device == "cpu"
                               ? fmt::format("{}, {} cores", e.at("cpu").get<std::string>(), cores)
                               : fmt::format("{} x {}", platform::gpus().size(), platform::gpus().front().name);
  return fmt::format("{}, {:%Y-%m-%d}", what, fmt::gmtime(std::time(nullptr)));
}

// One rank of a job that this program started: rank 0 tells what all have measured.
void measure(const CalibrateOptions& options) {
  if (!options.end_with.empty()) sweeps::end_with(options.end_with);
  const auto job = platform::join_job(300);
  const MeasuredTables tables = measure_tables(*job, {options.device, options.quick});
  if (job->world().rank() != 0) return;
  tell_as_rank(
      {{"measured", sim::measured_to_json(tables.measured, "a job of calibrate")}, {"host_speed", tables.host_speed}});
}

struct Part {
  sim::Measured measured;
  double host_speed = 0;
};

Part measure_with(int ranks, const CalibrateOptions& options, const sweeps::Launcher& launcher,
                  process::Interrupt& interrupt) {
  RankJob job;
  job.command = "calibrate";
  job.arguments = {"--reported", "--on", options.device};
  if (options.quick) job.arguments.push_back("--quick");
  job.device = options.device;
  job.ranks = ranks;
  job.timeout_s = options.timeout;
  job.interrupt = &interrupt;
  job.if_interrupted = kInterrupted;
  const ordered_json all = reported_by_ranks(job, launcher);
  return {sim::measured_from_json(nlohmann::json(all.at("measured")), "mbench calibrate"),
          all.at("host_speed").get<double>()};
}

// A spec, or whatever else has that name, is not lost to a machine: only an earlier machine is written over.
void check_replaceable(const std::string& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored) || (fs::is_regular_file(file, ignored) && fs::file_size(file, ignored) == 0)) return;
  if (!fs::is_regular_file(file, ignored)) return;  // a folder is refused as one; a device or a pipe loses nothing
  try {
    sim::machine_from_json(parse_json(read_text_file(file), file), file);
  } catch (const Error&) {
    fail(ErrorKind::bad_input, "calibrate " + file,
         "is there and is no machine's, got a file of {} bytes, need the name of a new one, such as {}",
         fs::file_size(file, ignored), fs::path(file).replace_filename("my-machine.json").string());
  }
}

int calibrate(CalibrateOptions options) {
  const auto folder = fs::path(options.file).parent_path();
  if (!folder.empty() && !fs::is_directory(folder))
    fail(ErrorKind::bad_input, "calibrate " + options.file, "no such folder, got \"{}\", need one that is there",
         folder.string());
  check_replaceable(options.file);
  check_writable(options.file);
  // Before any thread begins, which would take a signal that only the first one blocks; never destroyed, as a sweep's.
  process::Interrupt& interrupt = *new process::Interrupt;
  if (options.device.empty()) options.device = platform::gpus().empty() ? "cpu" : "cuda";
  if (const auto why = platform::why_not_built(options.device)) fail(ErrorKind::unsupported, "--on", "{}", *why);
  const bool cpu = options.device == "cpu";
  const sweeps::Launcher launcher = find_launcher(options.launch);
  const int most = options.ranks > 0 ? options.ranks : cpu ? launcher.cores : static_cast<int>(platform::gpus().size());
  RankJob all_ranks;
  all_ranks.device = options.device;
  all_ranks.ranks = most;
  check_ranks_can_start(all_ranks, launcher);
  platform::CalibrationOptions alone;
  alone.seconds = options.quick ? 1 : 3;
  alone.cores = launcher.cores;
  alone.memory_bytes = physical_memory();
  alone.between = [&] {
    if (interrupt.pending()) fail(ErrorKind::launch_failed, "calibrate", "{}", kInterrupted);
  };
  alone.measured_on = cpu || !platform::gpus().empty() ? where_of(options.device, launcher.cores) : "no GPU";
  ordered_json m = cpu ? platform::calibrate_cpu(alone)
                       : platform::calibrate_gpu(alone, [](const std::string& name, Precision precision) {
                           const auto peak = gpu_peak(name, precision);
                           return peak ? peak->flops : 0;
                         });
  std::vector<int> counts;
  for (int k = 1; k < most; k *= 2) counts.push_back(k);
  counts.push_back(most);
  sim::Measured all;
  double speed = 0;
  for (const int ranks : counts) {
    alone.between();
    fmt::print("measuring with {} rank{} of {}\n", ranks, ranks == 1 ? "" : "s", most);
    std::fflush(stdout);
    Part part = measure_with(ranks, options, launcher, interrupt);
    all.by_ranks.push_back(std::move(part.measured.by_ranks.at(0)));
    all.calls = std::move(part.measured.calls);  // those of the most ranks stand: they share what they go through
    all.progress_in_calls = part.measured.progress_in_calls;
    speed = part.host_speed;
  }
  const std::string measured = "measured by mbench calibrate on " + alone.measured_on;
  m["name"] = fs::path(options.file).stem().string();
  if (speed > 0)
    m["host"]["speed"] = {{"value", std::stod(fmt::format("{:.4g}", speed))},
                          {"source", measured + ": what steps of small models took in addition to their ops"}};
  m["measured"] = sim::measured_to_json(all, measured);
  const std::string text = dump_json(m);
  sim::machine_from_json(parse_json(text, options.file), options.file);
  if (!write_or_print(options.file, text)) return Exit::kFailed;
  fmt::print("{}: {}\nTo simulate it: --on sim:<N>x{}\n", options.file, alone.measured_on,
             options.file.find('/') == std::string::npos && !options.file.ends_with(".json") ? "./" + options.file
                                                                                             : options.file);
  return Exit::kDone;
}

}  // namespace

void add_calibrate(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand("calibrate", kCalibrateHelp);
  command->add_option("FILE", options->file, "The machine file that is written");
  command->add_option("--on", options->device, "cpu or cuda; default cuda where there is a GPU")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--ranks", options->ranks, "The most ranks; default the cores or GPUs of this host")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--quick", options->quick, "Coarser tables, in some seconds: for a first look");
  command
      ->add_option("--timeout", options->timeout, "End the ranks of a measurement after so many seconds; default 1200")
      ->type_name("SECONDS")
      ->check(seconds_between(0.001, 1e9));
  command->add_flag("--reported", options->reported, "")->group("");  // of the ranks that it starts
  command->add_option("--end-with", options->end_with, "")->group("");
  options->launch.add_to(*command);
  command->callback([options, &exit] {
    if (options->reported)
      measure(*options);
    else
      exit.code = calibrate(*options);
  });
}

}  // namespace mbench::cli
