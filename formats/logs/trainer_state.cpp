#include "formats/logs/trainer_state.h"

#include <cmath>

#include "engine/base/json_reader.h"
#include "formats/logs/reader.h"

namespace mbench::formats {
namespace {

using nlohmann::ordered_json;

std::optional<double> known_number(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional<double>(found->get<double>()) : std::nullopt;
}

}  // namespace

bool is_trainer_state(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' &&
         text.find("\"log_history\"") != std::string_view::npos;
}

// Only the last entry says a time, of all steps together with their evaluations and checkpoints.
Log read_trainer_state(const ordered_json& state, const std::string& file) {
  const auto history = state.find("log_history");
  if (history == state.end() || !history->is_array())
    fail(ErrorKind::bad_input, file + ": $.log_history", "is missing, need an array of what was logged");
  Log log;
  log.program = "transformers";
  bool evaluated = false;
  for (const ordered_json& entry : *history) {
    if (!entry.is_object()) continue;
    if (entry.contains("eval_loss")) evaluated = true;
    const auto number = known_number(entry, "step");
    const auto counted = number ? count_of(*number) : std::nullopt;
    if (!counted) continue;
    LoggedStep step;
    step.step = *counted;
    step.first = log.steps.empty();
    step.loss = known_number(entry, "loss");
    step.gradient_norm = known_number(entry, "grad_norm");
    if (const auto seconds = known_number(entry, "train_runtime"); seconds && *seconds > 0 && step.step > 0)
      step.pace = *seconds * 1e3 / static_cast<double>(step.step), step.unit = Pace::ms;
    if (!step.loss && step.unit == Pace::none) continue;
    if (log.steps.size() >= kMostSteps) fail(ErrorKind::bad_input, file, "has more than {} steps", kMostSteps);
    if (!log.steps.empty() && log.steps.back().step == step.step) {
      if (step.unit != Pace::none) log.steps.back().pace = step.pace, log.steps.back().unit = step.unit;
      continue;
    }
    if (log.steps.empty() || log.steps.back().step < step.step) log.steps.push_back(step);
  }
  if (!log.steps.empty() && log.steps.back().unit == Pace::ms) {
    log.notes.push_back(
        fmt::format("one time is known, of all {} steps: trainer_state.json has no others", log.steps.back().step));
    if (evaluated) log.notes.push_back("this time has the evaluations in it");
  }
  return log;
}

}  // namespace mbench::formats
