// Activation recomputation. Full (Chen et al. 2016): of every layer only the input is kept. Selective
// (Korthikanti et al. 2022): only the attention core, whose scores grow with the square of the sequence, is
// computed again.
#include "strategies/strategies.h"

namespace mbench::strategies {

void write_recompute(const Point& point, Plan& plan) {
  plan.save = {.drop_layers = point.recompute == Recompute::full,
               .drop_attention_core = point.recompute == Recompute::selective};
}

}  // namespace mbench::strategies
