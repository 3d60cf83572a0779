// What the recorded stage of a small model takes for a micro batch, and what it leaves behind.
#pragma once
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "engine/base/category.h"
#include "engine/point/power_curve.h"
#include "engine/sim/play/clock.h"
#include "engine/sim/recording/step_events.h"

namespace mbench::search {

using Bytes = std::array<double, kCategories>;

inline double sum(const Bytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

// What a run of actions keeps busy: the device's stream, and the host that feeds it.
struct Busy {
  double device = 0, host = 0;  // seconds
  double joules = 0;            // that the device's kernels and collectives draw, more than an idle device does
  double travelling = 0;        // seconds of `device` at most that tokens travel to experts and back
  Busy operator+(const Busy& o) const {
    return {device + o.device, host + o.host, joules + o.joules, travelling + o.travelling};
  }
  Busy operator-(const Busy& o) const {
    return {std::max(0.0, device - o.device), std::max(0.0, host - o.host), std::max(0.0, joules - o.joules),
            std::max(0.0, travelling - o.travelling)};
  }
  Busy operator*(double n) const { return {device * n, host * n, joules * n, travelling * n}; }
  // What keeps the stages behind waiting: the host runs ahead of its device, but where it computes itself. `overlaps`: other micro
  // batches compute while tokens travel.
  double chained(bool immediate, bool overlaps) const {
    const double busy = overlaps ? std::max(0.0, device - travelling) : device;
    return immediate ? busy + host : busy;
  }
};

// What a run of actions leaves behind: bytes, and in how many blocks.
struct Kept {
  Bytes bytes{};
  double blocks = 0;
};

// One stage of a small model, for one micro batch.
struct Stage {
  Busy forward, backward;
  Kept kept;  // by its forward
};

// What of a stage counts: all, or of one without an end of the model its layers. Then what is done for a micro batch and the blocks of its
// inputs are left out: no further layer has them again.
enum class OfStage { all, layers };

// `watts`: what the joules follow from; none where the machine has no power curve.
Stage stage_of(const sim::StepEvents& step_events, const sim::HostTimes& times, const std::optional<PowerCurve>& watts,
               OfStage what = OfStage::all);

}  // namespace mbench::search
