// Sizes that each stand within their bounds may still have products that do not: more bytes than 64 bits can count, or a
// schedule that no program ends.
#pragma once

namespace mbench {

struct Point;

// Infeasible where the weights, the activations of a step or the elements that a random draw counts leave 62 bits, or a step
// has more than two million micro batches over all stages and chunks.
void check_sizes(const Point& point);

}  // namespace mbench
