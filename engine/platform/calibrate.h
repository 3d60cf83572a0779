// Measures the CPU this process runs on and writes it down as a machine file, so that it can be simulated and
// the time of a sweep estimated.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace mbench {

struct CalibrationOptions {
  double seconds = 3;       // to spend measuring, about
  std::string measured_on;  // "AMD EPYC, 2 cores, 2026-11-21": goes into every source
  int cores = 1;
  std::uint64_t memory_bytes = 0;
};

// A machine file, as engine/sim/machine.h reads it.
nlohmann::ordered_json calibrate_cpu(const CalibrationOptions& options);

}  // namespace mbench
