// Activation recomputation. Full (Chen et al. 2016): of every layer only the input is kept. Selective
// (Korthikanti et al. 2022): only the attention core, whose scores grow with the square of the sequence, is
// computed again.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

Regions regions_of(Recompute mode) {
  switch (mode) {
    case Recompute::full:
      return {Region::layer};
    case Recompute::selective:
      return {Region::core_attention};
    case Recompute::none:
      break;
  }
  return {};
}

std::vector<Choice> choices(const Point&, std::int64_t) {
  return {{"recompute", {"none", "selective", "full"}}};
}

void write(const Point& p, Plan& plan) {
  plan.recompute.assign(static_cast<std::size_t>(p.model.layers + p.model.mtp_layers),
                        regions_of(p.recompute));
}

}  // namespace

Strategy recompute() {
  return {"recompute", {"recompute", "strategy"}, nullptr, choices, write};
}

}  // namespace mbench::strategies
