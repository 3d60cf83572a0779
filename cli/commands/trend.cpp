// mbench trend: stored points over time, and where they changed.
#include "reports/baselines/trend.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/check_files.h"
#include "cli/cli.h"
#include "reports/plots/gnuplot.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;

struct TrendArguments {
  std::string folder = "baselines", machine, point, metric = "time", format = "md", plot;
};

void draw(const std::vector<reports::Trend>& trends, const std::string& file) {
  constexpr std::size_t kMostLines = 24;
  if (trends.size() > kMostLines)
    fail(ErrorKind::bad_input, "--plot",
         "too many lines for one picture, got {} points, need at most {}: choose with --point", trends.size(),
         kMostLines);
  reports::draw_file(reports::trend_plot(trends), file, "--plot");
}

}  // namespace

void add_trend(CLI::App& app, Exit&) {
  CLI::App* command = app.add_subcommand("trend", "Stored points over time, and where they changed");
  auto args = std::make_shared<TrendArguments>();
  command->add_option("--dir", args->folder, "Folder of the baselines")->capture_default_str();
  command->add_option("--machine", args->machine, "Only machines whose name holds this text");
  command->add_option("--point", args->point, "Only points whose id begins with this text");
  command
      ->add_option("--metric", args->metric,
                   "time (the mean step of each entry, without a warm-up and a single spike), median, memory or "
                   "energy; or checks: "
                   "the figures of stored checks")
      ->capture_default_str();
  command->add_option("--format", args->format, "md or json")->capture_default_str();
  command->add_option("--plot", args->plot, "Draw into this file too, with gnuplot: FILE.svg, .png or .pdf");
  command->footer(
      "The change point of times is the split with the largest cumulative-sum statistic, if fewer than 5 % "
      "of shuffled\n"
      "series reach it. It takes 6 entries at least, and a change at the very end takes more. Memory has no "
      "noise: each\n"
      "change is named.\n"
      "Where a straight line explains the entries as well as steps do (BIC), it says \"drifts 1 % an entry since "
      "REV\", with the evidence "
      "for both.\n"
      "Exit codes: 0 done; 2 bad usage, or a file that cannot be read.");
  command->callback([args] {
    if (args->metric == "checks") {
      const std::string lines = check_trends(args->folder, args->format);
      if (lines.empty())
        fail(ErrorKind::bad_input, args->folder, "has no stored checks, need mbench baseline add CHECK");
      std::fwrite(lines.data(), 1, lines.size(), stdout);
      return;
    }
    const auto stored = reports::select_baselines(reports::read_baselines(args->folder), args->machine, args->point);
    const std::vector<reports::Trend> trends = reports::trends_of(stored, args->metric);
    if (trends.empty() && stored.empty() && !check_trends(args->folder, args->format).empty())
      fail(ErrorKind::bad_input, args->folder, "has stored checks only, need --metric checks");
    if (trends.empty())
      fail(ErrorKind::bad_input, args->folder, "no stored point has {} to show, need mbench baseline add",
           args->metric);
    const std::string out = reports::render_trends(trends, args->format);
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
    if (!args->plot.empty()) draw(trends, fs::absolute(args->plot).string());
  });
}

}  // namespace mbench::cli
