// --trace FILE: where the timelines of a run or a sweep go.
#pragma once
#include <string>

#include "cli/simulation.h"
#include "engine/comm/group.h"
#include "sweeps/spec.h"

namespace mbench::cli {

// FILE, or where the spec has several points FILE with the point's id before its extension.
std::string trace_path(const std::string& file, const sweeps::Spec& spec, const Point& point);

PointResult simulate_with_trace(Simulator& simulator, const Point& point, const std::string& path);

// Of the ranks of an MPI job: each writes a part beside the file, rank 0 joins them.
void write_trace(const std::string& path, const Timeline& mine, int stage, World& world, Group& all);

}  // namespace mbench::cli
