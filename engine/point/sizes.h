// Sizes that are each within bounds may be too large together: more bytes than 64 bits can count, or a schedule too long to finish.
#pragma once

namespace mbench {

struct Point;

// Infeasible where the weights, the activations of a step or the elements that a random draw counts exceed 62 bits. The same where a step
// has more than two million micro batches over all stages and chunks.
void check_sizes(const Point& point);

}  // namespace mbench
