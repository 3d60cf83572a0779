// Expert parallelism: whole experts on different ranks.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

MaybeRefusal refuse(const Point& p) {
  if (p.ep > 1 && p.model.experts % p.ep != 0)
    return infeasible("ep {} does not divide the {} experts, need ep {}", p.ep, p.model.experts,
                      nearest_divisors(p.ep, p.model.experts));
  if (p.ep > 1) return not_built_in(fmt::format("ep {}", p.ep), "ep 1");
  return std::nullopt;
}

}  // namespace

Strategy expert() {
  return {"expert", {"ep"}, refuse, nullptr, nullptr};
}

}  // namespace mbench::strategies
