// Parts of the ops that drop elements: which random words a row takes, and how they become factors.
#pragma once
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/philox_block.h"
#include "engine/ops/dropout.h"

namespace mbench::cpu {

// Global element of the first entry of row `row` of a tensor of that shape.
inline std::uint64_t first_element(const ops::HiddenMap& map, const Shape& shape, std::int64_t row) {
  const std::int64_t batch = shape[1], s = row / batch, b = row % batch;  // [seq, batch, width]
  return static_cast<std::uint64_t>(((map.sample0 + b) * map.seq + map.position(s)) * shape[2]);
}

inline std::uint64_t first_element(const ops::HeadMap& map, const Shape& shape, std::int64_t row) {
  const std::int64_t heads = shape[1], queries = shape[2];  // [batch, heads, queries, keys]
  const std::int64_t q = row % queries, a = row / queries % heads, b = row / queries / heads;
  const std::int64_t seq = map.seq_of(shape[3]);
  return static_cast<std::uint64_t>((((map.sample0 + b) * map.heads + map.head0 + a) * seq + map.q0 + q) * seq +
                                    map.k0);
}

inline std::uint64_t first_element(const ops::ElementMap& map, const Shape& shape, std::int64_t row) {
  return std::visit([&](const auto& m) { return first_element(m, shape, row); }, map);
}

inline void need_rank(std::string_view op, const ops::ElementMap& map, const Shape& shape) {
  const int rank = std::holds_alternative<ops::HiddenMap>(map) ? 3 : 4;
  check(shape.rank() == rank, op, "shape, got {}, need {} dims for its random elements", shape.str(), rank);
}

// The factor of kept elements; everything is dropped at p = 1.
inline float keep_scale(const ops::DropoutSpec& d) {
  return d.p >= 1 ? 0.0f : 1.0f / (1.0f - d.p);
}

inline RngKey key_of(const ops::DropoutSpec& d) {
  RngKey key = d.key;
  if (d.step) key.step = static_cast<std::uint32_t>(*d.step.as<std::int64_t>());
  return key;
}

// factor[i] = 0 or the scale, for `n` <= kTile elements from global element `element` on.
inline void draw_factors(const ops::DropoutSpec& d, std::uint64_t element, std::int64_t n, float* factor) {
  std::uint32_t buffer[kTile + kDrawSlack];
  const std::uint32_t* words = draw(PhiloxKeys(key_of(d)), element, n, buffer);
  const std::uint32_t bound = Philox::drop_bound(d.p);
  const float scale = keep_scale(d);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) factor[i] = words[i] < bound ? 0.0f : scale;
}

}  // namespace mbench::cpu
