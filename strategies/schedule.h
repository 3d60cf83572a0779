// Schedules of pipelines: in which order a stage runs its actions.
#pragma once
#include "engine/plan/schedule.h"
#include "engine/point/choices.h"

namespace mbench::strategies {

// The lists of actions of all stages; every schedule is made here. `group`: micro batches that an interleaved stage runs through
// one chunk before it goes to the next, 0: as many as stages.
std::vector<Schedule> make_schedules(ScheduleKind kind, int stages, int chunks, int micro_batches, int group = 0);
// Of one stage.
Schedule make_schedule(ScheduleKind kind, int stages, int stage, int chunks, int micro_batches, int group = 0);

// The place of a stage's chunk in the order of the layers.
int position_of(ScheduleKind kind, int stages, int stage, int chunk);

// A stage of a V-shaped schedule has chunks of so many places. Such a schedule runs each micro batch through this many actions on
// a stage: two forwards, two backwards and the gradients of weights of both.
inline constexpr int kChunksOfV = 2;

// Of schedules that split backward: what each stage computes, in order, without messages. Forwards, backwards and gradients of weights
// of a chunk come in the order of the micro batches.
std::vector<Schedule> split_schedules(ScheduleKind kind, int stages, int micro_batches);

}  // namespace mbench::strategies
