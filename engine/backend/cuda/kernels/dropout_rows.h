// Which random words the rows of a tensor take, and how they become factors; for the ops that drop elements.
#pragma once
#include <limits>

#include "engine/backend/cuda/kernels/philox.h"
#include "engine/backend/cuda/kernels/vector.h"
#include "engine/ops/dropout.h"

namespace mbench::cuda {

// Maps a row of a local tensor to the global tensor. Its first element there is a linear function of the row's indices, for hidden tensors
// [seq, batch, width] and for probabilities [batch, heads, queries, keys]. If the tensor holds two parts of a sequence, the second part's
// elements are shifted by `jump` from where the first would continue.
struct RowElements {
  std::uint32_t inner = 1, middle = 1;                                      // row = (outer * middle + m) * inner + i
  std::int64_t outer_step = 0, middle_step = 0, inner_step = 0, first = 0;  // in elements
  std::uint32_t turn = std::numeric_limits<std::uint32_t>::max();           // the first m of the second part
  std::int64_t jump = 0;

  __device__ std::uint64_t at(std::int64_t row) const {
    const std::uint32_t r = static_cast<std::uint32_t>(row), outer_middle = r / inner, i = r - outer_middle * inner;
    const std::uint32_t outer = outer_middle / middle, m = outer_middle - outer * middle;
    const std::int64_t part = m < turn ? first : first + jump;
    return static_cast<std::uint64_t>(part + outer * outer_step + m * middle_step + i * inner_step);
  }
};

inline RowElements row_elements(std::string_view op, const ops::ElementMap& map, const Shape& shape) {
  check(shape.rows() <= std::numeric_limits<std::uint32_t>::max(), op, "rows to drop from, got {}, need below 2^32",
        shape.rows());
  RowElements rows;
  if (const auto* hidden = std::get_if<ops::HiddenMap>(&map)) {
    check(shape.rank() == 3, op, "shape, got {}, need 3 dims for its random elements", shape.str());
    const std::int64_t width = shape[2];
    rows.inner = static_cast<std::uint32_t>(shape[1]);  // row = s * batch + b
    rows.middle = std::numeric_limits<std::uint32_t>::max();
    rows.middle_step = width;
    rows.inner_step = hidden->seq * width;
    rows.first = (hidden->sample0 * hidden->seq + hidden->seq0) * width;
    if (hidden->turn > 0) {
      rows.turn = static_cast<std::uint32_t>(hidden->turn);
      rows.jump = (hidden->seq1 - hidden->seq0 - hidden->turn) * width;
    }
  } else {
    const auto& heads = std::get<ops::HeadMap>(map);
    check(shape.rank() == 4, op, "shape, got {}, need 4 dims for its random elements", shape.str());
    const std::int64_t width = heads.seq_of(shape[3]), head = width * width;
    rows.inner = static_cast<std::uint32_t>(shape[2]);  // row = (b * heads + a) * queries + q
    rows.middle = static_cast<std::uint32_t>(shape[1]);
    rows.outer_step = heads.heads * head;
    rows.middle_step = head;
    rows.inner_step = width;
    rows.first = (heads.sample0 * heads.heads + heads.head0) * head + heads.q0 * width + heads.k0;
  }
  return rows;
}

// Decides which elements are dropped. scale = 1 and p = 0: nothing is dropped and nothing drawn.
struct Drops {
  RngKey key;
  std::uint32_t bound = 0;
  float scale = 1;
  bool draws = false;
  RowElements rows;
  const std::int64_t* step = nullptr;  // where the step is stored; null: in the key

  // 0 or the scale for V elements of row `row` from column `col` on.
  template <int V>
  __device__ Floats<V> factors(std::int64_t row, std::int64_t col) const {
    if (!draws) return filled<V>(1);
    std::uint32_t word[V];
    RngKey now = key;
    if (step != nullptr) now.step = static_cast<std::uint32_t>(*step);
    draw<V>(now, rows.at(row) + static_cast<std::uint64_t>(col), word);
    Floats<V> factor;
#pragma unroll
    for (int k = 0; k < V; ++k) factor.v[k] = word[k] < bound ? 0.0f : scale;
    return factor;
  }
};

// Everything is dropped at p = 1.
inline float keep_scale(const ops::DropoutSpec& d) {
  return d.p >= 1 ? 0.0f : d.p > 0 ? 1.0f / (1.0f - d.p) : 1.0f;
}

inline Drops drops_of(std::string_view op, const ops::DropoutSpec& d, const ops::ElementMap& map, const Shape& shape) {
  Drops drops;
  if (d.p <= 0) return drops;
  drops.key = d.key;
  drops.bound = Philox::drop_bound(d.p);
  drops.scale = keep_scale(d);
  drops.draws = true;
  drops.rows = row_elements(op, map, shape);
  drops.step = d.step ? d.step.as<std::int64_t>() : nullptr;
  return drops;
}

template <int V>
__device__ inline void store_mask(std::uint8_t* to, const Floats<V>& factor) {
  Pack<std::uint8_t, V> pack;
#pragma unroll
  for (int k = 0; k < V; ++k) pack.v[k] = factor.v[k] != 0 ? 1 : 0;
  store_pack(to, pack);
}

}  // namespace mbench::cuda
