// What the router of a spec means for the rows of experts.
#pragma once
#include "engine/point/point.h"

namespace mbench::strategies {

// Whether any layer has a dense feed-forward block.
bool has_dense(const ModelSpec& m);

// Whether balanced routing gives all experts the same number of rows. The tokens that a rank dispatches must then be a multiple of the
// cycle in which it chooses all equally often.
bool has_equal_shares(const Point& p);

// The tokens that a rank dispatches of a micro batch.
std::int64_t dispatched_tokens(const Point& p);

// Whether the host has to read how many rows experts have: it is known neither from the layout nor from a capacity. With
// expert_rank_capacity a framework's GEMMs find it on the device, and the engine's do not.
bool reads_rows(const Point& p);

}  // namespace mbench::strategies
