// Energy of a step: counted by what its ranks compute on, or of a simulated one by a power curve.
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
// them has no joules the record has none, and why.
void add_counted_energy(const std::vector<EnergyReading>& ranks, PointResult& record);

// Every rank's reading.
std::vector<EnergyReading> gather_energy(Group& all, const EnergyReading& mine);

// Of one device over a step of so many seconds, of which `parts` are known; the rest it waits.
double joules_of(const TimeByPart& parts, double seconds, const PowerCurve& watts);

// Fills the record of a simulated step.
void add_simulated_energy(double joules, const std::string& source, PointResult& record);

}  // namespace mbench
