// Simulated points for the commands and the library: from a point's device ("sim:8xV100-SXM2-16GB") and framework to its
// result.
#pragma once
#include <map>
#include <string>
#include <tuple>

#include "engine/point/result.h"
#include "engine/sim/run/simulate.h"

namespace mbench::api {

// Where a simulated step time is to be expected in a real run (explain/peers.h); nothing is added where there is no time.
void add_interval(PointResult& simulated, const sim::Machine& machine);

class PointSimulator {
 public:
  // Throws bad_input where the point's machine or framework cannot be read.
  void check(const Point& point);
  // The result. Its outcome is oom, infeasible or unsupported where the step is impossible. Its reason names the loader where the loader
  // decides the time of the step.
  PointResult run(const Point& point);
  void name_loader(sim::Simulation& simulation);
  sim::Simulation attempt(const Point& point, const sim::SimulateOptions& options = {});
  // The same, but it throws where there is no step.
  sim::Simulation simulate(const Point& point, const sim::SimulateOptions& options = {});
  const sim::Machine& machine_of(const Point& point);

 private:
  // With figures that differ, and so many ranks on a node.
  std::map<std::tuple<std::string, std::map<std::string, double>, std::int64_t>, sim::Machine> machines_;
};

}  // namespace mbench::api
