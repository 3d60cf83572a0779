// The flags of models whose layers are of different kinds.
#pragma once
#include "formats/table/rules.h"

namespace mbench::formats {

const Rule& hybrid_rule();

}  // namespace mbench::formats
