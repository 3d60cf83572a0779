// Which ranks of a mesh do the same at the same time, so one of them stands for all. In a dense layout they are those of a pipeline
// stage: its tensor- and data-parallel peers hold the same shapes.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace mbench::sim {

struct RankClasses {
  struct Class {
    int rank = 0;   // the one that stands for all
    int ranks = 0;  // how many they are
    int stage = 0;
    // Classes of one kind run the same code on the same shapes and links. They differ in when they run it, and with whom.
    int kind = 0;
  };
  std::vector<Class> classes;
  std::vector<int> of_rank;  // [rank]

  int size() const { return static_cast<int>(classes.size()); }
};

// `devices_per_node`: needed where groups of equal ranks may cross nodes differently; 0 if that makes no difference.
RankClasses rank_classes(const Plan& plan, int devices_per_node);

}  // namespace mbench::sim
