// MLPerf's lines of a run: ":::MLLOG {...}". A block of training ends before an evaluation begins.
#pragma once
#include <optional>

#include "formats/logs/lines.h"
#include "formats/logs/log.h"

namespace mbench::formats {

class MlperfReader {
 public:
  void read(const Line& line);
  bool knows() const { return !log_.steps.empty(); }
  Log take();

 private:
  void read_event(const std::string& key, const nlohmann::json& event, int rank);
  void end_block(double time_ms, std::optional<double> samples);
  LoggedStep* step_of(const nlohmann::json& metadata);

  Log log_;
  std::optional<double> begun_ms_, begun_samples_;  // the block that is open
  std::size_t broken_ = 0;
};

}  // namespace mbench::formats
