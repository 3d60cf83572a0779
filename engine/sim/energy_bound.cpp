#include "engine/sim/energy_bound.h"

#include <algorithm>

#include "engine/point/point.h"
#include "engine/run/flops.h"

namespace mbench::sim {

double least_joules(const Point& p, double seconds, const Machine& machine) {
  if (!machine.device.watts) return 0;
  const PowerCurve& watts = *machine.device.watts;
  const double idle = watts.idle * static_cast<double>(p.world()) * seconds;
  if (machine.measured) return idle;  // its tables may be faster than the peak says
  const auto& peaks = machine.device.peak_flops;
  return idle + (watts.gemm - watts.idle) * model_flops_causal(p) / *std::max_element(peaks.begin(), peaks.end());
}

}  // namespace mbench::sim
