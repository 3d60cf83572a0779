#include "sweeps/run/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ostream>

#include "engine/base/text.h"

namespace mbench::sweeps {

void TimeLeft::expect(std::optional<double> forecast_s) {
  forecasts_.push_back(forecast_s);
}

void TimeLeft::done(double seconds) {
  taken_.push_back(seconds);
}

std::optional<double> TimeLeft::left(double elapsed) const {
  double foreseen = 0, taken_of_foreseen = 0;
  for (std::size_t i = 0; i < taken_.size() && i < forecasts_.size(); ++i)
    if (forecasts_[i]) foreseen += *forecasts_[i], taken_of_foreseen += taken_[i];
  const double scale = foreseen > 0 ? taken_of_foreseen / foreseen : 1;
  std::optional<double> mean;
  if (!taken_.empty()) mean = std::accumulate(taken_.begin(), taken_.end(), 0.0) / static_cast<double>(taken_.size());
  double left = 0;
  for (std::size_t i = taken_.size(); i < forecasts_.size(); ++i) {
    if (!forecasts_[i] && !mean) return std::nullopt;
    const double whole = forecasts_[i] ? *forecasts_[i] * scale : *mean;
    left += i == taken_.size() ? std::max(0.0, whole - elapsed) : whole;
  }
  return left;
}

void ProgressLine::clear() {
  if (drawn_) out_ << "\r\x1b[K";
  drawn_ = false;
}

void ProgressLine::redraw(const std::string& text) {
  if (quiet_ || columns_ <= 0) return;
  out_ << "\r" << printable(text).substr(0, static_cast<std::size_t>(std::max(1, columns_ - 1))) << "\x1b[K"
       << std::flush;
  drawn_ = true;
}

void ProgressLine::line(const std::string& text) {
  if (!quiet_) message(text);
}

void ProgressLine::message(const std::string& text) {
  clear();
  out_ << printable(text) << std::endl;
}

void ProgressLine::start(std::size_t k, std::size_t n, const std::string& label) {
  const std::string total = std::to_string(n);
  prefix_ = fmt::format("[{:>{}}/{}] {}", k, total.size(), total, label);
  begin_ = std::chrono::steady_clock::now();
  redraw(prefix_ + " | starting");
}

double ProgressLine::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void ProgressLine::update(const ProgressMessage& m, std::optional<double> left_s) {
  std::string text = prefix_ + " | " + (m.of > 0 ? fmt::format("{} {}/{}", m.phase, m.iteration, m.of) : m.str());
  if (m.ms) text += fmt::format(" | {:.4g} ms", *m.ms);
  if (m.loss) text += fmt::format(" | loss {:.4f}", *m.loss);
  if (left_s) text += fmt::format(" | {} left", format_duration(*left_s));
  redraw(text);
}

void ProgressLine::finish(const PointResult& result, double seconds) {
  std::string text = prefix_ + ": " + one_line(result);
  if (seconds > 0) text += fmt::format(" ({})", format_duration(seconds));
  line(text);
}

std::string one_line(const PointResult& r) {
  std::string text(name_of(r.outcome));
  if (r.outcome != Outcome::ok) return text + ": " + r.reason;
  if (r.iteration_ms) text += fmt::format(", {:.4g} ms", r.iteration_ms->mean);
  if (r.peak_memory_mib) text += fmt::format(", {:.1f} MiB", *r.peak_memory_mib);
  if (!r.losses.empty()) text += fmt::format(", loss {:.4f} -> {:.4f}", r.losses.front(), r.losses.back());
  if (!r.reason.empty()) text += "; " + r.reason;
  return text;
}

}  // namespace mbench::sweeps
