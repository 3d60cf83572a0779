// Measures the device that this process runs on, its CPU or its first GPU, and writes a machine file. With that file the device can be
// simulated and the time of a sweep estimated. What takes several ranks is not measured here: links and the network are estimates, and each
// says so.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/point/choices.h"

namespace mbench::platform {

struct CalibrationOptions {
  double seconds = 3;       // to spend measuring, about
  std::string measured_on;  // "AMD EPYC, 2 cores, 2026-11-21": goes into every source
  int cores = 1;
  std::uint64_t memory_bytes = 0;  // of the host
  std::function<void()> between;   // called before each measurement; what it throws ends them
};

// A machine file, as engine/sim/machine/machine.h reads it.
nlohmann::ordered_json calibrate_cpu(const CalibrationOptions& options);
// The same for the first GPU. `peak`: its dense peak by datasheet in FLOP/s for a precision, 0 where none is known. In that case the rate
// of a large GEMM replaces it.
nlohmann::ordered_json calibrate_gpu(const CalibrationOptions& options,
                                     const std::function<double(const std::string& name, Precision)>& peak);

}  // namespace mbench::platform
