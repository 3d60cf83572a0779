// --trace FILE: where the timelines of a run or a sweep go.
#pragma once
#include <string>

#include "api/point_simulator.h"
#include "engine/comm/group.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {

// FILE, or where the spec has several points FILE with the point's id before its extension.
std::string trace_path(const std::string& file, const sweeps::Spec& spec, const Point& point);

struct TracedResult {
  PointResult result;
  std::string unwritten;  // why the trace could not be written; empty if it was
};
TracedResult simulate_with_trace(api::PointSimulator& simulator, const Point& point, const std::string& path);

// For the ranks of an MPI job, which are `all`. Rank 0 gathers their timelines and writes the file, so other nodes need not see its
// place. "-" is standard output, as lines of JSON for a sweep: {"trace": "...", "more": true}. Returns why it could not be written;
// empty if it was, and on all other ranks.
std::string write_trace(const std::string& path, const Timeline& mine, int stage, comm::Group& all);

}  // namespace mbench::cli
