// What tests of modules vary in a framework: whose tensors a step keeps and whose ops it fuses, with this engine's own host.
#pragma once
#include <string_view>

#include "engine/framework/framework.h"
#include "engine/point/point.h"

namespace mbench {

enum class Graph { eager, fused, megatron_core };

inline std::string_view name_of(Graph graph) {
  return graph == Graph::eager ? "megatron-2022" : graph == Graph::fused ? "mbench" : "megatron-core";
}

inline FrameworkSpec keeps(Graph graph) {
  return graph == Graph::fused ? FrameworkSpec()
                               : FrameworkSpec{.preset = std::string(name_of(graph)), .host = "mbench"};
}

}  // namespace mbench
