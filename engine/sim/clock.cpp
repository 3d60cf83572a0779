#include "engine/sim/clock.h"

namespace mbench {

// Here and not inline, so that every caller gets the same bits: what a compiler joins to a fused multiply-add depends on what
// stands around it.
Interval VirtualClock::kernel(double seconds, TimePart part) {
  const double before = now();
  host_ += together_ ? times_.launch_together : times_.launch;
  charge(TimePart::host, before);
  const double begin = now();
  const double beside = std::min(begin + seconds, beside_.end) - std::max(begin, beside_.begin);
  wait_until(begin + seconds + std::max(0.0, beside) * times_.overlap_slowdown, part);
  return {begin, compute_};
}

}  // namespace mbench
