// Schedules of pipelines: in which order a stage runs its actions.
#pragma once
#include "engine/plan/schedule.h"
#include "engine/point/choices.h"

namespace mbench::strategies {

// The lists of actions of all stages; every schedule is made here. `group`: micro batches that an interleaved stage runs through
// one chunk before it goes to the next, 0: as many as stages.
std::vector<Schedule> make_schedules(ScheduleKind kind, int stages, int chunks, int micro_batches, int group = 0);
// The same where forwards and backwards take turns: after a warm-up that is longer by one forward, each forward stands with a backward
// of another micro batch. Both stop as often as `pauses` says of their chunk [stage][chunk], and the backward begins. For 1F1B and
// interleaved 1F1B (Megatron-Core's combined 1F1B), and for DualPipe-V, which has such pairs.
std::vector<Schedule> make_schedules_in_turns(ScheduleKind kind, int stages, int micro_batches, int group,
                                              const std::vector<std::vector<int>>& pauses);
// Of one stage.
Schedule make_schedule(ScheduleKind kind, int stages, int stage, int chunks, int micro_batches, int group = 0);

// The place of a stage's chunk in the order of the layers.
int position_of(ScheduleKind kind, int stages, int stage, int chunk);

// Chunks that a stage of a V-shaped schedule has.
inline constexpr int kChunksOfV = 2;

// Of schedules that split backward: what each stage computes, in order, without messages. Forwards, backwards and gradients of weights
// of a chunk come in the order of the micro batches.
// `pairs` [stage]: of dualpipev where forwards are that stand with the backward behind them.
std::vector<Schedule> split_schedules(ScheduleKind kind, int stages, int micro_batches,
                                      std::vector<std::vector<std::size_t>>* pairs = nullptr);

}  // namespace mbench::strategies
