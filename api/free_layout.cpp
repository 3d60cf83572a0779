#include "api/free_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/json_reader.h"
#include "sweeps/spec/found_layouts.h"

namespace mbench::api {
namespace {

constexpr std::array<std::string_view, 17> kLayout = {"tp",
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
                                                      "last_stage_layers",
                                                      "pipeline_layout"};

// Of torchtitan stages follow from the pipeline's degree, and are not set by hand.
bool has_own_stages(const nlohmann::ordered_json& spec) {
  if (!spec.contains("pipeline_layout")) return false;
  const auto framework = spec.find("framework");
  return framework == spec.end() ||
         (framework->is_object() ? framework->value("preset", "") : word_of(*framework)) != "torchtitan";
}

// Whether the spec names no free field.
bool is_one_layout(const nlohmann::ordered_json& spec) {
  return spec.is_object() && !spec.contains("sweep") && !sweeps::leaves_fields_free(spec);
}

}  // namespace

FreedLayout free_layout(nlohmann::ordered_json& spec) {
  FreedLayout freed{{}, spec};
  spec["search"] = "all";
  if (has_own_stages(spec)) return freed;
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

bool is_freeing(const std::string& set) {
  const std::string value = set.substr(set.find('=') + 1);
  return value == "any" || value.starts_with("[");
}

std::optional<FreedLayout> free_fields(std::optional<nlohmann::ordered_json>& spec, const std::string& path,
                                       const std::vector<std::string>& set, bool of_trainer) {
  if (of_trainer) return free_layout(*spec);
  std::error_code ignored;
  const bool plain = !spec;
  if (plain && !std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  nlohmann::ordered_json json = plain ? parse_json(read_text_file(path), path) : std::move(*spec);
  std::optional<FreedLayout> was;
  if (is_one_layout(json)) {
    if (std::none_of(set.begin(), set.end(), is_freeing))
      was = free_layout(json);
    else if (!plain)
      json["search"] = "all";
  }
  if (was || !plain) spec = std::move(json);
  return was;
}

}  // namespace mbench::api
