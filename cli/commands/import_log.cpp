// mbench import-log: a trainer's log as a result file, so that report, compare, baseline and trend take it as any other.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>
#include <iostream>

#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/logged_run.h"
#include "cli/nccl_check.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/result_file.h"
#include "engine/run/flops.h"
#include "engine/sim/machine/machine.h"

namespace mbench::cli {
namespace {

constexpr const char* kImportLogAbout =
    "Writes a result file from the log of a run. Its row says who measured it; report, compare, baseline and trend "
    "take it.\n"
    "The log is of Megatron-LM (also of NeMo and Megatron-Bridge), torchtitan or DeepSpeed, has MLPerf's :::MLLOG "
    "lines, or is\n"
    "the trainer_state.json of transformers. A log of nccl-tests becomes a check file (mbench.check/1).\n"
    "SPEC says what was trained: a spec, or the script, TOML or config.json of the run; a log of Megatron-LM says it "
    "itself. The log is read line by line, - is standard input.";

constexpr const char* kImportLogFooter =
    "Examples:\n"
    "  mbench import-log train.log train.sh -o results.json && mbench report results.json\n"
    "  mbench import-log titan.log llama3_8b.toml --set dp=8 --set global_batch=8 --on H100-SXM5-80GB -o new.json\n"
    "  mbench import-log all_reduce.log --on H100-SXM5-80GB -o check.json\n"
    "  zcat train.log.gz | mbench import-log - spec.json --revision abc123 -o new.json && mbench baseline add new.json";

struct ImportLogOptions {
  std::string log, out, trainer, machine, revision, collective;
  sweeps::SpecOptions spec;
  formats::LogOptions how;
};

// When the run ended, as far as the file says it.
std::time_t time_of(const std::string& log) {
  struct stat about {};
  return log != "-" && stat(log.c_str(), &about) == 0 ? about.st_mtime : std::time(nullptr);
}

nlohmann::ordered_json environment_of(const ImportLogOptions& options, const PointResult& result) {
  nlohmann::ordered_json e = {{"device", result.device}};
  if (!options.revision.empty()) e["git_revision"] = options.revision;
  e["mbench_version"] = MBENCH_VERSION;
  e["flop_formula"] = kFlopFormula;
  e["flop_formula_version"] = kFlopFormulaVersion;
  e["started"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time_of(options.log)));
  return e;
}

void add_utilisation(const ImportLogOptions& options, PointResult& r) {
  if (!r.iteration_ms) return;
  const double seconds = r.iteration_ms->mean * 1e-3 * static_cast<double>(r.world);
  r.tflops_per_device = model_flops(r.point) / seconds * 1e-12;
  if (options.machine.empty()) return;
  const sim::Machine machine = sim::find_machine(options.machine, "--on");
  const double peak = machine.device.peak_flops[static_cast<std::size_t>(r.point.precision)];
  if (peak <= 0) return;
  r.peak_tflops = peak * 1e-12;
  r.peak_source = machine.peak_source(r.point.precision);
  r.mfu = model_flops(r.point) / seconds / peak;
  r.mfu_causal = model_flops_causal(r.point) / seconds / peak;
}

// A check file in the place of a result file.
void import_nccl(const ImportLogOptions& options, Exit& exit) {
  constexpr double kTolerance = 0.1;
  const health::Health health = health_of_nccl_log(options.log, options.collective, options.machine);
  for (const health::Finding& finding : health::judge(health, kTolerance))
    fmt::print(stderr, "{}\n", printable(finding.text));
  const std::string text = dump_json(health::to_json(health, kTolerance));
  if (options.out.empty())
    std::cout << text << std::flush;
  else if (!write_or_print(options.out, text))
    exit.code = Exit::kFailed;
}

void run(ImportLogOptions& options, Exit& exit) {
  if (options.trainer == "nccl-tests" || (options.trainer.empty() && is_nccl_log(options.log)))
    return import_nccl(options, exit);
  if (options.how.device.empty() && !options.machine.empty())
    options.how.device = sim::find_machine(options.machine, "--on").name;
  LoggedRun run = read_logged_run(options.log, options.spec, options.trainer, options.how);
  ResultFile file;
  file.spec = run.spec;
  file.points.push_back(std::move(run.result));
  add_utilisation(options, file.points.front());
  const Point& point = file.points.front().point;
  if (const auto count = known_parameter_count(point.model, point.tp)) file.points.front().parameters = *count;
  file.environment = environment_of(options, file.points.front());
  for (const std::string& note : run.notes) fmt::print(stderr, "{}\n", printable(note));
  fmt::print(stderr, "{}\n", printable(file.points.front().reason));
  if (!options.out.empty()) {
    write_result_file(options.out, file);
    return;
  }
  if (!(std::cout << result_file_text(file) << std::flush)) exit.code = Exit::kFailed;
}

}  // namespace

void add_import_log(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<ImportLogOptions>();
  CLI::App* command = app.add_subcommand("import-log", kImportLogAbout);
  command->footer(kImportLogFooter);
  command->add_option("LOG", options->log, "What the trainer wrote; - is standard input")->required();
  command->add_option(
      "SPEC", options->spec.path,
      "What was trained: a spec, or a trainer's own file; default what Megatron-LM's log says of its arguments");
  command->add_option("-o,--out", options->out, "Where the result file is written; default standard output")
      ->type_name("FILE");
  command->add_option("--on", options->machine, "The machine it ran on, for its peak: one of mbench devices")
      ->type_name("MACHINE");
  command
      ->add_option("--warmup", options->how.warmup,
                   "So many records after each start are no samples; default those that are longer")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  command
      ->add_option("--trainer", options->trainer,
                   "Whose log it is, where it has lines of several: megatron-lm, nemo, torchtitan, deepspeed, mlperf, "
                   "transformers; or nccl-tests, of standard input")
      ->type_name("NAME");
  command
      ->add_option(
          "--collective", options->collective,
          "Of a log of nccl-tests that does not say it: all_reduce, all_gather, reduce_scatter, all_to_all, send")
      ->type_name("NAME");
  command->add_option("--revision", options->revision, "Of what was run, for mbench baseline and trend")
      ->type_name("REV");
  command->add_option("--set", options->spec.set, "field=value: set a field of the point (repeatable)");
  command->add_option("--filter", options->spec.filter, "field=value: only points with that value (repeatable)");
  command->callback([options, &exit] { run(*options, exit); });
}

}  // namespace mbench::cli
