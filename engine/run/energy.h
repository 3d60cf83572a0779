// Energy of a step: counted on what its ranks compute on, or, for a simulated step, by a power curve.
#pragma once
#include <string>
#include <vector>

#include "engine/base/time_part.h"
#include "engine/comm/group.h"
#include "engine/device/energy.h"
#include "engine/point/power_curve.h"
#include "engine/point/result_fwd.h"

namespace mbench {

// Fills the record, whose mean step is known: the mean power of all counters in `ranks`, each counted once, times that step. Where one of
// them has no joules, the record has none either, and says why.
void add_counted_energy(const std::vector<EnergyReading>& ranks, PointResult& record);

// Every rank's reading.
std::vector<EnergyReading> gather_energy(comm::Group& all, const EnergyReading& mine);

// Joules of one device over a step of `seconds`. In the time that `parts` does not cover, the device waits.
double joules_of(const TimeByPart& parts, double seconds, const PowerCurve& watts);

// Fills the record of a simulated step.
void add_simulated_energy(double joules, const std::string& source, PointResult& record);

}  // namespace mbench
