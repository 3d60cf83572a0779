// What the router of a spec means for the rows of experts.
#pragma once
#include "engine/point/point.h"

namespace mbench::strategies {

// Whether any layer has a dense feed-forward block.
bool has_dense(const ModelSpec& m);

// Whether balanced routing gives all experts the same number of rows. The tokens that a rank dispatches must then be a multiple of the
// cycle in which it chooses all equally often.
bool has_equal_shares(const Point& p);

// Whether the host has to read how many rows experts have: it is known neither from the layout nor from a capacity.
bool reads_rows(const Point& p);

}  // namespace mbench::strategies
