// What a sweep prints while it runs: on a terminal one line that is redrawn, elsewhere one plain line for each finished point.
#pragma once
#include <chrono>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "engine/point/result.h"
#include "sweeps/run/point_run.h"

namespace mbench::sweeps {

// Estimates the time left from the forecasts, scaled by the ratio of actual to forecast time of the finished points. A point without a
// forecast counts as the mean of the finished ones.
class TimeLeft {
 public:
  void expect(std::optional<double> forecast_s);  // one more point to come
  void done(double seconds);                      // the next of them has taken so long
  std::optional<double> left(double elapsed_s_of_current) const;

 private:
  std::vector<std::optional<double>> forecasts_;
  std::vector<double> taken_;
};

class ProgressLine {
 public:
  // `columns` cuts the redrawn line; 0 where `out` is no terminal, and then nothing is redrawn.
  ProgressLine(std::ostream& out, int columns, bool quiet) : out_(out), columns_(columns), quiet_(quiet) {}
  void line(const std::string& text);     // unless quiet
  void message(const std::string& text);  // always: what went wrong, how to go on
  void start(std::size_t k, std::size_t n, const std::string& label);
  void update(const ProgressMessage& message, std::optional<double> left_s);
  void finish(const PointResult& result, double seconds);
  double elapsed() const;  // seconds since start()

 private:
  void redraw(const std::string& text);
  void clear();
  std::ostream& out_;
  int columns_;
  bool quiet_;
  bool drawn_ = false;
  std::string prefix_;
  std::chrono::steady_clock::time_point begin_;
};

// "ok, 12.3 ms, 45.0 MiB, loss 5.545 -> 5.101", or the outcome and its reason.
std::string one_line(const PointResult& result);

}  // namespace mbench::sweeps
