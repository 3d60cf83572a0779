// mbench compare NEW --baseline OLD: did anything get slower, larger or wrong.
#include "reports/compare.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/cli.h"
#include "engine/api/result.h"
#include "reports/compare_report.h"

namespace mbench::cli {
namespace {

struct Arguments {
  std::string result, baseline, format = "md";
  std::vector<std::string> thresholds;
};

}  // namespace

void add_compare(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("compare", "Compare results with a baseline; exit 1 on a regression");
  auto args = std::make_shared<Arguments>();
  command->add_option("NEW", args->result, "Result file to judge")->required();
  command->add_option("--baseline", args->baseline, "Result file to judge it by")->required();
  command
      ->add_option("--threshold", args->thresholds,
                   "How much is a change: time=5%, memory=1%, loss=0.1%; may be repeated. "
                   "Default: time=5%, memory=1%, loss by precision")
      ->allow_extra_args(false);
  command->add_option("--format", args->format, "md (for a pull request) or json")->capture_default_str();
  command->footer(
      "A point is slower where the whole 99 % interval of the ratio of median times lies beyond the "
      "threshold and a\n"
      "rank test agrees; where the interval crosses the threshold, or a side has fewer than 5 samples, it "
      "is\n"
      "ambiguous, which is no regression. To find a slow-down of 5 % reliably ask for time=2%. Memory is "
      "compared\n"
      "exactly. A loss that changed, or a point that was ok and failed, is a regression.\n"
      "Results of other hardware, precision or kind (simulated, measured) are refused.\n"
      "Exit codes: 0 no regression; 1 regression; 2 bad usage, or files that cannot be compared.");
  command->callback([args, &exit] {
    Thresholds thresholds;
    for (const std::string& text : args->thresholds) set_threshold(thresholds, text);
    const Comparison comparison =
        compare_results(read_result_file(args->result), read_result_file(args->baseline), thresholds);
    const std::string out = render_comparison(comparison, args->format);
    std::fwrite(out.data(), 1, out.size(), stdout);
    if (comparison.regression()) exit.code = Exit::kRegression;
  });
}

}  // namespace mbench::cli
