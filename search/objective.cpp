#include "search/objective.h"

#include <array>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench::search {
namespace {

constexpr std::array<std::pair<std::string_view, Objective>, 4> kObjectives = {
    {{"time", Objective::time},
     {"memory", Objective::memory},
     {"tokens_per_device", Objective::tokens_per_device},
     {"devices", Objective::devices}}};

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

Score score(Objective objective, double ms, double mib, std::int64_t world) {
  switch (objective) {
    case Objective::memory:
      return {mib, ms};
    case Objective::tokens_per_device:  // a step has the same tokens everywhere
      return {ms * static_cast<double>(world), ms};
    case Objective::devices:
      return {static_cast<double>(world), ms};
    case Objective::time:
      break;
  }
  return {ms, mib};
}

}  // namespace mbench::search
