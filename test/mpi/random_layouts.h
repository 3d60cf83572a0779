// Layouts drawn from a seed: any fields that can be together, of small models of every family, on 2 to 8 ranks.
#pragma once
#include <cstdint>

#include "test/mpi/layouts.h"

namespace mbench::test {

// `count` layouts that are all different, of three steps; the same for the same seed on every machine and rank. `candidates`: how many
// were drawn for them, those that cannot be among them.
std::vector<Layout> random_layouts(std::uint64_t seed, std::size_t count, std::size_t* candidates = nullptr);

// What a run of test_mpi draws: by default 200 of one seed; --drawn and --seed name others.
struct Drawn {
  std::size_t count = 200;
  std::uint64_t seed = 20;
};
inline Drawn& drawn() {
  static Drawn chosen;
  return chosen;
}

}  // namespace mbench::test
