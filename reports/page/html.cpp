#include "reports/page/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "reports/page/html_answer.h"
#include "reports/page/html_search.h"
#include "reports/page/html_table.h"
#include "reports/page/html_text.h"
#include "reports/page/svg_tooltips.h"
#include "reports/plots/build_plot.h"
#include "reports/plots/choose_plots.h"
#include "reports/plots/gnuplot.h"
#include "reports/tables/provenance.h"
#include "reports/tables/report_parts.h"

namespace mbench::asset_files {
const EmbeddedFiles& files();  // of reports/page/assets
}

namespace mbench::reports {
namespace {

// What stands below every figure and table: where its numbers come from.
std::string source_line(const ResultFile& file) {
  std::vector<std::string> said = {measured_on(file).front()};
  for (const std::string& line : how_counted(file)) {
    const std::size_t version = line.find("(formula version ");
    if (version != std::string::npos)
      said.push_back("FLOP " + line.substr(version + 1, line.find(')', version) - version - 1));
    if (line.starts_with("Peak: ")) said.push_back(line.substr(0, line.find_last_not_of('.') + 1));
  }
  std::string out;
  for (const std::string& part : said) out += (out.empty() ? "" : ". ") + part;
  return out + ".";
}

// "Software: x, y" as a term and what is said of it.
void fact(std::string& out, const std::string& line) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string::npos || colon > 20) {
    out += "<dt>Note</dt><dd>" + escape_html(line) + "</dd>\n";
    return;
  }
  out +=
      fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_html(line.substr(0, colon)), escape_html(line.substr(colon + 2)));
}

std::string outcomes_line(const ResultFile& file) {
  std::map<Outcome, int> counts;
  for (const PointResult& point : file.points) ++counts[point.outcome];
  std::string line;
  for (const auto& [outcome, n] : counts) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", n, name_of(outcome));
  return line.empty() ? "none" : line;
}

std::string figure(const Plot& plot, const std::string& svg, const std::string& id, const std::string& source) {
  const std::string name = plot.title + (plot.heading.empty() ? "" : ": " + plot.heading);
  std::string out = fmt::format("<figure{}><div class=wide tabindex=0 role=region aria-label=\"{}\">",
                                plot.is_broad ? " class=broad" : "", escape_html(name));
  out += svg_element(with_tooltips(svg, plot), id, name) + "</div>\n<figcaption>";
  out += fmt::format("<strong>{}{}</strong>", escape_html(plot.heading.empty() ? plot.title : plot.heading),
                     plot.simulated ? " <span class=sim>simulated</span>" : "");
  return out + "<span class=source>" + escape_html(source) + "</span></figcaption></figure>\n";
}

class Page {
 public:
  Page(const std::vector<HtmlSource>& sources, const ReportOptions& options, const std::string& gnuplot)
      : sources_(sources), options_(options), gnuplot_(gnuplot), level_(sources.size() == 1 ? 2 : 3) {}

  HtmlReport write(const std::vector<Plot>& timelines) {
    std::string title;
    for (const HtmlSource& source : sources_) title += (title.empty() ? "" : ", ") + report_name(source.file);
    if (title.empty()) title = "Timeline";
    std::string body;
    for (std::size_t i = 0; i < sources_.size(); ++i) body += file_section(i);
    std::vector<Plot> traces, memories;
    for (const Plot& plot : timelines) (plot.shape == PlotShape::areas ? memories : traces).push_back(plot);
    extra_section(body, "Timeline", traces, "t", "Spans as the trace has them.");
    extra_section(body, "Memory", memories, "m", "Counted from the plan of the point.");
    return {html_document(title, body), std::move(notes_)};
  }

 private:
  void extra_section(std::string& body, const char* title, const std::vector<Plot>& plots, const char* prefix,
                     const char* source) {
    if (plots.empty()) return;
    body += fmt::format("<section>\n<h2>{}</h2>\n", title);
    figures(body, plots, prefix, source);
    body += "</section>\n";
  }

  std::string heading(const std::string& text) const {
    return fmt::format("<h{0}>{1}</h{0}>\n", level_, escape_html(text));
  }

  std::string file_section(std::size_t index) {
    const HtmlSource& source = sources_[index];
    const std::string prefix = fmt::format("f{}-", index + 1);
    const ReportParts parts = report_parts(source.file, options_);
    std::string out = "<section>\n";
    if (sources_.size() > 1) out += "<h2>" + escape_html(report_name(source.file)) + "</h2>\n";
    const std::string search = html_search(source.file.environment, level_);
    out += search.empty() ? html_answer(source.file, parts.chosen, parts.swept, prefix, level_) : search;
    facts(out, source, parts);
    const std::string line = source_line(source.file);
    out += heading("Tables");
    for (const Table& table : parts.tables) {
      out += html_table(table, level_ + 1, prefix);
      out += "<p class=source>" + escape_html(line) + "</p>\n";
    }
    if (parts.not_shown > 0)
      out += fmt::format("<p>{} of {} points have no place in the tables above; all are listed below.</p>\n",
                         parts.not_shown, parts.chosen.size());
    plot_section(out, parts, prefix + "plot", line);
    out += heading("Every point");
    out +=
        "<p class=small>The command runs the point again, with the spec that is inside the result file. A "
        "data "
        "file with a relative name is looked for in the current folder and next to the spec.</p>\n";
    out += html_points(source.file, source.path, parts.chosen, parts.swept, prefix);
    out += "<p class=source>" + escape_html(line) + "</p>\n";
    out += heading("How it was counted") + "<ul class=method>\n";
    for (const std::string& text : how_counted(source.file)) out += "<li>" + escape_html(text) + "</li>\n";
    out += "</ul>\n";
    if (source.file.spec.is_object())
      out += "<details><summary>The spec</summary>\n<pre>" + escape_html(dump_json(source.file.spec)) +
             "</pre></details>\n";
    return out + "</section>\n";
  }

  void facts(std::string& out, const HtmlSource& source, const ReportParts& parts) const {
    const bool simulated =
        std::any_of(parts.chosen.begin(), parts.chosen.end(), [](const Record* record) { return record->simulated(); });
    if (simulated)
      out += "<p class=sim>Rows marked simulated were computed by a model of a machine, not measured.</p>\n";
    out += "<dl class=facts>\n";
    for (const std::string& line : measured_on(source.file)) fact(out, line);
    if (const std::string same = common_to_all(parts.chosen); !same.empty()) fact(out, "Every point: " + same);
    fact(out, fmt::format("Points: {}", outcomes_line(source.file)));
    fact(out, "Results: " + source.path);
    out += "</dl>\n";
  }

  void plot_section(std::string& out, const ReportParts& parts, const std::string& prefix, const std::string& source) {
    BuiltPlots built = build_plots(plot_declarations(), parts.chosen, parts.swept);
    const std::size_t all = built.plots.size();
    const std::vector<Plot> few = choose_plots(std::move(built.plots));
    if (few.empty() && built.notes.empty()) return;
    out += heading("Plots");
    for (const std::string& text : built.notes) note(out, text);
    if (figures(out, few, prefix, source) && few.size() < all)
      note(out, fmt::format("The page holds {} of {} plots, those of each kind that vary most. --filter chooses, "
                            "--plots DIR writes all.",
                            few.size(), all));
  }

  // What the page says, its caller is told too, once.
  void note(std::string& out, const std::string& text) {
    out += "<p class=small>" + escape_html(text) + "</p>\n";
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
  }

  // A heading for each kind of plot, its figures below. Whether they could be drawn.
  bool figures(std::string& out, const std::vector<Plot>& plots, const std::string& prefix, const std::string& source) {
    const Drawing drawing = draw_inline(plots, gnuplot_);
    for (const std::string& text : drawing.notes) note(out, text);
    for (std::size_t i = 0; i < drawing.svg.size(); ++i) {
      if (i == 0 || plots[i].title != plots[i - 1].title)
        out += fmt::format("{}<h{}>{}</h{}>\n<p class=small>{}</p>\n<div class=plots>\n", i ? "</div>\n" : "",
                           level_ + 1, escape_html(plots[i].title), level_ + 1, escape_html(plots[i].note));
      out += figure(plots[i], drawing.svg[i], fmt::format("{}{}-", prefix, i + 1), source);
    }
    if (!drawing.svg.empty()) out += "</div>\n";
    return !drawing.svg.empty();
  }

  const std::vector<HtmlSource>& sources_;
  const ReportOptions& options_;
  const std::string& gnuplot_;
  int level_;  // of the headings within a file
  std::vector<std::string> notes_;
};

}  // namespace

std::string html_document(const std::string& title, const std::string& body) {
  const auto& assets = asset_files::files();
  std::string out =
      "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
      // Whatever stands in the page, the browser asks nobody for anything.
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n"
      "<link rel=icon href=\"data:,\">\n<title>" +
      escape_html(title) + "</title>\n<style>\n";
  out += assets.at("style");
  out += "</style>\n</head>\n<body>\n<header><h1>" + escape_html(title) +
         "</h1><button id=theme type=button hidden>Colours</button></header>\n<main>\n";
  out += body + "</main>\n<script>\n";
  out += assets.at("script");
  out += "</script>\n</body>\n</html>\n";
  return out;
}

HtmlReport html_report(const std::vector<HtmlSource>& sources, const ReportOptions& options,
                       const std::vector<Plot>& timelines, const std::string& gnuplot) {
  return Page(sources, options, gnuplot).write(timelines);
}

}  // namespace mbench::reports
