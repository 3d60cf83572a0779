// mbench export: a point as what a trainer is given to run it.
#include <fmt/format.h>

#include <iostream>

#include "cli/cli.h"
#include "cli/find_spec.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/result.h"
#include "engine/point/result_file.h"
#include "formats/formats.h"
#include "strategies/strategies.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

constexpr const char* kExportAbout =
    "Writes what a trainer is given to run a point, by --to:\n"
    "  megatron         a script of Megatron-LM\n"
    "  megatron-bridge  a ConfigContainer of Megatron-Bridge, in YAML\n"
    "  torchtitan       its TOML\n"
    "  deepspeed        its config. The training script gives the model and how its layers compute.\n"
    "  hf               the config.json of the model\n"
    "What the trainer cannot say is an error that names it. What is written is read again first, and is the same "
    "point.";

constexpr const char* kExportFooter =
    "Examples:\n"
    "  mbench export spec.json --to megatron -o train.sh\n"
    "  mbench export out/llama-3-70b-64-search-DATE-TIME --layout 2 --to megatron";

struct ExportOptions {
  sweeps::SpecOptions spec;
  std::string to, out;
  int layout = 0;  // 0: not said
};

// Those of a spec, or of a result file, in the order of its tables.
std::vector<Point> points_of(sweeps::SpecOptions spec) {
  std::vector<Point> points;
  spec.path = find_spec(spec.path);
  const std::string file = sweeps::results_file(spec.path);
  spec.json = imported_spec(file);
  if (!spec.json && spec.set.empty() && spec.filter.empty()) {
    const nlohmann::ordered_json json = parse_json(read_text_file(file), file);
    if (json.is_object() && json.contains("schema") && json.contains("points")) {
      for (const PointResult& result : read_result_file(file).points) points.push_back(result.point);
      return points;
    }
  }
  for (const sweeps::SpecPoint& point : sweeps::read_spec(spec).points) points.push_back(point.point);
  return points;
}

const Point& chosen(const std::vector<Point>& points, int layout) {
  const auto count = static_cast<int>(points.size());
  if (layout == 0 && count != 1)
    fail(ErrorKind::bad_input, "--layout", "is not given for {} points, need 1 to {}, as they stand in the table",
         count, count);
  if (layout > count) fail(ErrorKind::bad_input, "--layout", "got {}, need 1 to {}", layout, count);
  return points[static_cast<std::size_t>(layout == 0 ? 0 : layout - 1)];
}

// A layout that cannot be on any machine is none for a trainer either.
void check_feasible(const Point& point) {
  try {
    strategies::make_plan(point);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::infeasible) throw;
  }
}

}  // namespace

void add_export(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", kExportAbout);
  command->footer(kExportFooter);
  command
      ->add_option("SPEC", options->spec.path,
                   "A spec; or a results.json, or the folder of a sweep or search that has one")
      ->required();
  command->add_option("--to", options->to, "megatron, megatron-bridge, torchtitan, hf or deepspeed")
      ->type_name("TRAINER")
      ->required();
  command->add_option("--layout", options->layout, "Which point, from 1, as they stand in the table")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  command->add_option("-o,--out", options->out, "Where it is written; default standard output")->type_name("FILE");
  command->add_option("--set", options->spec.set, "field=value: set a field of every point (repeatable)");
  command->add_option("--filter", options->spec.filter, "field=value: only points with that value (repeatable)");
  command->callback([options, &exit] {
    const formats::Target target = formats::read_target(options->to, "--to");
    const std::vector<Point> points = points_of(options->spec);
    const Point& point = chosen(points, options->layout);
    check_feasible(point);
    const std::string text = formats::export_point(point, target);
    if (options->out.empty())
      std::cout << text << std::flush;
    else if (!write_or_print(options->out, text))
      exit.code = Exit::kFailed;
  });
}

}  // namespace mbench::cli
