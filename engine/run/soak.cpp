#include "engine/run/soak.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/comm/gather.h"

namespace mbench {
namespace {

constexpr double kLeast = 1e-3;  // ms; what is less counts as that
constexpr double kWidth = 1e-3;  // of a bin, in natural logarithms

double median(std::vector<double> values) {
  return statistics_of(std::move(values)).median;
}

// The mean of what is known; NaN if nothing is.
double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) {
    if (std::isnan(x)) return SoakWindow::unknown;
    sum += x;
  }
  return values.empty() ? SoakWindow::unknown : sum / static_cast<double>(values.size());
}

constexpr std::int64_t kNotReported = -1;
// What held a rank's clock down, as bits.
std::int64_t throttle_of(const Readings& r) {
  return r.throttle ? *r.throttle : kNotReported;
}
// What held any rank's clock down; empty where one of them does not tell.
std::string throttled(const std::vector<std::int64_t>& ranks) {
  std::uint32_t seen = 0;
  for (const std::int64_t bits : ranks) {
    if (bits == kNotReported) return "";
    seen |= static_cast<std::uint32_t>(bits);
  }
  return seen == 0 ? "none" : fmt::format("{}", fmt::join(throttle_names(seen), ", "));
}

}  // namespace

void Histogram::add(double x) {
  const auto bin = static_cast<std::size_t>(std::log(std::max(x, kLeast) / kLeast) / kWidth);
  if (bin >= bins_.size()) bins_.resize(bin + 1);
  ++bins_[bin];
  ++count_;
}

double Histogram::quantile(double q) const {
  check(count_ > 0, "histogram", "no values, need at least one");
  const auto rank = static_cast<std::int64_t>(q * static_cast<double>(count_ - 1));
  std::int64_t below = 0;
  std::size_t bin = 0;
  while (bin + 1 < bins_.size() && below + bins_[bin] <= rank) below += bins_[bin++];
  return kLeast * std::exp((static_cast<double>(bin) + 0.5) * kWidth);
}

SoakLog::SoakLog(comm::Group& all, double seconds, std::int64_t global_batch,
                 std::function<std::unique_ptr<Gauge>()> open_gauge)
    : all_(all),
      seconds_(seconds),
      window_s_(std::max(kShortestWindow, seconds / kSoakWindows)),
      window_end_(window_s_),
      global_batch_(global_batch),
      open_gauge_(std::move(open_gauge)),
      gauge_(open_gauge_()) {}

const SoakWindow* SoakLog::add(double step_s, double compute_s, double elapsed) {
  steps_.push_back(step_s);
  compute_.push_back(compute_s);
  return elapsed >= window_end_ ? end_window(elapsed) : nullptr;
}

const SoakWindow* SoakLog::finish(double elapsed) {
  soak_.seconds = elapsed;
  return steps_.empty() ? nullptr : end_window(elapsed);
}

const SoakWindow* SoakLog::end_window(double elapsed) {
  std::vector<double> slowest(steps_.size(), 0);  // ms
  for (const std::vector<double>& times : comm::gather_all(all_, steps_)) {
    check(times.size() == slowest.size(), "soak", "{} steps on a rank, need {} as on this one", times.size(),
          slowest.size());
    for (std::size_t i = 0; i < times.size(); ++i) slowest[i] = std::max(slowest[i], times[i] * 1e3);
  }
  SoakWindow window;
  window.end_s = elapsed;
  window.steps = static_cast<std::int64_t>(slowest.size());
  double total = 0;
  for (const double ms : slowest) {
    total += ms;
    histogram_.add(ms);
    ++soak_.steps;
    const double away = ms - mean_;
    mean_ += away / static_cast<double>(soak_.steps);
    squares_ += away * (ms - mean_);
    least_ = soak_.steps == 1 ? ms : std::min(least_, ms);
    most_ = std::max(most_, ms);
  }
  window.worst_ms = *std::max_element(slowest.begin(), slowest.end());
  window.median_ms = median(std::move(slowest));
  window.samples_per_s = static_cast<double>(window.steps * global_batch_) / (total * 1e-3);
  Readings mine;
  if (gauge_) mine = gauge_->read();
  gauge_ = open_gauge_();
  const auto gathered = [&](std::optional<double> figure) {
    return comm::gather_all(all_, figure.value_or(SoakWindow::unknown));
  };
  const std::vector<double> clocks = gathered(mine.clock_mhz);
  window.clock_mhz = mean_of(clocks);
  window.least_clock_mhz =
      std::isnan(window.clock_mhz) ? window.clock_mhz : *std::min_element(clocks.begin(), clocks.end());
  window.power_w = mean_of(gathered(mine.power_w));
  const std::vector<double> heat = gathered(mine.temperature_c);
  window.hottest_c = std::isnan(mean_of(heat)) ? SoakWindow::unknown : *std::max_element(heat.begin(), heat.end());
  window.throttle = throttled(comm::gather_all(all_, throttle_of(mine)));
  own_steps_.push_back(median(std::move(steps_)));
  own_compute_.push_back(median(std::move(compute_)));
  steps_ = {};
  compute_ = {};
  while (window_end_ <= elapsed) window_end_ += window_s_;
  soak_.seconds = elapsed;
  soak_.windows.push_back(window);
  return &soak_.windows.back();
}

Statistics SoakLog::statistics() const {
  Statistics s;
  s.mean = mean_;
  s.stddev = soak_.steps > 1 ? std::sqrt(squares_ / static_cast<double>(soak_.steps - 1)) : 0;
  s.median = std::clamp(histogram_.quantile(0.5), least_, most_);
  s.p95 = std::clamp(histogram_.quantile(0.95), least_, most_);
  s.min = least_;
  s.max = most_;
  for (const SoakWindow& window : soak_.windows) s.samples.push_back(window.median_ms);
  return s;
}

}  // namespace mbench
