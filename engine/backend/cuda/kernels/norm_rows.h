// Shared code of the norms' kernels: threads for a row, and chunks of rows for their gradients.
#pragma once
#include <type_traits>

#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/matrix.h"

namespace mbench::cuda {

inline constexpr int kNormThreads = 1024, kNormGradThreads = 384;  // the gradient needs more registers
// A gradient that loads the next row while it reduces one keeps two rows. So it keeps fewer vectors of each, in more threads.
inline constexpr int kAheadItems = 2, kAheadThreads = 512;

// The shape determines the chunks. They are enough for their threads to fill a GPU (16 warps for each of 132 multiprocessors). They are few
// enough for their sums to cost little compared with the rows.
inline std::int64_t norm_chunk_rows(std::int64_t rows, std::int64_t n) {
  const std::int64_t most = std::clamp<std::int64_t>((std::int64_t{1} << 20) / n, 128, 4096);
  return std::max<std::int64_t>(4, (rows + most - 1) / most);
}

// How a norm's gradient walks its rows: launch(vectors, items, whether the next row is loaded ahead, shape) with constants.
template <int V, class Launcher>
void with_norm_gradient(std::int64_t chunks, std::int64_t n, bool wide, const Launcher& launch) {
  using std::integral_constant;
  const auto in_turn = [&](auto width, auto items) {
    launch(width, items, integral_constant<bool, false>(), row_shape(chunks, n, width(), kNormGradThreads));
  };
  if (wide && n <= std::int64_t{kAheadThreads} * kAheadItems *
                       V)  // the same length as rows of kItems vectors in half as many threads
    launch(integral_constant<int, V>(), integral_constant<int, kAheadItems>(), integral_constant<bool, true>(),
           row_shape(chunks, n * kItems / kAheadItems, V, kAheadThreads));
  else if (wide && row_fits(n, V, kNormGradThreads))
    in_turn(integral_constant<int, V>(), integral_constant<int, kItems>());
  else if (wide)
    in_turn(integral_constant<int, V>(), integral_constant<int, 0>());
  else
    in_turn(integral_constant<int, 1>(), integral_constant<int, 0>());
}

// Part of a vector of weights. If the vector is missing, all are `value`.
template <int V, class T>
__device__ inline Floats<V> load_or(const T* vector, std::int64_t col, float value) {
  return vector != nullptr ? load<V>(vector + col) : filled<V>(value);
}

// Addresses of the rows of a batch of matrices, counted through all of them.
template <class T>
struct RowsAt {
  T* data = nullptr;  // of the first row; null if there are none
  std::int64_t rows = 1, ld = 0, stride = 0;
  __device__ T* operator()(std::int64_t r) const { return data + r / rows * stride + r % rows * ld; }
  // Whether each row begins at an aligned address for vectors of V.
  template <int V>
  bool fits() const {
    return aligned<V>(data) && ld % V == 0 && stride % V == 0;
  }
};

template <class T>
RowsAt<T> rows_at(const ops::Matrix& m) {
  if (!m.data) return {};
  return {pointer<T>(m.data) + m.offset, m.rows, m.ld, m.batch_stride};
}

}  // namespace mbench::cuda
