// Which elements dropout drops, one by one.
#pragma once
#include "engine/base/philox.h"
#include "engine/ops/dropout.h"

namespace mbench::test {

inline std::int64_t global_element(const ops::HiddenMap& m, const Shape& s, std::int64_t i) {
  const std::int64_t w = i % s[2], b = i / s[2] % s[1], q = i / s[2] / s[1];
  return ((m.sample0 + b) * m.seq + m.seq0 + q) * s[2] + w;
}
inline std::int64_t global_element(const ops::HeadMap& m, const Shape& s, std::int64_t i) {
  const std::int64_t k = i % s[3], q = i / s[3] % s[2], a = i / s[3] / s[2] % s[1],
                     b = i / s[3] / s[2] / s[1];
  return (((m.sample0 + b) * m.heads + m.head0 + a) * s[2] + q) * s[3] + k;
}

// What element i of a tensor of that shape is multiplied by: 0 if it is dropped, else 1 / (1 - p).
template <class Map>
double dropout_factor(const ops::DropoutSpec& dropout, const Map& map, const Shape& shape, std::int64_t i) {
  if (dropout.p == 0) return 1;
  const auto element = static_cast<std::uint64_t>(global_element(map, shape, i));
  const bool kept = Philox::word(dropout.key, element) >= Philox::drop_bound(dropout.p);
  return kept ? 1 / (1 - static_cast<double>(dropout.p)) : 0;
}

}  // namespace mbench::test
