// Stored baselines: a folder made for git. Each machine has a folder, named by its fingerprint (comparable.h). In it each point has a
// file, named by its id, with what was measured over time:
//
//   baselines/amd-epyc-7742-64-cores-1f3a09c2/989632457b6336d2.json
//   {"schema": "mbench.baseline/1", "id", "machine": {...}, "point": {its configuration},
//    "history": [{"date", "revision", "sweep", "environment": {software}, "outcome", "peak_memory_mib",
//    "losses", "samples_ms", "time_anatomy_ms", ..., "pinned": true}]}
//
// One entry of a point may be pinned: later ones are compared with it where a user asks for that. Keys are sorted, and an array or an
// object of numbers is one line, so a new entry is a diff of a few lines. All samples are kept: time is compared by samples. Where only
// memory is stored, it belongs to a kind of device and not to a machine: the allocator counts the same bytes on every CPU.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/result_file.h"

namespace mbench::reports {

struct BaselineEntry {
  std::string date;                                       // ISO 8601, UTC: "2026-11-21T17:26:17Z"
  std::string revision;                                   // of what was measured; git's
  std::string sweep;                                      // the name of the spec
  nlohmann::json environment = nlohmann::json::object();  // drivers, libraries, compiler, FLOP formula
  PointResult result;
  bool pinned = false;
};

struct BaselineFile {
  static constexpr const char* kSchema = "mbench.baseline/1";
  std::string id;
  nlohmann::json machine = nlohmann::json::object();
  std::vector<BaselineEntry> history;  // oldest first, at least one
  const BaselineEntry& newest() const { return history.back(); }
};

// Throws bad_input naming the file and JSON path for whatever is not as above.
BaselineFile read_baseline_file(const std::string& path);
void write_baseline_file(const std::string& path, const BaselineFile& file);
// The text that write_baseline_file writes.
std::string baseline_text(const BaselineFile& file);

// What one point of a result file is as an entry. `memory_only`: without time, and without losses unless `with_losses`.
BaselineEntry entry_of(const ResultFile& file, const PointResult& point, bool memory_only, bool with_losses = false);
// The hardware it belongs to.
nlohmann::json machine_of_entry(const ResultFile& file, const PointResult& point, bool memory_only);

}  // namespace mbench::reports
