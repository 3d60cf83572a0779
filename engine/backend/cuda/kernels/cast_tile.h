// A tile of 128 x 128 elements that a block of threads casts to FP8 and writes both as it is and transposed. A thread has 8 columns of 8
// rows. It loads them by 16 bytes, 16 threads to a row. It writes 8 codes of a row at once, 128 bytes by 16 threads.
//
// For the transpose, a thread puts the codes of 4 rows of a column into shared memory as one word. A warp then writes the 128 bytes of a
// column. Each group of 8 columns has another order of words, so that in both directions no two lanes access the same bank.
#pragma once
#include "engine/backend/cuda/kernels/row.h"
#include "engine/base/fp8.h"

namespace mbench::cuda {

inline constexpr int kCastTile = 128, kCastThreads = 256, kCastWidth = 8, kCastRows = 4;
inline constexpr int kCastBlocks = 2;  // of a multiprocessor, at least: a thread may have 128 registers
inline constexpr int kCastGroups = kCastTile / kCastWidth;                                // threads of a row
inline constexpr int kCastPasses = kCastTile * kCastGroups / (kCastThreads * kCastRows);  // a thread's groups of rows
inline constexpr int kCastWords = kCastTile / kCastRows;                                  // of a column
inline constexpr int kCastWarps = kCastThreads / kWarp;
using CastWords = SharedArray<std::uint32_t, kCastTile * kCastWords>;

// The codes of two values, the first in the lower byte: cvt.rn.satfinite, where the GPU has it.
template <class E>
__device__ inline std::uint32_t fp8_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t codes;
  if constexpr (E::kMantissa == 3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
  return codes;
#else
  return fp8_from_float<E>(first) | static_cast<std::uint32_t>(fp8_from_float<E>(second)) << 8;
#endif
}

// 8 codes of a row.
struct Codes {
  std::uint32_t word[2];
  __device__ std::uint32_t at(int k) const { return word[k / 4] >> (8 * (k % 4)) & 0xFF; }
};

template <class E>
__device__ inline Codes codes_of(const Floats<kCastWidth>& x) {
  Codes codes;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* v = x.v + 4 * half;
    codes.word[half] = fp8_pair<E>(v[0], v[1]) | fp8_pair<E>(v[2], v[3]) << 16;
  }
  return codes;
}

// Which tile, and where in it a thread is.
struct CastPlace {
  std::int64_t rows, cols, row0, col0;
  int group, strip;  // of its 8 columns and 4 rows
  __device__ CastPlace(std::int64_t tile, std::int64_t rows, std::int64_t cols)
      : rows(rows),
        cols(cols),
        group(static_cast<int>(threadIdx.x) % kCastGroups),
        strip(static_cast<int>(threadIdx.x) / kCastGroups) {
    const std::int64_t across = (cols + kCastTile - 1) / kCastTile;
    row0 = tile / across * kCastTile;
    col0 = tile % across * kCastTile;
  }
  __device__ int word(int pass) const { return pass * (kCastWords / kCastPasses) + strip; }
  __device__ int tile_row(int pass, int r) const { return kCastRows * word(pass) + r; }
  __device__ std::int64_t row(int pass, int r) const { return row0 + kCastRows * word(pass) + r; }
  __device__ std::int64_t col() const { return col0 + kCastWidth * group; }
};

// 8 elements of a row from the thread's first column on, zeros beyond the matrix. `Wide`: rows and columns consist of whole, aligned
// vectors.
template <bool Wide, class T>
__device__ inline Pack<T, kCastWidth> load_cast(const T* x, const CastPlace& p, std::int64_t row) {
  Pack<T, kCastWidth> pack{};
  if (row >= p.rows || p.col() >= p.cols) return pack;
  const T* from = x + row * p.cols + p.col();
  if constexpr (Wide) {
    pack = load_pack<kCastWidth>(from);
  } else {
#pragma unroll
    for (int k = 0; k < kCastWidth; ++k)
      if (p.col() + k < p.cols) pack.v[k] = from[k];
  }
  return pack;
}

// The thread's elements of the tile, all loaded before any is used.
template <class T, bool Wide>
struct CastPart {
  Pack<T, kCastWidth> x[kCastPasses][kCastRows];
  __device__ CastPart(const T* from, const CastPlace& p) {
#pragma unroll
    for (int pass = 0; pass < kCastPasses; ++pass)
#pragma unroll
      for (int r = 0; r < kCastRows; ++r) x[pass][r] = load_cast<Wide>(from, p, p.row(pass, r));
  }
  // The larger of `most` and all |x|; NaN is skipped.
  __device__ float most(float most) const {
#pragma unroll
    for (int pass = 0; pass < kCastPasses; ++pass)
#pragma unroll
      for (int r = 0; r < kCastRows; ++r) most = most_of(pass, r, most);
    return most;
  }
  __device__ float most_of(int pass, int r, float most) const {
    const Floats<kCastWidth> z = floats_of(x[pass][r]);
#pragma unroll
    for (int k = 0; k < kCastWidth; ++k) most = fabsf(z.v[k]) > most ? fabsf(z.v[k]) : most;
    return most;
  }
};

// The largest |x| of a row's elements that `Threads` neighbours have.
template <int Threads, class T, bool Wide>
__device__ inline float row_most(const CastPart<T, Wide>& part, int pass, int r) {
  float most = part.most_of(pass, r, 0);
#pragma unroll
  for (int mask = Threads / 2; mask > 0; mask /= 2) most = Max()(most, from_lane_xor(most, mask));
  return most;
}

// The largest |x| of the tile's columns, of the rows of each warp; column_most() has all, once this has returned.
using ColumnMaxima = SharedArray<float, kCastWarps * kCastTile>;
template <class T, bool Wide>
__device__ inline void find_column_maxima(const CastPart<T, Wide>& part, const CastPlace& p, ColumnMaxima& maxima) {
  Floats<kCastWidth> most = filled<kCastWidth>(0);
#pragma unroll
  for (int pass = 0; pass < kCastPasses; ++pass)
#pragma unroll
    for (int r = 0; r < kCastRows; ++r) {
      const Floats<kCastWidth> z = floats_of(part.x[pass][r]);
#pragma unroll
      for (int k = 0; k < kCastWidth; ++k) most.v[k] = fabsf(z.v[k]) > most.v[k] ? fabsf(z.v[k]) : most.v[k];
    }
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // the tile before has been read
#pragma unroll
  for (int k = 0; k < kCastWidth; ++k) {
    most.v[k] = Max()(most.v[k], from_lane_xor(most.v[k], kCastGroups));
    if (p.strip % 2 == 0) maxima[warp * kCastTile + kCastWidth * p.group + k] = most.v[k];
  }
  __syncthreads();
}
__device__ inline float column_most(ColumnMaxima& maxima, int col) {
  float all = 0;
  for (int w = 0; w < kCastWarps; ++w) all = Max()(all, maxima[w * kCastTile + col]);
  return all;
}

template <bool Wide>
__device__ inline void store_codes(std::uint8_t* y, const CastPlace& p, std::int64_t row, const Codes& codes) {
  if (row >= p.rows || p.col() >= p.cols) return;
  std::uint8_t* to = y + row * p.cols + p.col();
  if constexpr (Wide) {
    need_aligned<kCastWidth>(to);
    store_bytes<kCastWidth>(to, codes.word);
  } else {
#pragma unroll
    for (int k = 0; k < kCastWidth; ++k)
      if (p.col() + k < p.cols) to[k] = static_cast<std::uint8_t>(codes.at(k));
  }
}

// The position of word `word` of column `col` of the tile.
__device__ inline int place_of_word(int col, int word) {
  return col * kCastWords + (word ^ (2 * (col / kCastWidth)));
}

// Where the scale of a block of a tile's row stands among the 512 of the tile's rows and 4 blocks (ops::QuantiseBlocks::place).
__device__ inline int place_of_scale(int row, int block) {
  return row % 32 * 16 + row / 32 * 4 + block;
}

// Puts a thread's 4 rows of codes where store_turned() reads them.
__device__ inline void turn(CastWords& words, const CastPlace& p, int pass, const Codes (&codes)[kCastRows]) {
#pragma unroll
  for (int k = 0; k < kCastWidth; ++k)
    words[place_of_word(kCastWidth * p.group + k, p.word(pass))] =
        codes[0].at(k) | codes[1].at(k) << 8 | codes[2].at(k) << 16 | codes[3].at(k) << 24;
}

// Writes the tile's columns, once all threads have put theirs into shared memory: y [cols, rows].
template <bool Wide>
__device__ inline void store_turned(CastWords& words, const CastPlace& p, std::uint8_t* y) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t row = p.row0 + kCastRows * lane;
  for (int k = warp; k < kCastTile && p.col0 + k < p.cols; k += kCastWarps) {
    if (row >= p.rows) continue;
    const std::uint32_t word = words[place_of_word(k, lane)];
    std::uint8_t* to = y + (p.col0 + k) * p.rows + row;
    if constexpr (Wide) {
      need_aligned<kCastRows>(to);
      store_bytes<kCastRows>(to, &word);
    } else {
#pragma unroll
      for (int r = 0; r < kCastRows; ++r)
        if (row + r < p.rows) to[r] = static_cast<std::uint8_t>(word >> (8 * r) & 0xFF);
    }
  }
}

// Host: whether all of it consists of whole vectors.
template <class T>
bool cast_is_wide(const T* x, const std::uint8_t* y, const std::uint8_t* turned, std::int64_t rows, std::int64_t cols) {
  const auto fits = [](const void* at, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(at) % bytes == 0; };
  return cols % kCastWidth == 0 && rows % kCastRows == 0 && aligned<kCastWidth>(x) && fits(y, kCastWidth) &&
         fits(turned, kCastRows);
}

}  // namespace mbench::cuda
