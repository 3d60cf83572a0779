#include "search/objective.h"

#include <array>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench::search {
namespace {

constexpr std::array<std::pair<std::string_view, Objective>, 5> kObjectives = {
    {{"time", Objective::time},
     {"memory", Objective::memory},
     {"tokens_per_device", Objective::tokens_per_device},
     {"devices", Objective::devices},
     {"tokens_per_joule", Objective::tokens_per_joule}}};

}  // namespace

Objective read_objective(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [text, objective] : kObjectives) {
    if (text == name) return objective;
    names.emplace_back(text);
  }
  fail(ErrorKind::bad_input, where, "no such objective, got \"{}\", {}", name, nearest_choice(name, names));
}

std::string_view name_of(Objective objective) {
  for (const auto& [text, o] : kObjectives)
    if (o == objective) return text;
  return "";
}

bool needs_all_devices(Objective objective) {
  return objective == Objective::time || objective == Objective::memory || objective == Objective::tokens_per_joule;
}

void check_objective(Objective objective, const sim::Machine& machine, const std::string& where) {
  if (objective != Objective::tokens_per_joule || machine.device.watts) return;
  std::vector<std::string> known;
  for (const std::string& name : sim::machine_names())
    if (sim::find_machine(name, where).device.watts) known.push_back(name);
  fail(ErrorKind::bad_input, where,
       "tokens_per_joule needs device.watts of the machine's file, and {} has none, need {}", machine.name,
       fmt::join(known, ", "));
}

Score score(Objective objective, const Costs& c) {
  switch (objective) {
    case Objective::memory:
      return {c.mib, c.ms};
    case Objective::tokens_per_device:  // a step has the same tokens everywhere
      return {c.ms * static_cast<double>(c.world), c.ms};
    case Objective::devices:
      return {static_cast<double>(c.world), c.ms};
    case Objective::tokens_per_joule:
      return {c.joules, c.ms};
    case Objective::time:
      break;
  }
  return {c.ms, c.mib};
}

}  // namespace mbench::search
