// Which parts of a step and of its memory changed, so that a reviewer sees where to look: "tp communication +38.0 ms, the rest the
// same".
//
// Parts of time are of the mean step's anatomy on the slowest rank (engine/base/time_part.h), parts of memory of the fullest rank at
// its peak. Parts have no samples, so a measured one is reported if it moved by a fifth of the whole step's threshold. Memory and
// simulated times have no noise, and their every change is reported. Neither have the bytes of collectives and messages by
// axis (CommunicationByAxis).
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"

namespace mbench::reports {

struct PartChange {
  std::string name;
  double baseline = 0, now = 0;  // ms; MiB of memory or of communication
};

// The largest change first; empty where none changed or a side has no parts.
std::vector<PartChange> changed_time_parts(const PointResult& now, const PointResult& baseline, double threshold);
std::vector<PartChange> changed_memory_parts(const PointResult& now, const PointResult& baseline);

std::vector<PartChange> changed_communication(const PointResult& now, const PointResult& baseline);

// Tensors at the peak, by name.
std::vector<PartChange> changed_tensors(const PointResult& now, const PointResult& baseline);
// Ranks whose own computation, outside collectives and waiting, changed in another way than most ranks' did; ms. Empty where all did alike.
std::vector<PartChange> changed_ranks(const PointResult& now, const PointResult& baseline, double threshold);
// Ranks whose peak changed; "all ranks" where all changed by the same bytes.
std::vector<PartChange> changed_memory_of_ranks(const PointResult& now, const PointResult& baseline);

// "tp communication +38.0 ms, bubble -2.10 ms, the rest the same". `in_bytes`: parts are in MiB. The largest eight are named.
std::string parts_text(const std::vector<PartChange>& parts, bool in_bytes);

// "+4,096 bytes", from two sizes in MiB.
std::string byte_change(double now_mib, double baseline_mib);

}  // namespace mbench::reports
