// Small GEMMs inside fused attention, with operands that are already in a cache: C = A B or C += A B. BLAS would first copy both operands
// into its own buffers. For these sizes that costs as much as a third of the GEMM. Here B is row-major with a multiple of kVector columns
// (padded with zeros), and A may be read in either direction. An MR x (NV * kVector) block of C stays in registers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/float_vector.h"

namespace mbench::cpu {

#if defined(__AVX512F__)
inline constexpr int kPanelVectors = 4, kTileRows = 6;  // 24 of 32 registers hold C
inline constexpr std::int64_t kGemmDepth =
    64;  // rows of B, a panel wide, that stay in the first-level cache while all of A passes
#else
inline constexpr int kPanelVectors = 2, kTileRows = 6;  // 12 of 16
inline constexpr std::int64_t kGemmDepth = 256;
#endif
inline constexpr std::int64_t kPanel = kPanelVectors * kVector;  // columns that are computed together

// A block of kVector x kVector floats, transposed. `ld` and `to_ld`: elements from a row to the next. Step S transposes blocks of 2 S x 2 S whose
// quarters are transposed already: two of these change places.
template <int S>
inline void exchange_rows(FloatVector* rows) {
#pragma GCC unroll 16
  for (int r = 0; r < kVector; ++r)
    if ((r & S) == 0) exchange_halves<S>(rows[r], rows[r + S], std::make_index_sequence<kVector>());
  if constexpr (2 * S < kVector) exchange_rows<2 * S>(rows);
}
inline void transpose_tile(const float* from, std::int64_t ld, float* to, std::int64_t to_ld) {
  FloatVector rows[kVector];
#pragma GCC unroll 16
  for (int r = 0; r < kVector; ++r) std::memcpy(&rows[r], from + r * ld, sizeof(FloatVector));
  exchange_rows<1>(rows);
#pragma GCC unroll 16
  for (int r = 0; r < kVector; ++r) std::memcpy(to + r * to_ld, &rows[r], sizeof(FloatVector));
}

// Element (r, c) of an operand is data[r * row_step + c * col_step].
struct StridedBlock {
  const float* data;
  std::int64_t row_step, col_step;
};

template <int MR, int NV>
inline void block_tile(std::int64_t k, const StridedBlock& a, const float* b, std::int64_t ldb, float* c,
                       std::int64_t ldc, bool accumulate) {
  FloatVector sum[MR][NV];
  if (accumulate) {
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) std::memcpy(&sum[i][j], c + i * ldc + j * kVector, sizeof(FloatVector));
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sum[i][j] = FloatVector{};
  }
  const float* from = a.data;
  for (std::int64_t p = 0; p < k; ++p, b += ldb, from += a.col_step) {
    FloatVector row[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) std::memcpy(&row[j], b + j * kVector, sizeof(FloatVector));
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const float x = from[i * a.row_step];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sum[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) std::memcpy(c + i * ldc + j * kVector, &sum[i][j], sizeof(FloatVector));
}

// `rows` <= kTileRows rows.
template <int NV>
inline void block_rows_of(std::int64_t rows, std::int64_t k, const StridedBlock& a, const float* b, std::int64_t ldb,
                          float* c, std::int64_t ldc, bool accumulate) {
  switch (rows) {
    case 6:
      return block_tile<6, NV>(k, a, b, ldb, c, ldc, accumulate);
    case 5:
      return block_tile<5, NV>(k, a, b, ldb, c, ldc, accumulate);
    case 4:
      return block_tile<4, NV>(k, a, b, ldb, c, ldc, accumulate);
    case 3:
      return block_tile<3, NV>(k, a, b, ldb, c, ldc, accumulate);
    case 2:
      return block_tile<2, NV>(k, a, b, ldb, c, ldc, accumulate);
    case 1:
      return block_tile<1, NV>(k, a, b, ldb, c, ldc, accumulate);
    default:
      return;
  }
}

// C[m, n] = (or +=) A[m, k] B[k, n]; n is a multiple of kVector.
inline void block_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const StridedBlock& a, const float* b,
                       std::int64_t ldb, float* c, std::int64_t ldc, bool accumulate) {
  if (k == 0 && !accumulate)  // as of queries that see no key
    for (std::int64_t i = 0; i < m; ++i) std::fill(c + i * ldc, c + i * ldc + n, 0.0f);
  for (std::int64_t j = 0; j < n; j += kPanel) {
    const std::int64_t vectors = std::min(kPanel, n - j) / kVector;
    for (std::int64_t p = 0; p < k; p += kGemmDepth) {
      const std::int64_t depth = std::min(kGemmDepth, k - p);
      const float* from = b + p * ldb + j;
      for (std::int64_t i = 0; i < m; i += kTileRows) {
        const StridedBlock part{a.data + i * a.row_step + p * a.col_step, a.row_step, a.col_step};
        const std::int64_t rows = std::min<std::int64_t>(kTileRows, m - i);
        float* to = c + i * ldc + j;
        const bool add = accumulate || p > 0;
        switch (vectors) {
          case 4:
            block_rows_of<4>(rows, depth, part, from, ldb, to, ldc, add);
            break;
          case 3:
            block_rows_of<3>(rows, depth, part, from, ldb, to, ldc, add);
            break;
          case 2:
            block_rows_of<2>(rows, depth, part, from, ldb, to, ldc, add);
            break;
          default:
            block_rows_of<1>(rows, depth, part, from, ldb, to, ldc, add);
        }
      }
    }
  }
}

}  // namespace mbench::cpu
