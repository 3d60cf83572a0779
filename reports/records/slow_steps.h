// Which steps of a run took much longer than the others, and how they recur. Examples are a stall of every fourth step, a share of
// steps in a slow mode, one spike, a warm-up that was too short.
//
// A step is slow if it lies above the median by 10 % and by 6 spreads (1.4826 times the median distance from it, as in flags.h). Where
// many steps are slow they move the median and widen the spread. So the other steps are also separated by the split that leaves the
// least variance within both parts (Otsu, 1979). The parts must differ by 4 of their spreads (Ashman, Bird and Zepf, 1994, ask for 2)
// and by 8 %. Neighbouring slow steps are one episode, since what disturbs a machine lasts for a while.
#pragma once
#include <cstddef>
#include <vector>

namespace mbench::reports {

struct SlowSteps {
  std::size_t samples = 0;      // that are judged: without the warm-up
  std::vector<std::size_t> at;  // the slow ones, from 0, in the order of all samples
  std::size_t episodes = 0;
  double size = 1;         // their median over the body
  double cost = 0;         // what they add to the mean step, as a share of the body
  std::size_t period = 0;  // every so many-th step is slow, and no other; 0: there is no such rule beyond chance
  double body = 0;         // mean of the steps that are not slow

  // First steps that all lie above the second half, at most a tenth: paid once for a run, and so in no other figure here.
  std::size_t warm_up = 0;
  double warm_up_size = 1, warm_up_cost = 0;

  bool recurs() const { return episodes >= 2; }
  bool is_spike() const { return at.size() == 1; }  // one short slow step
  bool is_episode() const { return episodes == 1 && !is_spike(); }
  bool reaches_end() const { return is_episode() && at.back() + 1 == samples + warm_up; }
  bool is_level() const { return reaches_end() || from_start(); }  // and no stall
  bool from_start() const { return is_episode() && at.front() == 0; }
};
// Positive samples in the order they were taken, at least one.
SlowSteps slow_steps(const std::vector<double>& samples);

// The limit between two modes that differ by so many spreads and by this factor or more; infinity if there are none.
double limit_between_modes(const std::vector<double>& samples, double least_factor, double spreads);

// The samples that are judged, and those of them that are not slow.
std::vector<double> without_warm_up(const std::vector<double>& samples, const SlowSteps& slow);
std::vector<double> body_of(const std::vector<double>& samples, const SlowSteps& slow);

// The mean step without warm-up and without a single spike: what a user goes on to pay.
double paid_mean(const std::vector<double>& samples);

}  // namespace mbench::reports
