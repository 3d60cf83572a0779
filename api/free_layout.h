// Turns a trainer's file into a space to search. The file says what is trained; its own layout is one of the candidates.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mbench::api {

// The layout in a trainer's file.
struct FreedLayout {
  std::vector<std::string> was;        // "tp=4"
  nlohmann::ordered_json spec_as_was;  // with it
};

// Takes the layout out of the spec: sizes of the mesh, micro batch, schedule, recompute. All fields that strategies offer values for
// become free; its own recompute and micro batch join what they offer. Returns the layout that was there; nothing where stages set by hand fix it.
FreedLayout free_layout(nlohmann::ordered_json& spec);

// Whether an override such as "tp=any" leaves a field free.
bool is_freeing(const std::string& set);

// What a search may change, in `spec`: what was imported, or nothing for a plain spec at `path`. Of a trainer's file, and of a spec that
// names no free field, the layout is free. With overrides that free fields, a spec has only these, and the model of a config.json has all.
// Returns the layout that was there, where it is free now.
std::optional<FreedLayout> free_fields(std::optional<nlohmann::ordered_json>& spec, const std::string& path,
                                       const std::vector<std::string>& set, bool of_trainer);

}  // namespace mbench::api
