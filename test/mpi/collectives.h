// Every call of Group, held to its contract on groups of any size of a world: for each backend the same.
#pragma once
#include "engine/comm/group.h"

namespace mbench::test {

// All ranks of the world call these alike. They make groups of all ranks, then of each power of two below,
// ranks that are neighbours and ranks that are far apart, which are all there at once.
void check_collectives(World& world, Device& device);
void check_all_to_all(World& world, Device& device);
void check_messages(World& world, Device& device);
void check_host_values(World& world, Device& device);
void check_refusals(World& world, Device& device);

}  // namespace mbench::test
