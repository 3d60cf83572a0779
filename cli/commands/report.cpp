// mbench report RESULT...: tables, pages and plots of stored results.
#include "reports/tables/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>

#include "cli/check_files.h"
#include "cli/cli.h"
#include "cli/compare_page.h"
#include "cli/memory_over_step.h"
#include "engine/base/atomic_file.h"
#include "engine/point/result_file.h"
#include "reports/page/html.h"
#include "reports/plots/gnuplot.h"
#include "reports/plots/report_plots.h"
#include "reports/tables/builtin_tables.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> results;
  reports::ReportOptions options;
  std::vector<std::string> compared;  // NEW and OLD
  std::string out, plots, trace;
  bool memory_timeline = false;
};

void say(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "mbench: {}\n", note);
}

// Where none is asked for.
std::string format_by_name(const std::string& file) {
  for (const char* format : {"html", "csv", "json"})
    if (file.ends_with(std::string(".") + format)) return format;
  return "md";
}

void check(const ReportArguments& args) {
  if (!args.compared.empty()) {
    if (!args.results.empty())
      fail(ErrorKind::bad_input, "--compare", "is a page of two results, got {} more, need none", args.results.size());
    return;
  }
  if (args.results.empty() && args.trace.empty())
    fail(ErrorKind::bad_input, "report", "nothing to report, got no result file, need RESULT or --trace FILE");
  if (!args.trace.empty() && args.plots.empty() && args.options.format != "html")
    fail(ErrorKind::bad_input, "--trace",
         "is drawn, got --format {} without --plots, need --plots DIR or --format html", args.options.format);
  if (args.memory_timeline && args.plots.empty() && args.options.format != "html")
    fail(ErrorKind::bad_input, "--memory-timeline",
         "is drawn, got --format {} without --plots, need --plots DIR or --format html", args.options.format);
  if (args.options.format == "json" && args.results.size() > 1)
    fail(ErrorKind::bad_input, "report", "--format json holds one result file, got {}, need one call for each",
         args.results.size());
}

void write_out(const std::string& text, const std::string& path) {
  if (path.empty())
    std::fwrite(text.data(), 1, text.size(), stdout);
  else
    write_file_atomically(path, text);
}

void write_all_plots(const std::vector<reports::HtmlSource>& sources, const ReportArguments& args,
                     std::vector<reports::Plot> plots) {
  for (const reports::HtmlSource& source : sources) {
    reports::BuiltPlots built = reports::report_plots(source.file, args.options);
    say(built.notes);
    for (reports::Plot& plot : built.plots) plots.push_back(std::move(plot));
  }
  reports::make_names_unique(plots);
  if (plots.empty())
    fmt::print(stderr, "mbench: no plot: none of them has the data it needs, such as two sequence lengths\n");
  const reports::PlotFiles files = reports::write_plots(plots, args.plots);
  say(files.notes);
  if (!files.names.empty()) fmt::print(stderr, "mbench: {} files in {}\n", files.names.size(), args.plots);
}

void run(const ReportArguments& args) {
  check(args);
  if (!args.compared.empty()) {
    const ResultFile now = read_result_file(sweeps::results_file(args.compared.at(0))),
                     baseline = read_result_file(sweeps::results_file(args.compared.at(1)));
    write_out(compare_page(reports::compare_results(now, baseline, {}), now, baseline,
                           args.compared[0] + " against " + args.compared[1]),
              args.out);
    return;
  }
  const auto checks = std::count_if(args.results.begin(), args.results.end(), is_check_file);
  if (checks > 0) {
    if (checks != static_cast<std::ptrdiff_t>(args.results.size()))
      fail(ErrorKind::bad_input, "report", "got {} checks among {} files, need only checks or only results", checks,
           args.results.size());
    write_out(report_checks(args.results, args.options.format), args.out);
    return;
  }
  std::vector<reports::Plot> timelines;
  if (!args.trace.empty()) {
    reports::TimelinePlot timeline = reports::read_timeline(args.trace);
    say(timeline.notes);
    timelines = std::move(timeline.plots);
  }
  std::vector<reports::HtmlSource> sources;
  for (const std::string& path : args.results) sources.push_back({path, read_result_file(sweeps::results_file(path))});
  if (args.memory_timeline)
    for (const reports::HtmlSource& source : sources) {
      std::vector<std::string> notes;
      for (reports::Plot& plot : memory_timelines(source.file, args.options, notes))
        timelines.push_back(std::move(plot));
      say(notes);
    }
  if (args.options.format == "html") {
    reports::HtmlReport report = reports::html_report(sources, args.options, timelines);
    say(report.notes);
    write_out(report.text, args.out);
  } else if (!sources.empty()) {
    std::string text;
    for (const reports::HtmlSource& source : sources)
      text += (text.empty() ? "" : "\n") + reports::render_report(source.file, args.options);
    if (sources.size() > 1 && args.options.format == "md") {
      std::vector<ResultFile> files;
      for (const reports::HtmlSource& source : sources) files.push_back(source.file);
      if (const std::string overall = reports::render_overall(files, args.options); !overall.empty())
        text += "\n" + overall;
    }
    write_out(text, args.out);
  }
  if (!args.plots.empty()) write_all_plots(sources, args, std::move(timelines));
}

}  // namespace

void add_report(CLI::App& app, Exit&) {
  CLI::App* command =
      app.add_subcommand("report", "Render stored results as tables (markdown, CSV, JSON), a page (HTML) or plots");
  auto args = std::make_shared<ReportArguments>();
  command->add_option(
      "RESULT", args->results,
      "Result files, as written by mbench sweep, or the folders of sweeps; or check files of mbench check");
  const CLI::Option* format = command->add_option(
      "--format", args->options.format,
      "md, csv, json, or html: one page that needs no network. Of check files md, json, html or junit. Default: what "
      "the name of --out ends in, else md");
  command->add_option("--out", args->out, "Write there instead of to standard output")->type_name("FILE");
  command
      ->add_option("--compare", args->compared,
                   "Instead, one page of two results: verdicts, and of each point the parts of its step and memory")
      ->type_name("NEW OLD")
      ->expected(2);
  command
      ->add_option("--plots", args->plots,
                   "Also draw the plots that the results have the data for, as SVG and PNG in this folder; needs "
                   "gnuplot")
      ->type_name("DIR");
  command
      ->add_option("--trace", args->trace,
                   "Also draw the timeline of this Chrome trace, with --plots DIR or --format html; needs no RESULT")
      ->type_name("FILE");
  command->add_flag("--memory-timeline", args->memory_timeline,
                    "Also draw what the fullest rank holds over a step, by category and with its peak: of the first "
                    "four points, with --plots DIR or --format html");
  command
      ->add_option(
          "--table", args->options.tables,
          fmt::format("Table to print: {}. Also published, where the spec has published figures, and those that the "
                      "spec declares. May be repeated. Default: the spec's tables, else published where there are such "
                      "figures, else strategies where a strategy was swept, else long",
                      fmt::join(reports::builtin_names(), ", ")))
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--metric", args->options.metrics,
                   "Metric that the table's cells hold instead of its own columns, by its name in the result file "
                   "(mfu, iteration_ms.p95); may be repeated")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--columns", args->options.columns,
                   "Fields and metrics that make the columns of a plain table, one row per point: "
                   "--columns seq,tp,iteration_ms,mfu")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--sort", args->options.sort, "Sort rows by this field or metric: FIELD or FIELD:desc");
  command
      ->add_option("--filter", args->options.filters,
                   "Only points with field=value; may be repeated: one field twice means either value, "
                   "different fields mean all of them")
      ->allow_extra_args(false);
  command->footer(
      "Examples:\n"
      "  mbench report results.json\n"
      "  mbench report results.json --table long --sort mfu:desc\n"
      "  mbench report results.json --metric mfu --filter seq=2048\n"
      "  mbench report results.json --format html --out report.html --plots plots\n"
      "  mbench report results.json --columns tp,pp,seq,iteration_ms.median --format csv\n"
      "Exit codes: 0 done; 2 bad usage, or a file, table, field or metric that is not there.");
  command->callback([args, format] {
    if (format->count() == 0) args->options.format = format_by_name(args->out);
    run(*args);
  });
}

}  // namespace mbench::cli
