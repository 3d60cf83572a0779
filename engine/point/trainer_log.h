// What a trainer's log says of a run in addition to its row's samples: other steps, and memory as the trainer counts it. Data only; JSON in
// and out.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench {

struct LoggedMemory {
  std::string kind;       // PyTorch's name: "max_allocated", "max_reserved"
  std::int64_t rank = 0;  // whose figure it is
  double mib = 0;
  bool operator==(const LoggedMemory&) const = default;
};

struct TrainerLog {
  std::int64_t first_step = 0;        // of the samples, as the trainer counts
  std::int64_t steps_per_sample = 1;  // a sample is the mean of this many
  std::vector<double> warmup_ms, evaluation_ms,
      checkpoint_ms;  // not samples: steps of a start or restart, or with an evaluation or a checkpoint
  std::vector<LoggedMemory> memory;
  bool operator==(const TrainerLog&) const = default;
};

nlohmann::ordered_json trainer_log_to_json(const TrainerLog& log);
// bad_input naming the JSON path for what is not as above; keys that a newer version adds are skipped.
TrainerLog trainer_log_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace mbench
