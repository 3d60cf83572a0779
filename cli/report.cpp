// mbench report RESULT...: tables of stored results.
#include "reports/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>

#include "cli/cli.h"
#include "engine/api/result.h"
#include "reports/builtin_layouts.h"

namespace mbench::cli {
namespace {

struct Arguments {
  std::vector<std::string> results;
  ReportOptions options;
};

}  // namespace

void add_report(CLI::App& app, Exit&) {
  CLI::App* command = app.add_subcommand("report", "Render stored results as tables (markdown, CSV, JSON)");
  auto args = std::make_shared<Arguments>();
  command->add_option("RESULT", args->results, "Result files, as written by mbench sweep")->required();
  command->add_option("--format", args->options.format, "md, csv or json")->capture_default_str();
  command
      ->add_option(
          "--table", args->options.tables,
          fmt::format(
              "Table to print: {}, published (where the spec has published figures), or one that the spec "
              "declares; may be repeated. Default: the spec's tables, else published where there are such "
              "figures, else strategies where a strategy was swept, else long",
              fmt::join(builtin_names(), ", ")))
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option(
          "--metric", args->options.metrics,
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
      "  mbench report results.json --columns tp,pp,seq,iteration_ms.median --format csv\n"
      "Exit codes: 0 done; 2 bad usage, or a file, table, field or metric that is not there.");
  command->callback([args] {
    std::string out;
    if (args->options.format == "json" && args->results.size() > 1)
      fail(ErrorKind::bad_input, "report",
           "--format json holds one result file, got {}, need one call for each", args->results.size());
    std::vector<ResultFile> files;
    for (const std::string& path : args->results) {
      files.push_back(read_result_file(path));
      out += (out.empty() ? "" : "\n") + render_report(files.back(), args->options);
    }
    if (files.size() > 1 && args->options.format == "md")
      if (const std::string overall = render_overall(files, args->options); !overall.empty())
        out += "\n" + overall;
    std::fwrite(out.data(), 1, out.size(), stdout);
  });
}

}  // namespace mbench::cli
