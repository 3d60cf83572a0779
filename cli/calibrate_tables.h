// The tables of a machine file, measured on the ranks of a job. All ranks compute at once, as the ranks of a layout do. Measured are
// ops in steps of small models, with a clock around each; GEMMs by shape; and the calls of groups by size.
#pragma once
#include <string>

#include "engine/platform/registry.h"
#include "engine/sim/machine/measured.h"

namespace mbench::cli {

struct TablesOptions {
  std::string device = "cpu";
  bool quick = false;  // coarser grids, fewer models: seconds
};

struct MeasuredTables {
  sim::Measured measured;  // of one number of ranks
  double host_speed = 0;   // of the engine's host code, relative to the figures of framework mbench; 0: not measured
};

// Every rank calls it; rank 0's result counts.
MeasuredTables measure_tables(platform::Job& job, const TablesOptions& options);

}  // namespace mbench::cli
