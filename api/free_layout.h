// A trainer's file as a space to search: it says what is trained, and its own layout is one of those that are looked for.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mbench::api {

// What a trainer's file says of its layout.
struct FreedLayout {
  std::vector<std::string> was;        // "tp=4"
  nlohmann::ordered_json spec_as_was;  // with it
};

// Takes the layout (sizes of the mesh, micro batch, schedule, recompute) out of the spec and frees all that strategies offer values of,
// and gives what it was; nothing where stages by hand fix it.
FreedLayout free_layout(nlohmann::ordered_json& spec);

}  // namespace mbench::api
