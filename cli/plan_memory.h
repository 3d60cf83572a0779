// mbench plan --memory and --memory-snapshot: what the fullest rank of a point holds, tensor by tensor. Others read that too.
#pragma once
#include <string>
#include <string_view>

#include "api/point_simulator.h"
#include "engine/plan/plan.h"
#include "engine/sim/recording/recorder.h"

namespace mbench::cli {

// The recorded step, and the class of ranks that has most handed out.
struct Fullest {
  sim::Recording recording;
  const sim::RankClasses::Class* ranks = nullptr;
};
Fullest fullest_of(const Point& point, const Plan& plan, api::PointSimulator& simulator);

// The tensors at the peak, the largest first, and what would free memory: two tables. Also for a point that does not fit the machine.
std::string memory_by_tensor(const Point& point, const Plan& plan, api::PointSimulator& simulator);

// Writes the snapshot of a step; what it holds, in words.
std::string write_memory_snapshot(const std::string& path, const Point& point, const Plan& plan,
                                  api::PointSimulator& simulator);

}  // namespace mbench::cli
