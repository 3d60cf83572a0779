// Statistics of the samples of a point, and a summary of the steps of one rank among many.
#pragma once
#include <cstddef>
#include <vector>

namespace mbench {

struct Statistics {  // of samples, milliseconds
  double mean = 0, stddev = 0, median = 0, p95 = 0, min = 0, max = 0;
  std::vector<double> samples;
};
// stddev is the sample one (n - 1); p95 and median interpolate linearly between ranks.
Statistics statistics_of(std::vector<double> samples);

// A summary of one rank's steps, in milliseconds. It has as many parts as the statistics of stragglers need to be certain among thousands
// of ranks (reports/records/stragglers.h). It has no more, since a row has them for each rank.
struct StepParts {
  static constexpr std::size_t kMost = 12;
  double median = 0, spread = 0;  // of all steps; the spread is 1.4826 times the median distance from the median
  std::vector<double> parts;      // the medians of equally long runs of consecutive steps; with fewer steps, each step
};
StepParts parts_of(const std::vector<double>& steps);

}  // namespace mbench
