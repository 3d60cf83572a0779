// mbench explain: a measured step beside the simulated one: the gap, and what could hold it.
#include "explain/explain.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "api/point_simulator.h"
#include "cli/cli.h"
#include "cli/find_spec.h"
#include "cli/logged_run.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/result_file.h"
#include "explain/trace.h"

namespace mbench::cli {
namespace {

constexpr const char* kExplainAbout =
    "Is a measured step as fast as it should be, and where is the rest? Simulates the same step and prints measured, "
    "expected with its interval, the gap, and\n"
    "what could hold it, most likely first, each with what would confirm it. RUN is a result file (of mbench run, "
    "sweep or import-log), the folder of one, or\n"
    "the log of a trainer. SPEC says what was trained, where RUN does not or says it wrongly: a spec, or the run's own "
    "script, TOML or config.json.";

constexpr const char* kExplainFooter =
    "Examples:\n"
    "  mbench explain train.log --on sim:64xH100-SXM5-80GB\n"
    "  mbench explain titan.log llama3_8b.toml --set dp=8 --set global_batch=8 --on sim:8xH100-SXM5-80GB\n"
    "  mbench explain results.json --on sim:8xA100-SXM4-80GB --trace rank0.pt.trace.json\n"
    "  zcat rank0.json.gz | mbench explain train.log --on sim:8xH100-SXM5-80GB --trace -";

struct ExplainOptions {
  std::string run, on, trainer, trace, out;
  int steps = 0;
  sweeps::SpecOptions spec;
  formats::LogOptions how;
};

bool is_results(const std::string& path) {
  if (path == "-") return false;
  if (std::filesystem::is_directory(path)) return true;
  std::ifstream in(path, std::ios::binary);
  std::string begin(4096, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  return begin.find("\"mbench.results/") != std::string::npos;
}

// As its spec says it, where there is one, or as the file has it.
Point point_of(const ExplainOptions& options, const Point& measured) {
  if (options.spec.path.empty() && options.spec.set.empty()) return measured;
  sweeps::SpecOptions spec = options.spec;
  if (spec.path.empty()) {
    spec.path = options.run;
    spec.json = point_to_json(measured);
    for (const char* of_the_run : {"device", "strategy"}) spec.json->erase(of_the_run);
  } else {
    find_and_import(spec);
  }
  const sweeps::Spec read = sweeps::read_spec(spec);
  if (read.points.size() != 1)
    fail(ErrorKind::bad_input, spec.path, "a run is of one point, got a spec of {}, need one: --set field=value",
         read.points.size());
  return read.points.front().point;
}

// The one row of a result file, or that which --filter leaves.
PointResult row_of(const ExplainOptions& options) {
  const std::string file = sweeps::results_file(options.run);
  std::vector<PointResult> rows;
  for (PointResult& row : read_result_file(file).points) {
    const nlohmann::ordered_json fields = point_to_json(row.point);
    const bool wanted =
        std::all_of(options.spec.filter.begin(), options.spec.filter.end(), [&](const std::string& text) {
          const std::size_t equals = text.find('=');
          const auto field = fields.find(text.substr(0, equals));
          if (equals == std::string::npos || field == fields.end())
            fail(ErrorKind::bad_input, "--filter " + text, "no field of a point, need field=value");
          return word_of(nlohmann::json(*field)) == text.substr(equals + 1);
        });
    if (wanted) rows.push_back(std::move(row));
  }
  if (rows.size() != 1)
    fail(ErrorKind::bad_input, file, "a run is one row, got {}, need one: --filter field=value", rows.size());
  if (rows[0].simulated) fail(ErrorKind::bad_input, file, "is simulated, need a measured run");
  rows[0].point = point_of(options, rows[0].point);
  return rows[0];
}

PointResult measured_run(const ExplainOptions& options, std::string& where) {
  if (is_results(options.run)) {
    PointResult row = row_of(options);
    where =
        row.measured_by.empty() ? fmt::format("by mbench on {}", row.device) : fmt::format("by {}", row.measured_by);
    return row;
  }
  LoggedRun run = read_logged_run(options.run, options.spec, options.trainer, options.how);
  for (const std::string& note : run.notes) fmt::print(stderr, "{}\n", printable(note));
  where = fmt::format("{}", run.result.reason.substr(run.result.reason.find("by ")));
  return std::move(run.result);
}

std::optional<explain::MeasuredParts> parts_of(const ExplainOptions& options, const PointResult& measured) {
  if (options.trace.empty()) return explain::parts_of(measured);
  const explain::TraceOptions how{options.steps, measured.point.pp > 1};
  if (options.trace == "-") return explain::read_trace(std::cin, "standard input", how);
  std::ifstream in(options.trace, std::ios::binary);
  if (!in) fail(ErrorKind::bad_input, options.trace, "cannot be read");
  return explain::read_trace(in, options.trace, how);
}

void run(ExplainOptions& options, Exit& exit) {
  if (!options.on.starts_with("sim:"))
    fail(ErrorKind::bad_input, "--on", "is the simulated machine, got \"{}\", need sim:<N>x<MACHINE>", options.on);
  const std::string device = device_asked(options.on);
  std::string where;
  const PointResult measured = measured_run(options, where);
  if (!measured.iteration_ms)
    fail(ErrorKind::bad_input, options.run, "has no time of a step, got outcome {}: {}", name_of(measured.outcome),
         measured.reason);
  api::PointSimulator simulator;
  Point point = measured.point;
  point.device = device;
  simulator.check(point);
  const PointResult expected = simulator.simulate(point).result;
  const int inside = simulator.machine_of(point).node.devices;
  const explain::Run compared{measured, expected, parts_of(options, measured), inside};
  const auto simulate = [&](const Point& other) -> std::optional<PointResult> {
    PointResult result = simulator.run(other);
    return result.iteration_ms ? std::optional(std::move(result)) : std::nullopt;
  };
  const std::string text =
      explain::explain(compared, explain::interval_of(explain::kind_of(point, inside)), where, simulate);
  if (options.out.empty())
    std::cout << text << std::flush;
  else if (!write_or_print(options.out, text))
    exit.code = Exit::kFailed;
}

}  // namespace

void add_explain(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", kExplainAbout);
  command->footer(kExplainFooter);
  command
      ->add_option("RUN", options->run,
                   "A result file or its folder, or the log of a trainer; - is a log on standard input")
      ->required();
  command->add_option("SPEC", options->spec.path, "What was trained; default what RUN says");
  command->add_option("--on", options->on, "The machine, and how many of its devices: sim:<N>x<MACHINE>")
      ->type_name("DEVICE")
      ->required();
  command
      ->add_option(
          "--trace", options->trace,
          "A trace of a step on one device: of torch.profiler (Kineto), or of mbench --trace; - is standard input")
      ->type_name("FILE");
  command
      ->add_option("--trace-steps", options->steps,
                   "How many steps the trace has, where it does not mark them (ProfilerStep#N)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--warmup", options->how.warmup, "Of a log: so many records after each start are no samples")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  command->add_option("--trainer", options->trainer, "Whose log it is, where it has lines of several")
      ->type_name("NAME");
  command->add_option("--set", options->spec.set, "field=value: set a field of the point (repeatable)");
  command->add_option("--filter", options->spec.filter,
                      "field=value: only rows or points with that value (repeatable)");
  command->add_option("-o,--out", options->out, "Where the answer is written; default standard output")
      ->type_name("FILE");
  command->callback([options, &exit] { run(*options, exit); });
}

}  // namespace mbench::cli
