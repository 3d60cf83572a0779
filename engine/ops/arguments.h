// What the arguments of several ops have in common.
#pragma once
#include <string_view>

#include "engine/base/philox.h"
#include "engine/device/meter.h"
#include "engine/device/tensor.h"

namespace mbench::ops {

// Throws an internal error naming the op and the argument unless `t` has that shape.
void need_shape(std::string_view op, std::string_view argument, const Tensor& t, const Shape& shape);
void need_dtype(std::string_view op, std::string_view argument, const Tensor& t, DType dtype);
void need_float(std::string_view op, std::string_view argument, const Tensor& t);
void need_same(std::string_view op, std::string_view argument, const Tensor& t, const Tensor& like);

inline double bytes_of(const Tensor& t) {
  return t ? static_cast<double>(t.bytes()) : 0;
}

// Where a local [seq, batch, width] tensor lies in the global [seq, samples, width] one. Local element (s, b, w) uses
// the random word of global element ((sample0 + b) * seq + position(s)) * width + w.
struct HiddenMap {
  std::int64_t seq = 0;      // global sequence length
  std::int64_t seq0 = 0;     // first local position
  std::int64_t sample0 = 0;  // first local sample within the global batch
  // Rows from `turn` on (0: none) are another part of the sequence, from position `seq1` on.
  std::int64_t turn = 0, seq1 = 0;
  constexpr std::int64_t position(std::int64_t s) const { return turn == 0 || s < turn ? seq0 + s : seq1 + s - turn; }
};

// The same for attention probabilities, local [batch, heads, queries, keys]: global element
// (((sample0 + b) * heads + head0 + a) * seq + q0 + q) * seq + k0 + k.
struct HeadMap {
  std::int64_t heads = 0;  // global number of heads
  std::int64_t head0 = 0;  // first local head
  std::int64_t sample0 = 0;
  // For a block of scores: the global sequence length, the first query, the first key. `seq` 0: as many keys as there
  // are here.
  std::int64_t seq = 0, q0 = 0, k0 = 0;
  constexpr std::int64_t seq_of(std::int64_t keys) const { return seq == 0 ? keys : seq; }
};

// Dropout: elements whose word is below p * 2^32 become zero, the others are scaled by 1 / (1 - p).
struct DropoutSpec {
  float p = 0;
  RngKey key;
  Tensor step{};  // [1] i64, optional: takes the place of key.step, where a recorded step is replayed
};

}  // namespace mbench::ops
