// Whether step times changed where the two sides took turns (mbench sweep --take-turns): each turn of one is held against the turn of
// the other beside it, so that what the machine did besides, which lasts longer than a turn, is in both and cancels.
//
// A pair of turns is the ratio of their mean steps, so that a stall within a turn counts. The interval and the test are Wilcoxon's, of signed ranks (1945), with the estimate
// that belongs to them (the median of all means of two pairs, Hodges and Lehmann, 1963); pairs that follow one another
// count as many as they are worth. Verdicts are those of time_verdict.h.
//
// The middle of all pairs does not see a stall of every twentieth step. So the sum of all turns is weighed as well, by Student's
// interval of the ratio of means with the pairs' own spread: where it is beyond doubt longer, and by 2/3 of the threshold, the verdict
// is no "same" but "ambiguous". A neighbour makes that interval wide, and then it says nothing.
//
// Time on the clock has what the machine took from the ranks in it, the CPU time of their main threads has not: so where the clock
// cannot tell, CPU time may say "slower" or "faster". It never says "same", for it does not see what is waited for.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"
#include "reports/gate/time_verdict.h"

namespace mbench::reports {

// The turns of one point, of all rounds in which it was measured.
struct TurnsEvidence {
  TimeEvidence clock, cpu;
  std::vector<double> clock_rounds, cpu_rounds;  // the ratio of each round alone
  MeanRatio total;                               // of all turns on the clock
  std::string pattern;                           // of the slow steps of the first round, where they recur (pattern.h)
};

// Whether these can be held against each other turn by turn: both took turns of as many steps, and enough of them.
bool took_turns(const PointResult& now, const PointResult& base);

class TurnsTest {
 public:
  // Of rounds for each of which took_turns().
  static TurnsEvidence weigh(const std::vector<const PointResult*>& now, const std::vector<const PointResult*>& base);
};

// `clock_p`, `cpu_p`: corrected. Rounds must agree, for a process keeps what place it got in memory and caches, and all its steps with
// it: each on that side of a third of the threshold, of four or more two thirds, and no more than one in six on the other side of it.
TimeJudgement judge_turns(const TurnsEvidence& evidence, double clock_p, double cpu_p, double threshold);

}  // namespace mbench::reports
