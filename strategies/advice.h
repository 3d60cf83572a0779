// What a point that is refused could be instead. A strategy names values that its own rule accepts. Here each is tried on the whole
// point. What another rule would refuse is left out, or reported with the changes that it needs too. So what is reported is accepted.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "strategies/strategies.h"

namespace mbench::strategies {

// A value for one field of a point, or of its model ("bias").
struct Change {
  std::string field;
  nlohmann::json value;
  bool operator==(const Change&) const = default;
};
// Changes that are made together.
using Remedy = std::vector<Change>;

// The point with a remedy; nothing where no reader takes a value. Fields of a model have its name before them ("model.bias"). A
// device "sim:" stands for any that is simulated.
std::optional<Point> with(const Point& point, const Remedy& remedy);

// The nearest remedies, those of one change first, after which no strategy refuses the point. Of each way at most two numbers, the
// nearest below and above, and where it wants further changes the fewest that were found. Empty: none was found.
std::vector<Remedy> remedies(const Point& point, const Fault& fault);

// "WHAT, need tp 2 or 4, or sequence_parallel false": the remedies in words.
std::string explain(const Point& point, const Fault& fault);

}  // namespace mbench::strategies
