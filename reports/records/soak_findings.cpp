#include "reports/records/soak_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/text.h"
#include "reports/records/statistics.h"

namespace mbench::reports {
namespace {

constexpr std::size_t kLeastWindows = 12;
constexpr double kSpreads = 6;
constexpr std::size_t kMostNamed = 3;

using Samples = std::vector<double>;

Samples sorted(Samples samples) {
  std::sort(samples.begin(), samples.end());
  return samples;
}

double median(const Samples& samples) {
  return median_of_sorted(sorted(samples));
}

// A figure of the windows from `begin` to `end`.
Samples figures(const Soak& soak, double SoakWindow::*figure, std::size_t begin, std::size_t end) {
  Samples values;
  for (std::size_t i = begin; i < end; ++i) values.push_back(soak.windows[i].*figure);
  return values;
}

// Without its straight line of least squares: a trend is what is looked for, and no dependence of windows on one another.
Samples without_trend(const Samples& samples) {
  const double n = static_cast<double>(samples.size()), middle = 0.5 * (n - 1);
  double mean = 0, slope = 0, squares = 0;
  for (const double x : samples) mean += x / n;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double at = static_cast<double>(i) - middle;
    slope += at * (samples[i] - mean);
    squares += at * at;
  }
  Samples rest;
  for (std::size_t i = 0; i < samples.size(); ++i)
    rest.push_back(samples[i] - mean - slope / squares * (static_cast<double>(i) - middle));
  return rest;
}

std::optional<double> drift_of(const Soak& soak) {
  const std::size_t n = soak.windows.size(), third = n / 3;
  const Samples before = figures(soak, &SoakWindow::median_ms, 0, third),
                after = figures(soak, &SoakWindow::median_ms, n - third, n);
  const Samples x = sorted(after), y = sorted(before);
  if (!(y.front() > 0)) return std::nullopt;
  const double widening =
      std::sqrt(0.5 * (autocorrelation_time(without_trend(after)) + autocorrelation_time(without_trend(before))));
  RatioBootstrap bootstrap;
  RankTest ranks;
  if (!(bootstrap.interval(x, y, widening).low > 1 + kDrifts)) return std::nullopt;
  if (!(ranks.p_value(x, y, widening) < 1 - RatioBootstrap::kConfidence)) return std::nullopt;
  return median_of_sorted(x) / median_of_sorted(y);
}

// "clock 2450 to 2300 MHz", where the windows know it and it has moved by a hundredth.
std::string clocks_text(const Soak& soak, const Samples& before, const Samples& after) {
  for (const Samples* clocks : {&before, &after})
    if (clocks->empty() || std::any_of(clocks->begin(), clocks->end(), [](double x) { return std::isnan(x); }))
      return "";
  const double from = median(before), to = median(after);
  return std::abs(to / from - 1) < 0.01 ? "" : fmt::format(", clock {:.0f} to {:.0f} MHz", from, to);
}

std::string dip_text(const Soak& soak, const Dip& dip) {
  Samples others;
  for (std::size_t i = 0; i < soak.windows.size(); ++i)
    if (i < dip.first || i >= dip.first + dip.count) others.push_back(soak.windows[i].least_clock_mhz);
  return fmt::format(
      "{:.0f} % of the throughput lost for {} at {}{}", (1 - dip.against) * 100,
      format_duration(dip.end_s - dip.begin_s), format_duration(dip.begin_s),
      clocks_text(soak, others, figures(soak, &SoakWindow::least_clock_mhz, dip.first, dip.first + dip.count)));
}

}  // namespace

SoakFindings soak_findings(const Soak& soak) {
  SoakFindings found;
  const std::size_t n = soak.windows.size();
  if (n == 0) return found;
  const Samples rates = figures(soak, &SoakWindow::samples_per_s, 0, n);
  found.samples_per_s = median(rates);
  if (n < kLeastWindows) return found;
  found.drift = drift_of(soak);
  Samples distances;
  for (const double rate : rates) distances.push_back(std::abs(rate - found.samples_per_s));
  const double limit =
      std::min(found.samples_per_s * (1 - kDips), found.samples_per_s - kSpreads * 1.4826 * median(distances));
  for (std::size_t i = 0; i < n; ++i) {
    if (!(rates[i] < limit)) continue;
    const bool goes_on = !found.dips.empty() && found.dips.back().first + found.dips.back().count == i;
    if (!goes_on) found.dips.push_back({i, 0, i > 0 ? soak.windows[i - 1].end_s : 0, 0, 1});
    Dip& dip = found.dips.back();
    ++dip.count;
    dip.end_s = soak.windows[i].end_s;
    dip.against = std::min(dip.against, rates[i] / found.samples_per_s);
  }
  return found;
}

std::string soak_text(const Soak& soak) {
  const SoakFindings found = soak_findings(soak);
  std::string text;
  const std::size_t n = soak.windows.size(), third = n / 3;
  if (found.drift)
    text =
        fmt::format("drift: the last third of the soak is {:.1f} % slower than the first{}", (*found.drift - 1) * 100,
                    clocks_text(soak, figures(soak, &SoakWindow::clock_mhz, 0, third),
                                figures(soak, &SoakWindow::clock_mhz, n - third, n)));
  if (found.dips.empty()) return text;
  std::vector<Dip> dips = found.dips;
  std::stable_sort(dips.begin(), dips.end(), [](const Dip& a, const Dip& b) { return a.against < b.against; });
  text += text.empty() ? "" : "; ";
  text += dips.size() == 1 ? "dip: " : fmt::format("{} dips: ", dips.size());
  for (std::size_t i = 0; i < std::min(dips.size(), kMostNamed); ++i) text += (i ? ", " : "") + dip_text(soak, dips[i]);
  return text + (dips.size() > kMostNamed ? ", ..." : "");
}

}  // namespace mbench::reports
