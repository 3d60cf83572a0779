#include "engine/point/published.h"

#include <algorithm>

#include "engine/base/json_reader.h"
#include "engine/point/metrics.h"
#include "engine/point/point_builder.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr Choices<bool, 1> kOutcomes = {{{"oom", true}}};

std::vector<double> read_runs(const json& value, const std::string& where) {
  if (!value.is_array() || value.size() < 2)
    fail(ErrorKind::bad_input, where, "got {}, need an array of two figures or more", short_json(value));
  std::vector<double> runs;
  for (std::size_t i = 0; i < value.size(); ++i) runs.push_back(read_number(value[i], fmt::format("{}[{}]", where, i)));
  std::sort(runs.begin(), runs.end());
  return runs;
}

double median(const std::vector<double>& ascending) {
  const std::size_t n = ascending.size();
  return (ascending[(n - 1) / 2] + ascending[n / 2]) / 2;
}

PublishedFigure read_figure(const std::string& metric, const json& value, const std::string& where) {
  PublishedFigure figure;
  figure.metric = metric;
  if (!value.is_object()) {
    figure.mean = read_number(value, where);
    return figure;
  }
  ObjectReader object(value, where);
  if (const json* runs = object.find("runs")) {
    object.refuse_unknown();
    figure.runs = read_runs(*runs, where + ".runs");
    figure.mean = median(figure.runs);
    return figure;
  }
  figure.mean = read_number(object.require("mean", "a number"), where + ".mean");
  if (const json* stddev = object.find("stddev")) figure.stddev = read_number(*stddev, where + ".stddev");
  object.refuse_unknown();
  return figure;
}

std::string read_line(const json& value, const std::string& where) {
  const std::string text = read_string(value, where);
  if (text.empty()) fail(ErrorKind::bad_input, where, "is empty, need a text");
  return text;
}

void read_doubt(const json& value, const std::string& where, PublishedRow& row) {
  if (!value.is_object()) {
    row.doubt = read_line(value, where);
    for (PublishedFigure& figure : row.figures) figure.doubt = row.doubt;
    return;
  }
  std::vector<std::string> metrics;
  for (const PublishedFigure& figure : row.figures) metrics.push_back(figure.metric);
  for (const auto& [metric, why] : value.items()) {
    const std::string path = where + "." + metric;
    const auto figure = std::find(metrics.begin(), metrics.end(), metric);
    if (figure == metrics.end())
      fail(ErrorKind::bad_input, path, "no figure of this row, got \"{}\", {}", metric,
           nearest_choice(metric, metrics));
    row.figures[static_cast<std::size_t>(figure - metrics.begin())].doubt = read_line(why, path);
  }
}

PublishedRow read_row(const json& value, const std::string& where) {
  ObjectReader object(value, where);
  PublishedRow row;
  row.place = where;
  row.where = read_where(object.require("where", "the fields that pick the row's point"), object.path("where"));
  for (const std::string& metric : published_metrics())
    if (const json* figure = object.find(metric))
      row.figures.push_back(read_figure(metric, *figure, object.path(metric)));
  if (const json* outcome = object.find("outcome")) row.oom = read_choice(*outcome, object.path("outcome"), kOutcomes);
  if (const json* doubt = object.find("doubt")) read_doubt(*doubt, object.path("doubt"), row);
  object.refuse_unknown();
  if (row.oom && !row.figures.empty())
    fail(ErrorKind::bad_input, where, "an outcome and figures too, got outcome \"oom\" and {}, need either",
         row.figures.front().metric);
  if (!row.oom && row.figures.empty())
    fail(ErrorKind::bad_input, where, "says nothing, need a figure such as iteration_ms, or outcome \"oom\"");
  return row;
}

}  // namespace

const std::vector<std::string>& published_metrics() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> publishable;
    for (const Metric& metric : metrics())
      if (metric.publishable) publishable.push_back(metric.name);
    return publishable;
  }();
  return names;
}

bool PublishedRow::picks(const ordered_json& fields, const std::string& model_name) const {
  return mbench::picks(where, fields, model_name);
}

namespace {

std::vector<std::string> read_flags(const json& value, const std::string& where) {
  if (!value.is_array()) fail(ErrorKind::bad_input, where, "got {}, need an array of flags", short_json(value));
  std::vector<std::string> flags;
  for (std::size_t i = 0; i < value.size(); ++i) flags.push_back(read_line(value[i], fmt::format("{}[{}]", where, i)));
  return flags;
}

}  // namespace

Published read_published(const ordered_json& value, const std::string& where) {
  const json plain = value;
  ObjectReader object(plain, where);
  Published published;
  published.source = read_line(object.require("source", "who published the figures, and where"), object.path("source"));
  const json& machine = object.require("machine", "what --on takes: cpu, cuda or sim:<N>x<MACHINE>");
  PointBuilder device;
  device.set("device", machine, object.path("machine"));
  published.machine = machine.get<std::string>();
  if (const json* about = object.find("about")) published.about = read_line(*about, object.path("about"));
  if (const json* flags = object.find("flags")) published.flags = read_flags(*flags, object.path("flags"));
  const json& rows = object.require("rows", "an array of published rows");
  object.refuse_unknown();
  if (!rows.is_array() || rows.empty())
    fail(ErrorKind::bad_input, object.path("rows"), "got {}, need an array of at least one row", short_json(rows));
  for (std::size_t i = 0; i < rows.size(); ++i)
    published.rows.push_back(read_row(rows[i], fmt::format("{}[{}]", object.path("rows"), i)));
  for (const std::string& metric : published_metrics())
    for (const PublishedRow& row : published.rows)
      if (std::any_of(row.figures.begin(), row.figures.end(),
                      [&](const PublishedFigure& f) { return f.metric == metric; })) {
        published.metrics.push_back(metric);
        break;
      }
  return published;
}

}  // namespace mbench
