// Turns a trainer's file into a space to search. The file says what is trained; its own layout is one of the candidates.
#pragma once
#include <nlohmann/json.hpp>
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

}  // namespace mbench::api
