// How long a pipeline takes whose actions take given times: what a schedule's bubbles cost.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/plan/schedule.h"
#include "engine/point/choices.h"

namespace mbench::search {

// Seconds of one micro batch.
struct ActionSeconds {
  double forward = 0;
  double backward = 0;         // of inputs, where the schedule splits backward
  double weight_gradient = 0;  // 0 where it does not
};

struct PlayedPipeline {
  ScheduleKind schedule{};
  std::int64_t micro_batches = 0, group = 0;
  const std::vector<std::vector<ChunkPlan>>& chunks;          // [stage, chunk]
  std::vector<std::vector<ActionSeconds>> seconds;            // likewise
  std::function<double(std::int64_t, std::int64_t)> message;  // seconds of one, from a stage to a stage
  double lead = 0;                                            // the first stage begins that much later
  bool receives_ahead = false;                                // a message travels while its receiver computes
};

class PlayedSchedules {
 public:
  // When each stage has ended its actions [stage]. A stage does its actions in order. A receive begins when the message has left its
  // sender, and the stage waits for it, or, if receives are posted ahead, for what is left of it. Of many micro batches the first are played. Each round of as many as there are stages then takes
  // as long as one of the last two that were played, whichever is shorter. Several threads may call it.
  std::vector<double> ends_of(const PlayedPipeline& pipeline) const;

 private:
  const std::vector<Schedule>& schedules_of(const PlayedPipeline& pipeline, std::int64_t micro_batches) const;
  std::vector<double> played(const PlayedPipeline& pipeline, std::int64_t micro_batches) const;

  using Key = std::tuple<ScheduleKind, std::size_t, std::size_t, std::int64_t, std::int64_t>;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::vector<Schedule>> known_;
};

}  // namespace mbench::search
