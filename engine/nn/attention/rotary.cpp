#include "engine/nn/attention/rotary.h"

#include <cmath>

namespace mbench::nn {

const Tensor& RotaryAngles::get(Device& device, const RopeSpec& rope, std::int64_t head_dim, const SequenceShare& share,
                                const Documents* documents) {
  const Key key{rope, head_dim, share};
  for (const auto& [of, table] : tables_)
    if (of == key) return table;
  tables_.emplace_back(key, Tensor());
  Tensor& table = tables_.back().second;
  const std::int64_t half = rope.turned(head_dim) / 2, rows = share.rows();
  table = device.empty({2, rows, half}, DType::f32, Category::other, "rotary angles");
  if (!device.real()) return table;
  const std::vector<float> frequencies = rope.frequencies(head_dim, share.rows() * share.ranks());
  const double magnitude = rope.magnitude();
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(2 * rows * half));
  const auto position = [&](std::int64_t row) {
    const std::int64_t at = share.position(row);
    return documents == nullptr ? at : at - documents->first_of(at);
  };
  for (const bool sine : {false, true})
    for (std::int64_t row = 0; row < rows; ++row)
      for (const float frequency : frequencies) {
        // The angle in f32, as PyTorch's models compute it: at far positions its rounding shows.
        const double angle = static_cast<float>(position(row)) * frequency;
        values.push_back(static_cast<float>(magnitude * (sine ? std::sin(angle) : std::cos(angle))));
      }
  device.write(table, std::as_bytes(std::span(values)));
  return table;
}

}  // namespace mbench::nn
