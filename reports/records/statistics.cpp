#include "reports/records/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/philox.h"

namespace mbench::reports {
namespace {

constexpr std::uint64_t kSeed = 20240229;
constexpr std::size_t kExactPairs = 400;
// Beyond so many samples what would take their square, or as many draws for each resample, is computed another way.
constexpr std::size_t kManySamples = 32768;
// Ratios that are made one by one to find their median.
constexpr std::size_t kManyRatios = std::size_t{1} << 22;

double middle(const std::vector<double>& sorted, const std::pair<std::uint32_t, std::uint32_t>& ranks) {
  return 0.5 * (sorted[ranks.first] + sorted[ranks.second]);
}

// Two-sided tail of the standard normal beyond |z|.
double normal_tails(double z) {
  return std::erfc(std::abs(z) / std::sqrt(2.0));
}

}  // namespace

double normal_deviation(double tails) {
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double z = 0.5 * (low + high);
    (normal_tails(z) > tails ? low : high) = z;
  }
  return low;
}

double median_of_sorted(const std::vector<double>& sorted) {
  check(!sorted.empty(), "statistics", "median of no samples");
  const std::size_t n = sorted.size();
  return 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
}

double median_of(std::vector<double> samples) {
  check(!samples.empty(), "statistics", "median of no samples");
  const auto upper = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), upper, samples.end());
  return samples.size() % 2 ? *upper : 0.5 * (*std::max_element(samples.begin(), upper) + *upper);
}

namespace {

// Draws of one stream, one after another.
class Draws {
 public:
  explicit Draws(const RngKey& key) : key_(key) {}
  double uniform() { return (Philox::word(key_, next_++) + 0.5) / 4294967296.0; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * 3.14159265358979323846 * uniform());
  }
  // Marsaglia and Tsang (2000); shape of 1 or more.
  double gamma(double shape) {
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = normal(), root = 1 + c * x, v = root * root * root;
      if (root > 0 && std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  RngKey key_;
  std::uint64_t next_ = 0;
};

// The two middle ranks of n draws from n samples without drawing them all: the upper one is a uniform order statistic, which has a beta
// distribution, and the lower one the largest of the draws below it.
std::pair<std::uint32_t, std::uint32_t> drawn_middles(Draws& draws, std::size_t n) {
  const std::size_t below = n / 2;
  const double count = static_cast<double>(n), a = draws.gamma(static_cast<double>(below) + 1),
               b = draws.gamma(count - static_cast<double>(below));
  const double upper = a / (a + b), lower = upper * std::pow(draws.uniform(), 1 / static_cast<double>(below));
  const auto rank = [&](double u) { return static_cast<std::uint32_t>(std::min(u * count, count - 1)); };
  return {rank(n % 2 ? upper : lower), rank(upper)};
}

}  // namespace

const RatioBootstrap::Middles& RatioBootstrap::middles(std::size_t n, std::uint32_t side) {
  const auto [it, fresh] = cache_.try_emplace({n, side});
  Middles& middles = it->second;
  if (!fresh) return middles;
  const RngKey key{kSeed, side, static_cast<std::uint32_t>(n)};
  if (n > kManySamples) {
    Draws draws(key);
    for (int r = 0; r < kResamples; ++r) middles.push_back(drawn_middles(draws, n));
    return middles;
  }
  std::vector<std::uint32_t> drawn(n);
  std::uint64_t block = 0;
  for (int r = 0; r < kResamples; ++r) {
    for (std::size_t i = 0; i < n; i += 4) {
      const auto words = Philox::block(key, block++);
      for (std::size_t j = i; j < std::min(n, i + 4); ++j)
        drawn[j] = static_cast<std::uint32_t>((std::uint64_t{words[j - i]} * n) >> 32);
    }
    const auto upper = drawn.begin() + static_cast<std::ptrdiff_t>(n / 2);
    std::nth_element(drawn.begin(), upper, drawn.end());
    const std::uint32_t high = *upper;
    middles.emplace_back(n % 2 ? high : *std::max_element(drawn.begin(), upper), high);
  }
  return middles;
}

Interval RatioBootstrap::interval(const std::vector<double>& x, const std::vector<double>& y, double widening) {
  check(!x.empty() && !y.empty(), "statistics", "interval of no samples");
  const Middles& of_x = middles(x.size(), 0);
  const Middles& of_y = middles(y.size(), 1);
  // Only the ends of the order are wanted, and they are short: the least and the largest, each kept sorted.
  constexpr auto kTail = static_cast<std::size_t>((1 - kConfidence) / 2 * kResamples + 0.5) + 1;
  std::array<double, kTail> least, largest;
  least.fill(std::numeric_limits<double>::infinity());
  largest.fill(-std::numeric_limits<double>::infinity());
  for (std::size_t r = 0; r < kResamples; ++r) {
    const double ratio = middle(x, of_x[r]) / middle(y, of_y[r]);
    if (ratio < least.back()) {
      std::size_t i = kTail - 1;
      for (; i > 0 && least[i - 1] > ratio; --i) least[i] = least[i - 1];
      least[i] = ratio;
    }
    if (ratio > largest.back()) {
      std::size_t i = kTail - 1;
      for (; i > 0 && largest[i - 1] < ratio; --i) largest[i] = largest[i - 1];
      largest[i] = ratio;
    }
  }
  if (widening == 1) return {least.back(), largest.back()};
  const double center = median_of_sorted(x) / median_of_sorted(y);
  return {center * std::pow(least.back() / center, widening), center * std::pow(largest.back() / center, widening)};
}

// The coefficients of the Gaussian binomial [n + m over n], which count the arrangements with statistic u.
const std::vector<double>& RankTest::distribution(std::size_t n, std::size_t m) {
  const auto [it, fresh] = cache_.try_emplace({n, m});
  std::vector<double>& p = it->second;
  if (!fresh) return p;
  p.assign(n * m + 1, 0);
  p[0] = 1;
  for (std::size_t i = 1; i <= n; ++i) {
    for (std::size_t u = n * m; u + 1 > m + i; --u) p[u] -= p[u - m - i];  // times 1 - q^(m + i)
    for (std::size_t u = i; u <= n * m; ++u) p[u] += p[u - i];             // over 1 - q^i
  }
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= total;
  return p;
}

double RankTest::p_value(const std::vector<double>& x, const std::vector<double>& y, double widening) {
  check(!x.empty() && !y.empty(), "statistics", "rank test of no samples");
  const double n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
  // Walk both in order; a tie gives everyone in it the mean rank.
  double rank_sum = 0, ties = 0, rank = 0;
  std::size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const double value = j == y.size() || (i < x.size() && x[i] < y[j]) ? x[i] : y[j];
    double of_x = 0, of_both = 0;
    while (i < x.size() && x[i] == value) ++i, ++of_x, ++of_both;
    while (j < y.size() && y[j] == value) ++j, ++of_both;
    rank_sum += of_x * (rank + (of_both + 1) / 2);
    rank += of_both;
    ties += of_both * of_both * of_both - of_both;
  }
  const double u = rank_sum - n * (n + 1) / 2;
  if (ties == 0 && n * m <= kExactPairs) {
    const std::vector<double>& p = distribution(x.size(), y.size());
    const auto at = static_cast<std::size_t>(std::min(u, n * m - u));  // symmetric: the smaller tail
    const double tail = std::accumulate(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(at) + 1, 0.0);
    const double both = std::min(1.0, 2 * tail);
    return widening == 1 ? both : normal_tails(normal_deviation(both) / widening);
  }
  const double all = n + m;
  const double variance = n * m / 12 * (all + 1 - ties / (all * (all - 1)));
  if (variance <= 0) return 1;  // every sample is the same
  return normal_tails(std::max(0.0, std::abs(u - n * m / 2) - 0.5) / (widening * std::sqrt(variance)));
}

double RankTest::least_p_value(std::size_t n, std::size_t m) {
  if (n * m <= kExactPairs) return std::min(1.0, 2 * distribution(n, m)[0]);
  const double a = static_cast<double>(n), b = static_cast<double>(m);
  return normal_tails((a * b / 2 - 0.5) / std::sqrt(a * b / 12 * (a + b + 1)));
}

namespace {

// The samples' ranks less the mean rank; a tie gives everyone in it the mean of theirs.
std::vector<double> centred_ranks(const std::vector<double>& samples) {
  const std::size_t n = samples.size();
  std::vector<std::pair<double, std::uint32_t>> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = {samples[i], static_cast<std::uint32_t>(i)};
  std::sort(order.begin(), order.end());
  std::vector<double> rank(n);
  const double count = static_cast<double>(n);
  for (std::size_t i = 0, end = 0; i < n; i = end) {
    for (end = i; end < n && order[end].first == order[i].first;) ++end;
    for (std::size_t k = i; k < end; ++k)
      rank[order[k].second] = 0.5 * static_cast<double>(i + end - 1) - 0.5 * (count - 1);
  }
  return rank;
}

double power_of(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

// Of values that are centred.
double autocorrelation_of(const std::vector<double>& rank) {
  const std::size_t n = rank.size();
  const double count = static_cast<double>(n), power = power_of(rank);
  if (power == 0) return 1;
  // Independent samples have a mean of -(n - k) / (n (n - 1)) at lag k, because their own mean was taken off.
  const auto correlation = [&](std::size_t lag) {
    const auto shifted = rank.begin() + static_cast<std::ptrdiff_t>(lag);
    return std::inner_product(shifted, rank.end(), rank.begin(), 0.0) / power +
           (count - static_cast<double>(lag)) / (count * (count - 1));
  };
  double pair = 1 + correlation(1), sum = pair;
  for (std::size_t lag = 2; lag + 1 < n && pair > 0; lag += 2) {
    pair = std::min(pair, correlation(lag) + correlation(lag + 1));
    sum += std::max(pair, 0.0);
  }
  return std::max(1.0, 2 * sum - 1);
}

// The same of many samples: by the means of blocks of neighbours. What neighbours have in common shows in the variance of these means,
// what blocks have in common in their own autocorrelation; the variance of the mean of all is the product of both.
double autocorrelation_by_blocks(const std::vector<double>& rank) {
  const std::size_t size = (rank.size() + kManySamples - 1) / kManySamples, blocks = rank.size() / size;
  std::vector<double> means(blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto begin = rank.begin() + static_cast<std::ptrdiff_t>(b * size);
    means[b] = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(size), 0.0) / static_cast<double>(size);
  }
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(blocks);
  for (double& m : means) m -= mean;  // of the last block some samples are left out
  const double power = power_of(rank) / static_cast<double>(rank.size());
  if (power == 0) return 1;
  const double within = static_cast<double>(size) * power_of(means) / static_cast<double>(blocks - 1) / power;
  return std::max(1.0, within * autocorrelation_of(means));
}

// How many of x[i] / y[j] are at most `limit`. Both sorted: as x grows the least y that will do grows too.
std::uint64_t ratios_up_to(const std::vector<double>& x, const std::vector<double>& y, double limit) {
  std::uint64_t count = 0;
  std::size_t j = 0;
  for (const double a : x) {
    while (j < y.size() && !(a / y[j] <= limit)) ++j;
    count += y.size() - j;
  }
  return count;
}

// The ratio x[i] / y[j] of this rank, from 0, of all of them in order: between two bounds that are halved by what they are as bits, until so few
// lie between them that these can be made. Both sorted and positive.
double ratio_of_rank(const std::vector<double>& x, const std::vector<double>& y, std::uint64_t rank) {
  const auto bits = [](double v) { return std::bit_cast<std::uint64_t>(v); };
  std::uint64_t low = bits(x.front() / y.back()) - 1,
                high = bits(x.back() / y.front());  // beyond `low`, `high` at most
  std::uint64_t up_to_low = 0, up_to_high = static_cast<std::uint64_t>(x.size()) * y.size();
  while (high - low > 1 && up_to_high - up_to_low > kManyRatios) {
    const std::uint64_t middle = low + (high - low) / 2;
    const std::uint64_t count = ratios_up_to(x, y, std::bit_cast<double>(middle));
    if (count > rank)
      high = middle, up_to_high = count;
    else
      low = middle, up_to_low = count;
  }
  if (high - low == 1) return std::bit_cast<double>(high);
  std::vector<double> between;
  between.reserve(up_to_high - up_to_low);
  const double least = std::bit_cast<double>(low), most = std::bit_cast<double>(high);
  std::size_t j = 0;
  for (const double a : x) {
    while (j < y.size() && !(a / y[j] <= most)) ++j;
    for (std::size_t k = j; k < y.size() && a / y[k] > least; ++k) between.push_back(a / y[k]);
  }
  const auto at = between.begin() + static_cast<std::ptrdiff_t>(rank - up_to_low);
  std::nth_element(between.begin(), at, between.end());
  return *at;
}

}  // namespace

double autocorrelation_time(const std::vector<double>& samples) {
  if (samples.size() < 8) return 1;
  const std::vector<double> rank = centred_ranks(samples);
  return samples.size() > kManySamples ? autocorrelation_by_blocks(rank) : autocorrelation_of(rank);
}

double shift_ratio(const std::vector<double>& x, const std::vector<double>& y) {
  check(!x.empty() && !y.empty(), "statistics", "shift of no samples");
  const std::uint64_t all = static_cast<std::uint64_t>(x.size()) * y.size();
  if (all > kManyRatios && x.front() / y.back() > 0) {
    const double upper = ratio_of_rank(x, y, all / 2);
    return all % 2 ? upper : 0.5 * (upper + ratio_of_rank(x, y, all / 2 - 1));
  }
  std::vector<double> ratios;
  ratios.reserve(x.size() * y.size());
  for (const double a : x)
    for (const double b : y) ratios.push_back(a / b);
  const auto upper = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), upper, ratios.end());
  if (ratios.size() % 2) return *upper;
  return 0.5 * (*upper + *std::max_element(ratios.begin(), upper));
}

SignedRanks signed_ranks(std::vector<double> x, double widening) {
  check(!x.empty(), "statistics", "signed ranks of no differences");
  // Means of two are as many as the square: of more differences than this neighbours stand for one.
  constexpr std::size_t kMost = 2000;
  while (x.size() > kMost) {
    for (std::size_t i = 0; i + 1 < x.size(); i += 2) x[i / 2] = 0.5 * (x[i] + x[i + 1]);
    x.resize(x.size() / 2);
  }
  const double n = static_cast<double>(x.size());
  const double middle_rank = n * (n + 1) / 4, spread = widening * std::sqrt(n * (n + 1) * (2 * n + 1) / 24);
  std::vector<double> means;
  means.reserve(x.size() * (x.size() + 1) / 2);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = i; j < x.size(); ++j) means.push_back(0.5 * (x[i] + x[j]));
  std::sort(means.begin(), means.end());
  SignedRanks r;
  r.estimate = median_of_sorted(means);
  const double outside = std::floor(middle_rank - normal_deviation(1 - RatioBootstrap::kConfidence) * spread);
  const auto cut = static_cast<std::size_t>(std::clamp(outside, 0.0, (static_cast<double>(means.size()) - 1) / 2));
  r.interval = {means[cut], means[means.size() - 1 - cut]};
  // The sum of the ranks of those above zero is the number of means above it; one at zero counts half.
  const auto [low, high] = std::equal_range(means.begin(), means.end(), 0.0);
  const double above = static_cast<double>(means.end() - high) + 0.5 * static_cast<double>(high - low);
  r.p_value = normal_tails(std::max(0.0, std::abs(above - middle_rank) - 0.5) / spread);
  r.least_p_value = normal_tails((middle_rank - 0.5) / (spread / widening));
  return r;
}

std::vector<double> holm(const std::vector<double>& p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    largest = std::max(largest, std::min(1.0, p_values[order[k]] * static_cast<double>(order.size() - k)));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

}  // namespace mbench::reports
