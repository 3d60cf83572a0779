// What more memory would give. Of the layouts that do not fit and would be faster than the best, the one that takes the least memory is
// looked for.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "search/candidate.h"

namespace mbench::search {

class Larger {
 public:
  // By its lower bound the layout does not fit. Kept unless another takes no more time and no more memory.
  void remember(const Candidate& c);
  // Simulated, and does not fit.
  void remember(Tried&& t) { tried_.push_back(std::move(t)); }
  // Simulates the smallest of them, as many as it takes. `stopped`: whether to give up.
  std::optional<Tried> find(double best_ms, const SearchTarget& place, const std::function<bool()>& stopped);

 private:
  std::vector<Candidate> bounded_;
  std::vector<Tried> tried_;
};

}  // namespace mbench::search
