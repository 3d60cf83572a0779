#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/point/model_spec.h"

namespace mbench {

std::int64_t RopeSpec::turned(std::int64_t head_dim) const {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(head_dim) * fraction / 2 + 1e-9)) * 2;
}

namespace {

// The pair, counted on, that turns so often within the original length.
double pair_that_turns(const RopeSpec& rope, double n, double turns) {
  return n * std::log(static_cast<double>(rope.original_positions) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.base));
}

// Of pair i, how much of its own frequency stays.
double kept_by_yarn(const RopeSpec& rope, double n, double i) {
  double low = pair_that_turns(rope, n, rope.high_frequency_factor),
         high = pair_that_turns(rope, n, rope.low_frequency_factor);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, n - 1);
  if (low == high) high += 0.001;  // as the published code avoids a division by zero
  return 1 - std::clamp((i - low) / (high - low), 0.0, 1.0);
}

// How often the pair turns within the original length, and where that lies between the two bounds, which may be one.
double kept_by_llama3(const RopeSpec& rope, double frequency) {
  const double turns = static_cast<double>(rope.original_positions) * frequency / (2 * std::numbers::pi);
  if (rope.high_frequency_factor == rope.low_frequency_factor) return turns > rope.low_frequency_factor ? 1 : 0;
  return std::clamp((turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor), 0.0,
                    1.0);
}

double base_of(const RopeSpec& rope, double n, std::int64_t seq) {
  if (rope.factor == 1 || rope.scaling != RopeScaling::dynamic || seq <= rope.original_positions || n <= 2)
    return rope.base;
  const double longer = static_cast<double>(seq) / static_cast<double>(rope.original_positions);
  return rope.base * std::pow(rope.factor * longer - (rope.factor - 1), n / (n - 2));
}

}  // namespace

std::vector<float> RopeSpec::frequencies(std::int64_t head_dim, std::int64_t seq) const {
  const std::int64_t columns = turned(head_dim);
  const std::vector<double>& own = seq > original_positions ? long_factors : short_factors;
  const double n = static_cast<double>(columns), from = base_of(*this, n, seq);
  std::vector<float> all;
  for (std::int64_t i = 0; i < columns; i += 2) {
    double frequency = std::pow(from, -static_cast<double>(i) / n);
    if (scaling == RopeScaling::longrope) {
      frequency /= own.at(static_cast<std::size_t>(i / 2));
    } else if (factor != 1 && scaling != RopeScaling::dynamic) {
      double kept = 0;
      if (scaling == RopeScaling::llama3) kept = kept_by_llama3(*this, frequency);
      if (scaling == RopeScaling::yarn) kept = kept_by_yarn(*this, n, static_cast<double>(i / 2));
      frequency = frequency * kept + frequency / factor * (1 - kept);
    }
    all.push_back(static_cast<float>(frequency));
  }
  return all;
}

double RopeSpec::magnitude() const {
  if (scaling == RopeScaling::longrope) {
    if (attention_factor != 0 || factor == 1) return attention_factor != 0 ? attention_factor : 1;
    return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original_positions)));
  }
  if (scaling != RopeScaling::yarn || factor == 1) return 1;
  return attention_factor != 0 ? attention_factor : 0.1 * std::log(factor) + 1;
}

double AttentionTemperature::at(std::int64_t position) const {
  // In f32, as PyTorch's models compute it.
  const float chunks = std::floor(static_cast<float>(position + first) / static_cast<float>(floor));
  return scale * std::log1p(chunks) + 1;
}

}  // namespace mbench
