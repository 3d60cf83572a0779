// Schedules of pipelines: in which order a stage runs its actions.
#pragma once
#include "engine/plan/schedule.h"
#include "engine/point/choices.h"

namespace mbench::strategies {

// The list of one stage's actions; every schedule is made here. `group`: micro batches that an interleaved stage runs through
// one chunk before it goes to the next, 0: as many as stages.
Schedule make_schedule(ScheduleKind kind, int stages, int stage, int chunks, int micro_batches, int group = 0);

}  // namespace mbench::strategies
