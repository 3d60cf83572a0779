// What a trainer's log says of a run, whichever trainer it is.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/point/trainer_log.h"

namespace mbench::formats {

// A count that a log prints, such as a step or the ranks of a job; nothing where the number is none from `least` to below `limit`.
inline std::optional<std::int64_t> count_of(double number, std::int64_t least = 0, double limit = 1e15) {
  if (!(number >= static_cast<double>(least) && number < limit)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// The unit in which a log gives the time of a step.
enum class Pace { none, ms, samples_per_s, tokens_per_s_per_device };
// What a step did as well as training, by the lines before it.
enum class Aside { none, evaluation, checkpoint };

struct LoggedStep {
  std::int64_t step = 0;  // as the trainer counts them
  double pace = 0;        // of this step, or the mean since the one before (Log::of_windows)
  Pace unit = Pace::none;
  Aside aside = Aside::none;
  bool first = false;  // after a start, or a restart
  std::optional<double> loss, gradient_norm;
};

struct Log {
  std::string program;               // "megatron-lm"; empty: no trainer's
  std::vector<LoggedStep> steps;     // ascending
  bool of_windows = true;            // a time is the mean of the steps since the one before
  std::vector<LoggedMemory> memory;  // the most of each kind and rank
  std::string device;                // "NVIDIA H100 80GB HBM3"; empty: it does not say
  std::optional<std::int64_t> global_batch, world;
  std::vector<std::pair<std::string, std::string>>
      arguments;                   // that Megatron-LM prints of itself as it starts: "num_layers", "24"
  std::vector<std::string> notes;  // what was left out, a line each
};

}  // namespace mbench::formats
