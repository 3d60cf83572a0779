#include "formats/logs/table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"

namespace mbench::log_files {
const EmbeddedFiles& files();
}

namespace mbench::formats {
namespace {

using nlohmann::json;

struct FigureName {
  std::string_view name;
  Figure figure;
  double scale;
  Pace pace;
};
constexpr double kBytes = 1.0 / (1 << 20);
constexpr FigureName kFigures[] = {{"step", Figure::step, 1, Pace::none},
                                   {"ms", Figure::pace, 1, Pace::ms},
                                   {"s", Figure::pace, 1000, Pace::ms},
                                   {"samples_per_s", Figure::pace, 1, Pace::samples_per_s},
                                   {"tokens_per_s_per_device", Figure::pace, 1, Pace::tokens_per_s_per_device},
                                   {"loss", Figure::loss, 1, Pace::none},
                                   {"gradient_norm", Figure::gradient_norm, 1, Pace::none},
                                   {"global_batch", Figure::global_batch, 1, Pace::none},
                                   {"world", Figure::world, 1, Pace::none},
                                   {"rank", Figure::rank, 1, Pace::none},
                                   {"max_allocated_mib", Figure::max_allocated, 1, Pace::none},
                                   {"max_allocated_gib", Figure::max_allocated, 1024, Pace::none},
                                   {"max_allocated_bytes", Figure::max_allocated, kBytes, Pace::none},
                                   {"max_allocated_gb", Figure::max_allocated, 1e9 * kBytes, Pace::none},
                                   {"max_reserved_gb", Figure::max_reserved, 1e9 * kBytes, Pace::none},
                                   {"max_reserved_mib", Figure::max_reserved, 1, Pace::none},
                                   {"max_reserved_gib", Figure::max_reserved, 1024, Pace::none},
                                   {"max_reserved_bytes", Figure::max_reserved, kBytes, Pace::none}};
constexpr Choices<LineKind, 7> kKinds = {{{"step", LineKind::step},
                                          {"memory", LineKind::memory},
                                          {"settings", LineKind::settings},
                                          {"argument", LineKind::argument},
                                          {"device", LineKind::device},
                                          {"evaluation", LineKind::evaluation},
                                          {"checkpoint", LineKind::checkpoint}}};
// In this order: Megatron's line says each step's time where DeepSpeed runs below it.
constexpr std::array<std::string_view, 4> kOrder = {"megatron-lm", "nemo", "torchtitan", "deepspeed"};

NamedFigure read_figure(const json& value, const std::string& where) {
  const std::string name = read_string(value.at(1), where);
  for (const FigureName& known : kFigures)
    if (known.name == name) return {read_string(value.at(0), where), known.figure, known.scale, known.pace};
  fail(ErrorKind::internal, where, "no figure {}", name);
}

LogRow read_log_row(const json& value, const std::string& where) {
  ObjectReader object(value, where);
  LogRow row;
  row.has = read_string(object.require("has", "what such a line has"), object.path("has"));
  row.kind = read_choice(object.require("is", "what the line says"), object.path("is"), kKinds);
  for (const auto& [key, text] : {std::pair("unless", &row.unless), std::pair("begins", &row.begins),
                                  std::pair("from", &row.from), std::pair("to", &row.to)})
    if (const json* given = object.find(key)) *text = read_string(*given, object.path(key));
  if (const json* figures = object.find("figures"))
    for (const json& each : *figures) row.figures.push_back(read_figure(each, object.path("figures")));
  object.refuse_unknown();
  return row;
}

LogTable read_log_table(std::string_view name, std::string_view text) {
  const std::string where = std::string(name) + ".json: $";
  const json whole = parse_json(text, std::string(name) + ".json");
  ObjectReader object(whole, where);
  LogTable table;
  table.program = read_string(object.require("program", "a name"), object.path("program"));
  table.source = read_string(object.require("source", "where its log is written"), object.path("source"));
  if (const json* each = object.find("each_step")) table.each_step = read_bool(*each, object.path("each_step"));
  for (const json& row : object.require("lines", "an array"))
    table.rows.push_back(read_log_row(row, object.path("lines")));
  object.refuse_unknown();
  return table;
}

// "1,234.5" without its commas; nothing where no number begins.
std::size_t length_of_number(std::string_view text) {
  const auto in_number = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '+' || c == '-'; };
  std::size_t end = 0;
  while (end < text.size() && end < 40) {
    const bool comma =
        text[end] == ',' && end + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[end + 1]));
    if (!comma && !in_number(static_cast<unsigned char>(text[end]))) break;
    ++end;
  }
  return end;
}

}  // namespace

const std::vector<LogTable>& log_tables() {
  static const std::vector<LogTable> tables = [] {
    std::vector<LogTable> all;
    for (const std::string_view wanted : kOrder)
      for (const auto& [name, text] : log_files::files())
        if (name == wanted) all.push_back(read_log_table(name, text));
    check(all.size() == log_files::files().size(), "formats", "a log's table has no place in the order");
    return all;
  }();
  return tables;
}

bool number_behind(std::string_view text, std::string_view label, bool whole, double& number) {
  for (std::size_t at = text.find(label); at != std::string_view::npos; at = text.find(label, at + label.size())) {
    std::string_view rest = text.substr(at + label.size());
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == ':' || rest.front() == '=')) rest.remove_prefix(1);
    const std::size_t length = length_of_number(rest);
    if (length == rest.size() && !whole) return false;
    std::string digits(rest.substr(0, length));
    std::erase(digits, ',');
    double read = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read);
    if (error != std::errc{} || end == digits.data()) continue;  // the label stands elsewhere too
    number = read;
    return true;
  }
  return false;
}

}  // namespace mbench::formats
