// The flags of ranks of experts, of how tokens reach them, and of how the ranks of a sequence meet.
#pragma once
#include "formats/table/rules.h"

namespace mbench::formats {

const Rule& expert_ranks_rule();

}  // namespace mbench::formats
