// Whether step times changed where the two sides took turns (mbench sweep --take-turns). Each turn of one side is compared with the
// neighbouring turn of the other. What else the machine did lasts longer than a turn, so it is in both and cancels.
//
// A pair of turns gives the ratio of their mean steps, so a stall within a turn counts. The interval and the test are Wilcoxon's signed
// ranks (1945). Their estimate is the median of all means of two pairs (Hodges and Lehmann, 1963). Pairs that follow one another count
// as many as they are worth. Verdicts are those of time_verdict.h.
//
// The middle of all pairs does not see a stall of every twentieth step. So the sum of all turns is weighed as well, by Student's
// interval of the ratio of means with the pairs' own spread. Where it is longer beyond doubt, and by 2/3 of the threshold, "same"
// becomes "ambiguous". A neighbour makes that interval wide, and then it says nothing.
//
// Time on the clock includes what the machine took from the ranks. The CPU time of their main threads does not. So where the clock
// cannot decide, CPU time may say "slower" or "faster". It never says "same", because it does not see what is waited for.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"
#include "reports/gate/time_verdict.h"

namespace mbench::reports {

// The turns of one point, of all rounds in which it was measured.
struct TurnsEvidence {
  TimeEvidence clock, cpu;
  std::vector<double> clock_rounds, cpu_rounds;  // the ratio of each single round
  MeanRatio total;                               // of all turns on the clock
  std::string pattern;                           // of the slow steps of the first round, where they recur (pattern.h)
};

// Whether these can be compared turn by turn: both took turns of as many steps, and enough of them.
bool took_turns(const PointResult& now, const PointResult& base);

class TurnsTest {
 public:
  // Each round must satisfy took_turns().
  static TurnsEvidence weigh(const std::vector<const PointResult*>& now, const std::vector<const PointResult*>& base);
};

// `clock_p`, `cpu_p`: corrected. Rounds must agree, because a process keeps its place in memory and caches, and all its steps depend on
// it. Each round must lie on that side of a third of the threshold; of four or more, two thirds must. No more than one in six may lie
// on the other side.
TimeJudgement judge_turns(const TurnsEvidence& evidence, double clock_p, double cpu_p, double threshold);

}  // namespace mbench::reports
