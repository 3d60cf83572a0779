#include "api/free_layout.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/json_reader.h"

namespace mbench::api {
namespace {

constexpr std::array<std::string_view, 16> kLayout = {"tp",
                                                      "pp",
                                                      "dp",
                                                      "cp",
                                                      "ep",
                                                      "etp",
                                                      "micro_batch",
                                                      "sequence_parallel",
                                                      "strategy",
                                                      "recompute",
                                                      "recompute_layers",
                                                      "schedule",
                                                      "virtual_stages",
                                                      "micro_batch_group",
                                                      "first_stage_layers",
                                                      "last_stage_layers"};

}  // namespace

FreedLayout free_layout(nlohmann::ordered_json& spec) {
  FreedLayout freed{{}, spec};
  spec["search"] = "all";
  if (spec.contains("pipeline_layout")) return freed;
  for (const std::string_view field : kLayout) {
    const auto found = spec.find(field);
    if (found == spec.end()) continue;
    freed.was.push_back(fmt::format("{}={}", field, word_of(*found)));
    const nlohmann::ordered_json own = *found;
    spec.erase(found);
    // Of these strategies offer only some values, or none.
    if (field == "recompute") spec["recompute"] = {"any", own};
    if (field == "recompute_layers" && own != 0) spec["recompute_layers"] = {0, own};
    if (field == "micro_batch") spec["micro_batch"] = {"any", own};
  }
  return freed;
}

}  // namespace mbench::api
