#include "engine/nn/attention/rotary.h"

#include <cmath>

namespace mbench::nn {

template <class F>
const Tensor& RotaryAngles::table_of(Device& device, const Key& key, std::int64_t pairs, const Documents* documents,
                                     const F& pair_of) {
  for (const auto& [of, table] : tables_)
    if (of == key) return table;
  tables_.emplace_back(key, Tensor());
  Tensor& table = tables_.back().second;
  const std::int64_t rows = key.share.rows();
  table = device.empty({2, rows, pairs}, DType::f32, Category::other, "rotary angles");
  if (!device.real()) return table;
  const auto half = static_cast<std::size_t>(rows * pairs);
  std::vector<float> values(2 * half);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = key.share.position(row),
                       position = documents == nullptr ? at : at - documents->first_of(at);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const auto [cosine, sine] = pair_of(position, i);
      const auto place = static_cast<std::size_t>(row * pairs + i);
      values[place] = static_cast<float>(cosine), values[half + place] = static_cast<float>(sine);
    }
  }
  device.write(table, std::as_bytes(std::span(values)));
  return table;
}

const Tensor& RotaryAngles::get(Device& device, const RopeSpec& rope, std::int64_t head_dim, const SequenceShare& share,
                                const Documents* documents) {
  // Angles are made of these where there is something to write them to.
  std::vector<float> frequencies;
  if (device.real())
    frequencies = rope.frequencies(head_dim, documents ? documents->longest() : share.rows() * share.ranks());
  const double magnitude = rope.magnitude();
  return table_of(device, {rope, head_dim, share}, rope.turned(head_dim) / 2, documents,
                  [&](std::int64_t position, std::int64_t i) {
                    // The angle in f32, as PyTorch's models compute it: at far positions its rounding shows.
                    const double angle = static_cast<float>(position) * frequencies[static_cast<std::size_t>(i)];
                    return std::pair(magnitude * std::cos(angle), magnitude * std::sin(angle));
                  });
}

const Tensor& RotaryAngles::get(Device& device, const AttentionTemperature& temperature, std::int64_t head_dim,
                                const SequenceShare& share, const Documents* documents) {
  return table_of(device, {temperature, head_dim, share}, head_dim / 2, documents,
                  [&](std::int64_t position, std::int64_t) { return std::pair(temperature.at(position), 0.0); });
}

}  // namespace mbench::nn
