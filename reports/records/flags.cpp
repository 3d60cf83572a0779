#include "reports/records/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/point/result.h"
#include "reports/records/statistics.h"

namespace mbench::reports {
namespace {

constexpr std::size_t kLeastSamples = 12;
constexpr double kLeastShare = 0.75;

using Samples = std::vector<double>;

Samples part_of(const Samples& samples, std::size_t begin, std::size_t end) {
  return {samples.begin() + static_cast<std::ptrdiff_t>(begin), samples.begin() + static_cast<std::ptrdiff_t>(end)};
}

Samples sorted_part(const Samples& samples, std::size_t begin, std::size_t end) {
  Samples part = part_of(samples, begin, end);
  std::sort(part.begin(), part.end());
  return part;
}

double spread_of(const Samples& samples, double median) {
  Samples distances;
  distances.reserve(samples.size());
  for (const double x : samples) distances.push_back(std::abs(x - median));
  return 1.4826 * median_of(std::move(distances));
}

std::ptrdiff_t first_tenth(const Samples& samples) {
  return static_cast<std::ptrdiff_t>(std::max<std::size_t>(2, samples.size() / 10));
}

bool is_warming(const Samples& samples) {
  const Samples rest = part_of(samples, samples.size() / 2, samples.size());
  const double median = median_of(rest);
  const double limit = std::max(1.05 * median, median + 4 * spread_of(rest, median));
  return std::all_of(samples.begin(), samples.begin() + first_tenth(samples), [&](double x) { return x > limit; });
}

bool is_throttled(const Samples& samples) {
  const std::size_t n = samples.size();
  const double before = median_of(part_of(samples, 0, n / 3));
  const double after = median_of(part_of(samples, n - n / 3, n));
  if (!(after > 1.03 * before)) return false;
  RankTest ranks;
  return ranks.p_value(sorted_part(samples, 0, n / 2), sorted_part(samples, n - n / 2, n)) < 0.002;  // two-sided
}

bool is_disturbed(const Samples& samples) {
  const double median = median_of(samples);
  const double limit = std::max(1.10 * median, median + 6 * spread_of(samples, median));
  std::size_t above = 0;
  double lost = 0, all = 0;
  for (const double x : samples) {
    all += x;
    if (x > limit) ++above, lost += x - median;
  }
  // Several of twenty, or so long a stall that it took a tenth of the run.
  return (above >= 2 && above * 20 >= samples.size()) || lost * 10 >= all;
}

}  // namespace

std::vector<Flag> flags_of(const Samples& samples) {
  std::vector<Flag> flags;
  if (samples.size() < kLeastSamples) return flags;
  // Nothing is flagged where the samples lie within 3 % of each other, as nearly all do.
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  if (*most <= 1.03 * *least) return flags;
  if (is_warming(samples)) flags.push_back(Flag::warming);
  if (is_throttled(samples)) flags.push_back(Flag::throttled);
  // Slow first steps are explained already.
  const bool warming = !flags.empty() && flags.front() == Flag::warming;
  if (is_disturbed(warming ? Samples(samples.begin() + first_tenth(samples), samples.end()) : samples))
    flags.push_back(Flag::disturbed);
  return flags;
}

std::string name_of(Flag flag) {
  switch (flag) {
    case Flag::warming:
      return "warming";
    case Flag::throttled:
      return "throttled";
    case Flag::disturbed:
      return "disturbed";
  }
  return "?";
}

std::string text_of(Flag flag) {
  switch (flag) {
    case Flag::warming:
      return "warming: the first steps are slower than the rest, warm up longer";
    case Flag::throttled:
      return "throttled: the last third of the samples is slower than the first";
    case Flag::disturbed:
      return "disturbed: single steps took much longer, something else ran";
  }
  return "?";
}

std::vector<std::string> what_disturbed(const PointResult& result) {
  std::vector<std::string> said;
  if (result.simulated || !result.iteration_ms) return said;
  if (std::string starved = starved_text(result.cpu_share_by_rank); !starved.empty())
    said.push_back(std::move(starved));
  if (std::string faulty = faulty_text(result); !faulty.empty()) said.push_back(std::move(faulty));
  for (const Flag flag : flags_of(result.iteration_ms->samples))
    if (flag == Flag::throttled) said.push_back(text_of(flag));
  return said;
}

std::string faulty_text(const PointResult& result) {
  return result.device_faults.empty() ? "" : "faulty: the devices reported " + result.device_faults;
}

std::string starved_text(const std::vector<double>& cpu_share_by_rank) {
  const auto least = std::min_element(cpu_share_by_rank.begin(), cpu_share_by_rank.end());
  if (least == cpu_share_by_rank.end() || !(*least < kLeastShare)) return "";
  return fmt::format(
      "starved: rank {} had a core for {:.0f} % of the time, something else ran, or ranks outnumber the "
      "cores",
      least - cpu_share_by_rank.begin(), *least * 100);
}

}  // namespace mbench::reports
