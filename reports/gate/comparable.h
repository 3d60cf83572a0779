// Which points of two result files may be compared, and why others may not.
#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"

namespace mbench::reports {

struct Matches {
  // For each point of NEW the baseline's point of the same id, or else the one that differs only in device, model and precision. Both
  // are null where there is neither.
  std::vector<const PointResult*> same, alike;
  std::vector<std::size_t> missing;  // points of the baseline that NEW has nothing for
};
// `allow_different`: fields in which a point of NEW may differ from the same point of the baseline, where the baseline has no other.
Matches match_points(const ResultFile& now, const ResultFile& baseline,
                     const std::vector<std::string>& allow_different = {});
// The point's id with these fields at their defaults.
std::string id_without(const Point& point, const std::vector<std::string>& fields);

// Why two points may not be compared, or nothing. These must be equal: simulated or measured, the kind of device (the whole device if
// simulated), the model, and the precision. So must the device's name and the FLOP formula. For measured points more must be equal,
// unless only memory is compared: the machine's CPU and cores, the number of hosts, and the ranks on each.
class Comparability {
 public:
  Comparability(const nlohmann::ordered_json& now, const nlohmann::ordered_json& baseline, bool same_machine);
  std::string why_not(const PointResult& now, const PointResult& baseline) const;

 private:
  bool same_machine_;
  std::string formula_, hardware_;  // reasons that hold for all points; for all measured ones
};

// Throws bad_input with the reason if nothing in the two files can be compared.
void refuse_unlike_files(const ResultFile& now, const ResultFile& baseline, const Matches& matches,
                         const Comparability& comparability);

// The hardware that a measured point belongs to, and its name as a folder: "amd-epyc-7742-64-cores-v100-x-8-1f3a09c2". For a simulated
// point only the simulated machine.
nlohmann::json machine_of(const nlohmann::ordered_json& environment, const PointResult& point);
std::string fingerprint_of(const nlohmann::json& machine);

// Which fields differ between all points of the two files, for a message: "seq is 64 here and 128 there".
std::string nothing_in_common(const ResultFile& now, const ResultFile& baseline);

// Differences of the environment that are allowed: versions of drivers and libraries, the host's name.
std::vector<std::string> environment_changes(const ResultFile& now, const ResultFile& baseline);

}  // namespace mbench::reports
