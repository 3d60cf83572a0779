#include "reports/plots/report_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/point/result_file.h"
#include "reports/plots/gnuplot.h"
#include "reports/tables/markdown.h"
#include "reports/tables/report_parts.h"

namespace mbench::reports {
namespace {

// Beside a sweep nobody asked for them: as many as a reader looks through, and a few seconds of drawing.
constexpr std::size_t kMostPlots = 100;

}  // namespace

BuiltPlots report_plots(const ResultFile& file, const ReportOptions& options) {
  const ReportParts parts = report_parts(file, options);
  return build_plots(plot_declarations(), parts.chosen, parts.swept);
}

TimelinePlot read_timeline(const std::string& path) {
  const auto& all = plot_declarations();
  const auto found = std::find_if(all.begin(), all.end(), [](const auto& d) { return d.kind == PlotKind::timeline; });
  check(found != all.end(), "plots", "no declaration of a timeline");
  return timeline_plot(read_trace(path), *found);
}

std::string plots_next_to(const std::string& folder, const ResultFile& file, std::vector<std::string>& notes,
                          process::Interrupt* interrupt) {
  BuiltPlots built = report_plots(file, {});
  std::string left_out;
  if (built.plots.size() > kMostPlots) {
    left_out =
        fmt::format("{} of {} plots are drawn; for all of them: mbench report {} --plots DIR, with --filter for some.",
                    kMostPlots, built.plots.size(), (std::filesystem::path(folder) / "results.json").string());
    built.plots.resize(kMostPlots);
    built.notes.push_back(left_out);
  }
  const PlotFiles files =
      write_plots(built.plots, (std::filesystem::path(folder) / "plots").string(), "gnuplot", interrupt);
  notes.insert(notes.end(), built.notes.begin(), built.notes.end());
  notes.insert(notes.end(), files.notes.begin(), files.notes.end());
  std::string out;
  std::string title;
  for (const Plot& plot : built.plots) {
    const std::string name = plot.name + ".svg";
    if (std::find(files.names.begin(), files.names.end(), name) == files.names.end()) continue;
    if (out.empty()) out = "\n## Plots\n\n";
    if (plot.title != title) {
      out += "### " + escape_markdown(plot.title) + "\n\n";
      if (!plot.note.empty()) out += escape_markdown(plot.note) + "\n\n";
    }
    title = plot.title;
    std::string alt = escape_markdown(plot.title + (plot.heading.empty() ? "" : ": " + plot.heading));
    std::erase_if(alt, [](char c) { return c == '[' || c == ']'; });
    out += "![" + alt + "](plots/" + name + ")\n\n";
  }
  if (!out.empty() && !left_out.empty()) out += escape_markdown(left_out) + "\n";
  return out;
}

}  // namespace mbench::reports
