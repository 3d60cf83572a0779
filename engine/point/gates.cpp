#include "engine/point/gates.h"

#include <charconv>

#include "engine/base/json_reader.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// 28000, or "95%" of the reference.
double read_bound(const json& value, const std::optional<double>& reference, const std::string& path) {
  if (!value.is_string()) return read_number(value, path);
  const std::string text = value.get<std::string>();
  double percent = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), percent);
  const bool share = read.ec == std::errc() && std::string_view(read.ptr) == "%" && percent > 0;
  if (!share)
    fail(ErrorKind::bad_input, path, "got {}, need a number, or a share of \"of\" as \"95%\"", short_json(value));
  if (!reference)
    fail(ErrorKind::bad_input, path, "a share of nothing, got {}, need \"of\" with the reference too",
         short_json(value));
  return percent / 100 * *reference;
}

Gate read_gate(const std::string& metric, const json& value, const std::string& path) {
  ObjectReader object(value, path);
  Gate gate;
  gate.place = path;
  gate.metric = metric;
  if (const json* of = object.find("of")) gate.reference = read_number(*of, object.path("of"));
  if (const json* most = object.find("at_most"))
    gate.at_most = read_bound(*most, gate.reference, object.path("at_most"));
  if (const json* least = object.find("at_least"))
    gate.at_least = read_bound(*least, gate.reference, object.path("at_least"));
  object.refuse_unknown();
  if (!gate.at_most && !gate.at_least)
    fail(ErrorKind::bad_input, path, "asks for nothing, got {}, need at_most or at_least", short_json(value));
  if (gate.at_most && gate.at_least && *gate.at_most < *gate.at_least)
    fail(ErrorKind::bad_input, path, "no number is both, got at_most {} and at_least {}", *gate.at_most,
         *gate.at_least);
  return gate;
}

void read_gates_of(const json& value, const std::string& path, std::vector<Gate>& gates) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, path, "wrong type, got {}, need an object of metrics and their bounds",
         short_json(value));
  Where where;
  std::string source;
  if (value.contains("where")) where = read_where(value.at("where"), path + ".where");
  if (value.contains("source")) source = read_string(value.at("source"), path + ".source");
  const std::size_t before = gates.size();
  for (const auto& [metric, bounds] : value.items()) {
    if (metric == "where" || metric == "source") continue;
    Gate gate = read_gate(metric, bounds, path + "." + metric);
    gate.where = where, gate.source = source;
    gates.push_back(std::move(gate));
  }
  if (gates.size() == before)
    fail(ErrorKind::bad_input, path,
         "no gate, got {}, need a metric and its bounds as \"iteration_ms\": {{\"at_most\": 500}}", short_json(value));
}

}  // namespace

std::vector<Gate> read_gates(const ordered_json& value, const std::string& where) {
  const json plain = value;
  std::vector<Gate> gates;
  if (!plain.is_array()) {
    read_gates_of(plain, where, gates);
    return gates;
  }
  if (plain.empty()) fail(ErrorKind::bad_input, where, "got an empty list, need a gate, or no \"gates\"");
  for (std::size_t i = 0; i < plain.size(); ++i) read_gates_of(plain[i], fmt::format("{}[{}]", where, i), gates);
  return gates;
}

}  // namespace mbench
