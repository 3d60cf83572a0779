// What a sweep is doing, as OpenMetrics text (openmetrics.io, 1.0) in a file that is replaced while it runs. It serves the textfile
// collector of Prometheus' node exporter, or anything else that reads that format.
//
// Families:
//
//   mbench_build_info{version,revision}, mbench_sweep_info{name,device,launcher,host}
//   mbench_points{state="all"|"done"|"failed"}
//   mbench_updated_timestamp_seconds
//
// Of the point that runs:
//
//   mbench_running_info{point,label}
//   mbench_steps_total{point}                                            steps measured so far
//   mbench_step_seconds, mbench_loss, mbench_samples_per_second {point}  the last; of a soak the last window
//
// Of a soak's last window; temperature and throttling of GPUs:
//
//   mbench_clock_hertz{point,of="mean"|"least"}, mbench_power_watts{point}
//   mbench_temperature_celsius{point}, mbench_throttle{point,by}
//
// Since a rank's last sign of life:
//
//   mbench_rank_silence_seconds{point,rank,host}
//
// Of each point that is done:
//
//   mbench_outcome_info{point,label,outcome}
//   mbench_result_step_seconds, mbench_result_samples_per_second, mbench_result_peak_memory_bytes {point}
//
// `point` is the point's id. What is unknown is left out.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "engine/point/result.h"
#include "sweeps/run/point_run.h"

namespace mbench::sweeps {

class MetricsFile {
 public:
  // `path` empty: nothing is written. `environment` as of a result file.
  MetricsFile(std::string path, std::string sweep, std::string device, const nlohmann::ordered_json& environment,
              std::size_t points);

  void begin(const SpecPoint& point);
  void take(const ProgressMessage& message);
  void take(const SoakWindow& window);
  void take(const std::map<std::int64_t, double>& silence, const std::vector<Host>& hosts);
  void end(const PointResult& result);

  // Writes the file if the last time is a second ago.
  void write_if_due();
  // Throws Error where it cannot be written.
  void write();
  // `updated`: seconds since 1970.
  std::string text(double updated) const;

 private:
  struct Done {
    std::string id, label;
    PointResult result;
  };
  std::string path_;
  std::map<std::string, std::string> build_, sweep_;
  std::size_t points_, failed_ = 0;
  std::string id_, label_;  // of the point that runs; empty: none
  double global_batch_ = 0;
  std::int64_t steps_ = 0;
  std::optional<double> step_s_, loss_, samples_per_s_;
  std::optional<SoakWindow> window_;
  std::map<std::int64_t, double> silence_;
  std::vector<Host> hosts_;
  std::vector<Done> done_;
  std::chrono::steady_clock::time_point written_{};
};

}  // namespace mbench::sweeps
