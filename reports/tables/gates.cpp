#include "reports/tables/gates.h"

#include <fmt/ranges.h>

#include "engine/base/json_reader.h"
#include "engine/point/gates.h"
#include "engine/point/outcome.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string figure(double value) {
  return fmt::format("{:.6g}", value);
}

// "at most 28000", "at least 228 (95 % of 240)"
std::string asked(const Gate& gate) {
  std::string text;
  const auto bound = [&](const char* words, const std::optional<double>& value) {
    if (!value) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", words, figure(*value));
    if (gate.reference && *gate.reference != 0 && *value != *gate.reference)
      text += fmt::format(" ({:.4g} % of {})", *value / *gate.reference * 100, figure(*gate.reference));
  };
  bound("at least", gate.at_least);
  bound("at most", gate.at_most);
  return text;
}

// Why the value is not enough; empty where it is.
std::string against(const Gate& gate, const Record& point, const Json& value) {
  if (!value.is_number()) {
    const bool ran = point.outcome() == Outcome::ok;
    return fmt::format("{} is {}", gate.metric, ran ? "not known" : std::string(name_of(point.outcome())));
  }
  const double got = value.get<double>();
  if (gate.at_most && !(got <= *gate.at_most))
    return fmt::format("{} {} is more than {}", gate.metric, figure(got), figure(*gate.at_most));
  if (gate.at_least && !(got >= *gate.at_least))
    return fmt::format("{} {} is less than {}", gate.metric, figure(got), figure(*gate.at_least));
  return "";
}

Cell text_cell(std::string text) {
  Cell cell;
  cell.text = std::move(text);
  return cell;
}

std::string label_of(const Record& point, const std::vector<std::string>& swept) {
  std::vector<std::string> terms;
  for (const std::string& field : swept) terms.push_back(fmt::format("{} {}", field, point.text(field)));
  return fmt::format("{}", fmt::join(terms, ", "));
}

}  // namespace

std::string GateVerdicts::headline() const {
  const int all = held + failed;
  if (failed == 0)
    return fmt::format("gates: {}", all == 1 ? "the only one is met" : fmt::format("all {} are met", all));
  return fmt::format("gates: {} of {} failed: {}{}", failed, all, failures.front(), failures.size() > 1 ? ", ..." : "");
}

std::optional<GateVerdicts> judge_gates(const Json& spec, const std::vector<const Record*>& points,
                                        const std::vector<std::string>& swept) {
  if (!spec.is_object() || !spec.contains("gates")) return std::nullopt;
  GateVerdicts verdicts;
  Section section;
  section.columns = {
      {"Point", "point"}, {"Metric", "metric"}, {"Asked for", "asked"}, {"Got", "got", true}, {"Verdict", "verdict"}};
  for (const Gate& gate : read_gates(spec.at("gates"), "spec.gates"))
    for (const Record* point : points) {
      const Json model = point->value("model");
      if (!picks(gate.where, point->json(), model.is_string() ? model.get<std::string>() : "")) continue;
      const Json value = point->value(gate.metric);
      const std::string why = against(gate, *point, value), label = label_of(*point, swept);
      ++(why.empty() ? verdicts.held : verdicts.failed);
      if (!why.empty()) verdicts.failures.push_back(label.empty() ? why : fmt::format("{} ({})", why, label));
      Cell got = text_cell(value.is_number() ? figure(value.get<double>()) : "n/a");
      if (value.is_number()) got.number = value.get<double>();
      section.rows.push_back({text_cell(label.empty() ? "all" : label), text_cell(gate.metric), text_cell(asked(gate)),
                              got, text_cell(why.empty() ? "met" : "FAILED")});
    }
  verdicts.table.name = "gates";
  verdicts.table.title = "Gates";
  verdicts.table.sections.push_back(std::move(section));
  verdicts.table.notes.push_back(verdicts.headline() + ".");
  return verdicts;
}

}  // namespace mbench::reports
