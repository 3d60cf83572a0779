// A result file of one measured point, whose samples lie close around a time.
#pragma once
#include <vector>

#include "test/reports/sample.h"

namespace mbench::reports {

inline std::vector<double> around(double center, int n = 10) {
  std::vector<double> samples;
  for (int i = 0; i < n; ++i) samples.push_back(center * (1 + 0.002 * ((i * 7) % n - n / 2.0) / n));
  return samples;
}

// Milliseconds and MiB.
inline ResultFile one(double ms = 100, double memory = 1000) {
  ResultFile file;
  file.environment = sample::environment();
  file.points = {sample::measured(sample::point(4, 2, 512, "full"), around(ms), memory)};
  return file;
}

}  // namespace mbench::reports
