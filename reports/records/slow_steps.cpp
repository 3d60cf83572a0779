#include "reports/records/slow_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reports/records/statistics.h"

namespace mbench::reports {
namespace {

using Samples = std::vector<double>;

constexpr double kSlow = 1.10, kSpreads = 6;
constexpr double kSlowMode = 1.08;
constexpr double kWarming = 1.05, kWarmingSpreads = 4;
constexpr double kApart = 4;       // spreads between two modes
constexpr std::size_t kLeast = 5;  // samples of which anything is said
// Below this chance that steps in any order lie as regularly, they are called periodic.
constexpr double kChance = 1e-3;

double spread_about(const Samples& samples, double center) {
  Samples distances;
  distances.reserve(samples.size());
  for (const double x : samples) distances.push_back(std::abs(x - center));
  return 1.4826 * median_of(std::move(distances));
}

double limit_above(const Samples& samples, double factor, double spreads) {
  const double median = median_of(samples);
  return std::max(factor * median, median + spreads * spread_about(samples, median));
}

// Above it steps are slow: what lies far beyond the others, and a mode of those that do not. Slow steps widen the spread that they are
// held against, so it is taken again of the others.
double slow_limit(const Samples& samples) {
  constexpr int kRounds = 10;  // a tail without end would be cut sample by sample
  Samples near = samples;
  double far = limit_above(near, kSlow, kSpreads);
  for (int i = 0; i < kRounds && std::erase_if(near, [&](double x) { return x > far; }) > 0; ++i)
    far = limit_above(near, kSlow, kSpreads);
  return std::min(far, limit_between_modes(near, kSlowMode, kApart));
}

std::vector<std::size_t> above(const Samples& samples, double limit) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (samples[i] > limit) at.push_back(i);
  return at;
}

std::size_t episodes_of(const std::vector<std::size_t>& at) {
  std::size_t episodes = 0;
  for (std::size_t i = 0; i < at.size(); ++i) episodes += i == 0 || at[i] != at[i - 1] + 1;
  return episodes;
}

// In how many ways k of n steps can be every p-th for some p of 2 or more.
double regular_ways(std::size_t n, std::size_t k) {
  double ways = 0;
  for (std::size_t p = std::max<std::size_t>(2, n / (k + 1)); p <= n / std::max<std::size_t>(1, k - 1) && p <= n; ++p) {
    const std::size_t least = n / p, more = n % p;  // `more` of the p offsets have one more
    if (least == k) ways += static_cast<double>(p - more);
    if (least + 1 == k) ways += static_cast<double>(more);
  }
  return ways;
}

// The period of steps that lie as regularly as can be from the first sample to the last; 0 where chance would do.
std::size_t period_of(const std::vector<std::size_t>& at, std::size_t n) {
  const std::size_t k = at.size();
  if (k < 3) return 0;
  const std::size_t period = at[1] - at[0];
  if (period < 2 || at.front() >= period || at.back() + period < n) return 0;
  for (std::size_t i = 1; i < k; ++i)
    if (at[i] - at[i - 1] != period) return 0;
  const auto log_factorial = [](std::size_t x) {
    int sign = 0;
    return lgamma_r(static_cast<double>(x) + 1, &sign);
  };
  const double ways = log_factorial(n) - log_factorial(k) - log_factorial(n - k);
  return std::log(regular_ways(n, k)) - ways < std::log(kChance) ? period : 0;
}

// How many of the first samples are a warm-up.
std::size_t warm_up_of(const Samples& samples, const std::vector<std::size_t>& slow) {
  const std::size_t n = samples.size();
  if (n < 12) return 0;
  const double limit =
      limit_above({samples.begin() + static_cast<std::ptrdiff_t>(n / 2), samples.end()}, kWarming, kWarmingSpreads);
  std::size_t first = 0;
  while (first < n && samples[first] > limit) ++first;
  if (first == 0 || first > std::max<std::size_t>(2, n / 10)) return 0;
  // Where slow steps recur later the first are some of them.
  std::vector<std::size_t> later;
  std::copy_if(slow.begin(), slow.end(), std::back_inserter(later), [&](std::size_t i) { return i >= first; });
  return episodes_of(later) >= 2 ? 0 : first;
}

double mean_of_all(const Samples& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

}  // namespace

double limit_between_modes(const Samples& samples, double least_factor, double spreads) {
  Samples sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  // By prefix sums about the median, which keeps digits.
  const double center = median_of_sorted(sorted);
  double total = 0, squares = 0;
  for (const double x : sorted) total += x - center, squares += (x - center) * (x - center);
  double sum = 0, best = -1, best_sum = 0, below_squares = 0, best_squares = 0;
  std::size_t cut = 0;
  for (std::size_t k = 1; k < n; ++k) {
    const double x = sorted[k - 1] - center;
    sum += x, below_squares += x * x;
    const double a = static_cast<double>(k), b = static_cast<double>(n - k);
    const double apart = sum / a - (total - sum) / b, between = a * b * apart * apart;
    if (between > best) best = between, cut = k, best_sum = sum, best_squares = below_squares;
  }
  if (cut < 3 || n - cut < 3) return std::numeric_limits<double>::infinity();
  const double a = static_cast<double>(cut), b = static_cast<double>(n - cut);
  const double low = best_sum / a, high = (total - best_sum) / b;
  const double variance =
      0.5 * (std::max(0.0, best_squares / a - low * low) + std::max(0.0, (squares - best_squares) / b - high * high));
  const bool apart = high - low > spreads * std::sqrt(variance) && center + high > least_factor * (center + low);
  return apart ? 0.5 * (sorted[cut - 1] + sorted[cut]) : std::numeric_limits<double>::infinity();
}

SlowSteps slow_steps(const Samples& samples) {
  SlowSteps slow;
  slow.samples = samples.size();
  slow.body = mean_of_all(samples);
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  // Most runs have none, and then there is no more to look at.
  if (samples.size() < kLeast || *most <= kWarming * *least) return slow;
  slow.at = above(samples, slow_limit(samples));
  slow.warm_up = warm_up_of(samples, slow.at);
  std::erase_if(slow.at, [&](std::size_t i) { return i < slow.warm_up; });
  slow.samples -= slow.warm_up;
  slow.episodes = episodes_of(slow.at);
  slow.body = mean_of_all(body_of(samples, slow));
  const double n = static_cast<double>(slow.samples);
  Samples sizes;
  for (const std::size_t i : slow.at) {
    sizes.push_back(samples[i] / slow.body);
    slow.cost += (samples[i] / slow.body - 1) / n;
  }
  if (!sizes.empty()) slow.size = median_of(std::move(sizes));
  if (slow.warm_up == 0) slow.period = period_of(slow.at, samples.size());
  Samples first(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(slow.warm_up));
  for (const double x : first) slow.warm_up_cost += (x / slow.body - 1) / static_cast<double>(samples.size());
  if (!first.empty()) slow.warm_up_size = median_of(std::move(first)) / slow.body;
  return slow;
}

Samples without_warm_up(const Samples& samples, const SlowSteps& slow) {
  return {samples.begin() + static_cast<std::ptrdiff_t>(slow.warm_up), samples.end()};
}

Samples body_of(const Samples& samples, const SlowSteps& slow) {
  Samples body;
  std::size_t next = 0;
  for (std::size_t i = slow.warm_up; i < samples.size(); ++i)
    if (next < slow.at.size() && slow.at[next] == i)
      ++next;
    else
      body.push_back(samples[i]);
  return body;
}

double paid_mean(const Samples& samples) {
  const SlowSteps slow = slow_steps(samples);
  return slow.body * (slow.is_spike() ? 1 : 1 + slow.cost);
}

}  // namespace mbench::reports
