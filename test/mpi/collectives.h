// Tests every call of Group against its contract, on groups of any size of a world, for each backend alike.
#pragma once
#include "engine/comm/group.h"

namespace mbench::test {

// All ranks of the world call these alike. They make groups of all ranks, then of each power of two below. Some are of neighbouring
// ranks, some of distant ranks, and all exist at once.
void check_collectives(comm::World& world, Device& device);
void check_all_to_all(comm::World& world, Device& device);
void check_messages(comm::World& world, Device& device);
void check_host_values(comm::World& world, Device& device);
void check_refusals(comm::World& world, Device& device);

}  // namespace mbench::test
