// Which rank of a measured point holds the others up. A rank's own time is its step without collectives, messages and waiting for them
// (compute_ms_by_rank of the result). The ranks that wait for a slow one have long steps too, but no more own time.
//
// A rank is compared with its peers, the other ranks of its pipeline stage, which have the same work. It is compared with their median,
// for each part of the measured steps (StepParts of result.h: up to 12, medians of so many consecutive steps). Twelve are enough: the
// least p of a rank test of 12 and 12 is 7e-7. Holm's correction leaves that below 0.01 among ten thousand ranks.
//
//   straggler   Its median is above its peers' by 10 % or more, beyond doubt. The 99 % bootstrap interval of the ratio lies above 1.1,
//               and the rank test agrees (p < 0.01, corrected by Holm for the number of ranks). Both are widened where samples
//               depend on one another, as the gate's are.
//
// None is named with fewer than 5 steps, of a rank without peers, or where the data decide what work a rank has (learned routing). Nor
// is one where ranks do not report their times: simulations, a GPU's replayed steps.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/point/result.h"

namespace mbench::reports {

inline constexpr double kStraggles = 0.10;

struct RankTimes {
  std::int64_t stage = 0;
  double compute_ms = 0;                                            // median of its steps
  double against_peers = std::numeric_limits<double>::quiet_NaN();  // over the median of its peers; NaN without any
  bool straggler = false;
};

// Of all ranks, in their order; empty where they reported none.
std::vector<RankTimes> rank_times(const PointResult& result);

// "straggler: rank 3 on h2 computes 42 % longer than the other ranks of its stage", of up to four ranks; empty if there is none.
std::string straggler_text(const PointResult& result);

}  // namespace mbench::reports
