// Cuts the steps of a soak into windows of time, and keeps what the statistics of all steps need. Memory does not grow with the steps.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/comm/group.h"
#include "engine/device/gauge.h"
#include "engine/point/soak.h"
#include "engine/point/statistics.h"

namespace mbench {

// How often values of a size came, in bins whose values differ by a thousandth: quantiles to 0.1 %, however many values there are.
class Histogram {
 public:
  void add(double x);
  double quantile(double q) const;  // of at least one

 private:
  std::vector<std::uint32_t> bins_;
  std::int64_t count_ = 0;
};

class SoakLog {
 public:
  // `open_gauge` opens sensors of this rank's device for each window, and may return null. All ranks of `all` make the same calls.
  SoakLog(comm::Group& all, double seconds, std::int64_t global_batch,
          std::function<std::unique_ptr<Gauge>()> open_gauge);
  // Adds a step of this rank and the time of it that was computation. `elapsed`: seconds since the first step began, the same on every
  // rank. Returns the window that this step ended, if any.
  const SoakWindow* add(double step_s, double compute_s, double elapsed);
  bool is_over(double elapsed) const { return elapsed >= seconds_; }
  // Ends the last window, however short.
  const SoakWindow* finish(double elapsed);

  const Soak& soak() const { return soak_; }
  // Of every step on the slowest rank, in milliseconds; its samples are the windows' medians.
  Statistics statistics() const;
  // Of this rank, in seconds: for each window the median step, and the median of its computation.
  const std::vector<double>& own_steps() const { return own_steps_; }
  const std::vector<double>& own_compute() const { return own_compute_; }

 private:
  const SoakWindow* end_window(double elapsed);
  comm::Group& all_;
  double seconds_, window_s_, window_end_;
  std::int64_t global_batch_;
  std::function<std::unique_ptr<Gauge>()> open_gauge_;
  std::unique_ptr<Gauge> gauge_;         // of the window
  std::vector<double> steps_, compute_;  // of the window, on this rank
  std::vector<double> own_steps_, own_compute_;
  Soak soak_;
  // Of all steps on the slowest rank: milliseconds. Mean and squares by Welford's recurrence.
  double mean_ = 0, squares_ = 0, least_ = 0, most_ = 0;
  Histogram histogram_;
};

}  // namespace mbench
