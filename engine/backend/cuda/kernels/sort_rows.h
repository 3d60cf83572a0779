// Places of ids sorted by the row of a table that each id names. Places of one row are adjacent, in their original order.
//
// It is a radix sort by 9 bits at a time. Each pass is three kernels, linear in the ids, and gives the same result every time.
//   count_digits   numbers[block, digit]: how many ids of the block have that digit.
//   sum_digits     numbers[block, digit]: where the block's first id with that digit goes.
//   place_digits   the block's rows and places, at these positions
#pragma once
#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>
#include <utility>

#include "engine/backend/cuda/kernels/row.h"
#include "engine/base/error.h"

namespace mbench::cuda {

inline constexpr int kDigitBits = 9, kDigits = 1 << kDigitBits;
inline constexpr int kSortTile = 256, kSortRun = 8 * kSortTile;  // a block's threads, and its ids

struct SortedRows {
  int *rows, *places;
};

struct SortPass {
  const std::int64_t* ids;  // of the first pass, null later
  std::int64_t first_row, local;
  SortedRows from, to;
  int* numbers;  // [blocks, kDigits]
  int count, shift;

  // Ids of rows that are not here come last.
  __device__ int row(int i) const {
    if (ids == nullptr) return from.rows[i];
    const std::int64_t row = ids[i] - first_row;
    return static_cast<int>(row >= 0 && row < local ? row : local);
  }
  __device__ int place(int i) const { return ids == nullptr ? from.places[i] : i; }
  __device__ int digit(int row) const { return row >> shift & (kDigits - 1); }
  __device__ int begin() const { return static_cast<int>(blockIdx.x) * kSortRun; }
  __device__ int end() const { return begin() + kSortRun < count ? begin() + kSortRun : count; }
};

template <int Threads>
__global__ void __launch_bounds__(Threads) count_digits(SortPass a) {
  __shared__ SharedArray<int, kDigits> numbers;
  for (int d = static_cast<int>(threadIdx.x); d < kDigits; d += Threads) numbers[d] = 0;
  __syncthreads();
  for (int i = a.begin() + static_cast<int>(threadIdx.x); i < a.end(); i += Threads)
    atomicAdd(&numbers[a.digit(a.row(i))], 1);
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < kDigits; d += Threads)
    a.numbers[blockIdx.x * kDigits + d] = numbers[d];
}

// One block, a thread for each digit.
template <int Threads>
__global__ void __launch_bounds__(Threads) sum_digits(int* numbers, int blocks) {
  static_assert(Threads == kDigits);
  __shared__ SharedArray<int, kWarp> warps;
  const int d = static_cast<int>(threadIdx.x), lane = d % kWarp, warp = d / kWarp;
  int all = 0;
#pragma unroll 8
  for (int b = 0; b < blocks; ++b) all += numbers[b * kDigits + d];
  int sum = all;  // of the digits up to this one
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_sync(kAllLanes, sum, (lane - step) & (kWarp - 1));
    if (lane >= step) sum += other;
  }
  if (lane == kWarp - 1) warps[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += warps[w];
  int next = sum - all;
  for (int b = 0; b < blocks; ++b) {
    const int own = numbers[b * kDigits + d];
    numbers[b * kDigits + d] = next;
    next += own;
  }
}

template <int Threads>
__global__ void __launch_bounds__(Threads) place_digits(SortPass a) {
  __shared__ SharedArray<int, kDigits> next;
  __shared__ SharedArray<int, Threads> tile;
  const int lane = static_cast<int>(threadIdx.x);
  for (int d = lane; d < kDigits; d += Threads) next[d] = a.numbers[blockIdx.x * kDigits + d];
  for (int first = a.begin(); first < a.end(); first += Threads) {
    const int i = first + lane, row = i < a.end() ? a.row(i) : 0, digit = i < a.end() ? a.digit(row) : -1;
    __syncthreads();  // the last tile's updates are there, and it has been read
    tile[lane] = digit;
    __syncthreads();
    int before = 0, after = 0;
#pragma unroll 8
    for (int j = 0; j < Threads; ++j) {
      const int same = tile[j] == digit;
      before += j < lane ? same : 0;
      after += j > lane ? same : 0;
    }
    const int to = digit >= 0 ? next[digit] + before : 0;
    __syncthreads();  // all have read what the last id of each digit updates
    if (digit < 0) continue;
    if (after == 0) next[digit] = to + 1;
    a.to.rows[to] = row;
    a.to.places[to] = a.place(i);
  }
}

// Number of integers of scratch that sorted() needs.
inline std::size_t sort_scratch(std::int64_t count) {
  return static_cast<std::size_t>(4 * count + (count + kSortRun - 1) / kSortRun * kDigits);
}

// Enqueues the sort, and returns where its result will be. `first_row`, `local`: the table's rows here; `scratch`: sort_scratch() integers.
template <class Stream>
SortedRows sorted(Stream& stream, std::string_view name, const std::int64_t* ids, std::int64_t count,
                  std::int64_t first_row, std::int64_t local, int* scratch) {
  constexpr int kMost = std::numeric_limits<int>::max();
  check(count <= kMost && local < kMost, name, "ids and rows, got {} and {}, need below {}", count, local, kMost);
  const int n = static_cast<int>(count), blocks = (n + kSortRun - 1) / kSortRun;
  SortPass a{
      ids, first_row, local, {scratch, scratch + n}, {scratch + 2 * n, scratch + 3 * n}, scratch + 4 * std::int64_t{n},
      n,   0};
  Launch runs, one;
  runs.grid_x = static_cast<unsigned>(blocks);
  runs.block_x = kSortTile;
  one.block_x = kDigits;
  for (const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(local))); a.shift < bits;
       a.shift += kDigitBits) {
    stream.launch(name, runs, count_digits<kSortTile>, a);
    stream.launch(name, one, sum_digits<kDigits>, a.numbers, blocks);
    stream.launch(name, runs, place_digits<kSortTile>, a);
    a.ids = nullptr;
    std::swap(a.from, a.to);
  }
  return a.from;
}

}  // namespace mbench::cuda
