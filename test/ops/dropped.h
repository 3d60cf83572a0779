// Which elements dropout drops, one by one, and where it is applied in the cases of the ops that drop.
#pragma once
#include "engine/base/philox.h"
#include "engine/ops/dropout.h"
#include "test/ops/shapes.h"

namespace mbench::test {

inline std::int64_t global_element(const ops::HiddenMap& m, const Shape& s, std::int64_t i) {
  const std::int64_t w = i % s[2], b = i / s[2] % s[1], q = i / s[2] / s[1];
  return ((m.sample0 + b) * m.seq + (m.turn > 0 && q >= m.turn ? m.seq1 + q - m.turn : m.seq0 + q)) * s[2] + w;
}
inline std::int64_t global_element(const ops::HeadMap& m, const Shape& s, std::int64_t i) {
  const std::int64_t k = i % s[3], q = i / s[3] % s[2], a = i / s[3] / s[2] % s[1], b = i / s[3] / s[2] / s[1];
  const std::int64_t seq = m.seq == 0 ? s[3] : m.seq;
  return (((m.sample0 + b) * m.heads + m.head0 + a) * seq + m.q0 + q) * seq + m.k0 + k;
}

// What element i of a tensor of that shape is multiplied by: 0 if it is dropped, else 1 / (1 - p).
template <class Map>
double dropout_factor(const ops::DropoutSpec& dropout, const Map& map, const Shape& shape, std::int64_t i) {
  if (dropout.p == 0) return 1;
  const auto element = static_cast<std::uint64_t>(global_element(map, shape, i));
  const bool kept = Philox::word(dropout.key, element) >= Philox::drop_bound(dropout.p);
  return kept ? 1 / (1 - static_cast<double>(dropout.p)) : 0;
}
inline double dropout_factor(const ops::DropoutSpec& dropout, const ops::ElementMap& map, const Shape& shape,
                             std::int64_t i) {
  return std::visit([&](const auto& m) { return dropout_factor(dropout, m, shape, i); }, map);
}

// With the step in the key, where it stands in memory: `values` are those of the case's tensors.
template <class Values>
ops::DropoutSpec in_key(ops::DropoutSpec dropout, const Values& values) {
  if (dropout.step) dropout.key.step = static_cast<std::uint32_t>(values[dropout.step][0]);
  return dropout;
}

inline constexpr RngKey kDropoutKey{0x123456789ABCDEFull, 77, 5};

struct DropoutPlace {
  Shape shape;
  ops::ElementMap map;
};

// Rows that begin at any of a Philox block's words, of the whole tensor and of parts of one.
inline const DropoutPlace kDropoutPlaces[] = {
    {{3, 2, 7}, ops::HiddenMap{11, 4, 3}},          {{2, 3, 1027}, ops::HiddenMap{5, 0, 1000001}},
    {{4, 3, 64}, ops::HiddenMap{9, 3, 1}},          {{1, 1, 1}, ops::HiddenMap{1, 0, 0}},
    {{1, 2, 2048}, ops::HiddenMap{4096, 17, 2}},    {{2, 3, 37, 37}, ops::HeadMap{8, 2, 1}},
    {{1, 2, 64, 64}, ops::HeadMap{16, 3, 1 << 20}}, {{6, 2, 21}, ops::HiddenMap{24, 4, 2, 3, 15}},
    {{5, 1, 256}, ops::HiddenMap{64, 40, 1, 2, 8}}, {{2, 2, 13, 13}, ops::HeadMap{4, 1, 3, 52, 39, 13}}};
inline const DropoutPlace kLargeDropoutPlaces[] = {{{16, 2, 1024}, ops::HiddenMap{64, 7, 3}},
                                                   {{1, 4, 128, 128}, ops::HeadMap{16, 4, 2}}};

inline std::string dropout_label(DType type, const DropoutPlace& p, float share, bool mask) {
  return fmt::format("{} p {}{}", label(type, p.shape), share, mask ? " with a mask" : "");
}

// For benchmarks, and larger than anybody runs.
inline const DropoutPlace kDroppedHidden{kHidden, ops::HiddenMap{kBenchTokens, 0, 0}},
    kHugeDroppedHidden{kHugeHidden, ops::HiddenMap{65536, 0, 0}};

}  // namespace mbench::test
