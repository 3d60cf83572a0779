// What every report says next to its numbers: the machine they were measured on, how FLOPs are counted, and the peak of MFU with its
// source.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"
#include "reports/records/record.h"

namespace mbench::reports {

// "Measured on: ...", "Software: ...": one line each, without a trailing newline. What the file lacks is named as not recorded.
std::vector<std::string> measured_on(const ResultFile& file);

// The fields that all points share: those that say what was trained, and any other that is not at its
// default.
std::string common_to_all(const std::vector<const Record*>& records);

// The FLOP formula with its version, and the peaks in use with their source.
std::vector<std::string> how_counted(const ResultFile& file);

}  // namespace mbench::reports
