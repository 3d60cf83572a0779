// How many processes a point's ranks are: one each, or threads of one.
#pragma once
#include "engine/point/layout_spec.h"

namespace mbench {

inline std::int64_t processes_of(const LayoutSpec& p) {
  return p.replicas == Replicas::single_process ? 1 : p.world();
}

}  // namespace mbench
