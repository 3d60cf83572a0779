#include "engine/sim/run/rank_classes.h"

#include <algorithm>

#include "engine/base/error.h"

namespace mbench::sim {
namespace {

// Whether two stages hold the same: as many chunks, each of as many layers of the same recompute and precision, with the same ends.
bool alike(const Plan& plan, int a, int b) {
  const auto& x = plan.chunks[static_cast<std::size_t>(a)];
  const auto& y = plan.chunks[static_cast<std::size_t>(b)];
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!x[i].like(y[i])) return false;
    for (std::int64_t l = 0; l < x[i].layers; ++l) {
      const auto p = x[i].first_layer + l, q = y[i].first_layer + l;
      if (!(plan.recompute.at(static_cast<std::size_t>(p)) == plan.recompute.at(static_cast<std::size_t>(q))))
        return false;
      if (!same_kind(plan.model, p, q)) return false;
      if (plan.precision.in_16_bits(p, plan.model.layers) != plan.precision.in_16_bits(q, plan.model.layers))
        return false;
    }
  }
  return true;
}

}  // namespace

RankClasses rank_classes(const Plan& plan, int devices_per_node) {
  const int stages = plan.mesh.size(Axis::pp), ranks = plan.mesh.world() / stages;
  RankClasses all;
  all.of_rank.resize(static_cast<std::size_t>(plan.mesh.world()));
  if (plan.single_process) {  // the first does more than the others, which it waits for
    for (int rank = 0; rank < ranks; ++rank) {
      all.of_rank[static_cast<std::size_t>(rank)] = rank;
      all.classes.push_back({rank, 1, 0, std::min(rank, 1)});
    }
    return all;
  }
  for (int stage = 0; stage < stages; ++stage) {
    RankClasses::Class mine{stage * ranks, ranks, stage, stage};
    std::fill_n(all.of_rank.begin() + mine.rank, ranks, stage);
    // The ends of a pipeline are in a group of their own.
    const bool end = stage == 0 || stage == stages - 1;
    for (const RankClasses::Class& other : all.classes) {
      const bool other_end = other.stage == 0 || other.stage == stages - 1;
      const bool same_place = devices_per_node == 0 || mine.rank % devices_per_node == other.rank % devices_per_node;
      if (end || other_end || !same_place || !alike(plan, stage, other.stage)) continue;
      mine.kind = other.kind;
      break;
    }
    all.classes.push_back(mine);
  }
  return all;
}

}  // namespace mbench::sim
