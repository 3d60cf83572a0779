// The plan of an MoE's dispatch: a stable counting sort in four kernels, without atomics. A block has consecutive pairs and walks them in
// tiles. In a tile every thread compares its pair with all others: how many of its expert precede it, and whether it is the last. Only the
// last writes the expert's number for this block.
//   count_pairs    numbers[block, expert]: the block's pairs of each expert; pairs[row] = -1
//   sum_blocks     numbers[block, expert]: the pairs of all blocks before; counts
//   add_experts    offsets
//   place_pairs    rows and pairs
#pragma once
#include <algorithm>
#include <limits>

#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/dispatch_plan.h"

namespace mbench::cuda {

inline constexpr int kPairTile = 256;
// Enough to keep a GPU busy, few enough to be walked by one thread for each expert.
inline constexpr std::int64_t kPairBlocks = 256;

struct DispatchPlanArguments {
  const std::int64_t* experts;
  std::int64_t *rows, *pairs, *counts, *offsets;
  int* numbers;            // [blocks, experts]
  std::int64_t n, run;     // pairs: all, and of a block
  std::int64_t number;     // of experts
  std::int64_t most_rows;  // elements of `pairs`
  std::int64_t capacity;   // 0: none
  std::int64_t multiple;
  std::int64_t first;  // the expert, among all, that comes first here
};

// Calls f for every pair i of the block, with its expert (-1 is none). Of its tile, f gets how many earlier pairs have that expert, and
// whether no later pair has it. f of a later tile sees what f of an earlier one has written.
template <class F>
__device__ inline void for_pairs(const DispatchPlanArguments& a, SharedArray<int, kPairTile>& tile, F&& f) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * a.run;
  const std::int64_t end = begin + a.run < a.n ? begin + a.run : a.n;
  const int lane = static_cast<int>(threadIdx.x);
  for (std::int64_t first = begin; first < end; first += kPairTile) {
    const std::int64_t i = first + lane;
    int expert = -1;
    if (i < end) {
      const std::int64_t e = a.experts[i] - a.first;
      if (e >= 0 && e < a.number) expert = static_cast<int>(e);
    }
    __syncthreads();  // the last tile has been read
    tile[lane] = expert;
    __syncthreads();
    int before = 0, after = 0;
    if (expert >= 0) {
      for (int j = 0; j < kPairTile; ++j) {
        if (tile[j] != expert) continue;
        if (j < lane) ++before;
        if (j > lane) ++after;
      }
    }
    f(i, i < end, expert, before, after == 0);
  }
}

// A template only so that several sources may include it.
template <int Threads>
__global__ void __launch_bounds__(Threads) count_pairs(DispatchPlanArguments a) {
  __shared__ SharedArray<int, kPairTile> tile;
  int* numbers = a.numbers + blockIdx.x * a.number;
  for (std::int64_t e = threadIdx.x; e < a.number; e += Threads) numbers[e] = 0;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * Threads;
  for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * Threads + threadIdx.x; r < a.most_rows; r += threads)
    a.pairs[r] = -1;
  for_pairs(a, tile, [&](std::int64_t, bool, int expert, int before, bool last) {
    if (expert >= 0 && last) numbers[expert] += before + 1;
  });
}

// A thread for each expert.
template <int Threads>
__global__ void __launch_bounds__(Threads) sum_blocks(DispatchPlanArguments a, std::int64_t blocks) {
  const std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * Threads + threadIdx.x;
  if (e >= a.number) return;
  int sum = 0;
#pragma unroll 8
  for (std::int64_t b = 0; b < blocks; ++b) {
    const int own = a.numbers[b * a.number + e];
    a.numbers[b * a.number + e] = sum;
    sum += own;
  }
  a.counts[e] = sum;
}

// One warp.
template <int Threads>
__global__ void __launch_bounds__(Threads) add_experts(DispatchPlanArguments a) {
  static_assert(Threads == kWarp);
  const int lane = static_cast<int>(threadIdx.x);
  std::int64_t before = 0;  // rows of the experts before these
  for (std::int64_t first = 0; first < a.number; first += kWarp) {
    const std::int64_t e = first + lane;
    std::int64_t sum = 0;
    if (e < a.number) sum = a.capacity > 0 ? a.capacity : (a.counts[e] + a.multiple - 1) / a.multiple * a.multiple;
    for (int step = 1; step < kWarp; step *= 2) {
      const std::int64_t other = __shfl_sync(kAllLanes, sum, (lane - step) & (kWarp - 1));
      if (lane >= step) sum += other;
    }
    if (e < a.number) a.offsets[e + 1] = before + sum;
    before += __shfl_sync(kAllLanes, sum, kWarp - 1);
  }
  if (lane == 0) a.offsets[0] = 0;
}

template <int Threads>
__global__ void __launch_bounds__(Threads) place_pairs(DispatchPlanArguments a) {
  __shared__ SharedArray<int, kPairTile> tile;
  int* numbers = a.numbers + blockIdx.x * a.number;
  for_pairs(a, tile, [&](std::int64_t i, bool mine, int expert, int before, bool last) {
    std::int64_t row = -1;
    const int place = expert >= 0 ? numbers[expert] + before : 0;
    __syncthreads();  // all have read what the last pair of each expert updates
    if (expert >= 0) {
      if (last) numbers[expert] = place + 1;
      if (a.capacity == 0 || place < a.capacity) {
        row = a.offsets[expert] + place;
        a.pairs[row] = i;
      }
    }
    if (mine) a.rows[i] = row;
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::DispatchPlan& op) {
  const std::int64_t n = op.experts.numel();
  check(n <= std::numeric_limits<int>::max(), op.name, "pairs, got {}, need at most {}", n,
        std::numeric_limits<int>::max());
  const std::int64_t tiles = std::max<std::int64_t>(1, (n + kPairTile - 1) / kPairTile);
  const std::int64_t each = (tiles + kPairBlocks - 1) / kPairBlocks, blocks = (tiles + each - 1) / each;
  const auto size = static_cast<std::size_t>(blocks * op.number()) * sizeof(int);
  const DispatchPlanArguments a{pointer<std::int64_t>(op.experts),
                                pointer<std::int64_t>(op.rows),
                                pointer<std::int64_t>(op.pairs),
                                pointer<std::int64_t>(op.counts),
                                pointer<std::int64_t>(op.offsets),
                                static_cast<int*>(stream.scratch(size)),
                                n,
                                each * kPairTile,
                                op.number(),
                                op.pairs.numel(),
                                op.capacity,
                                op.multiple,
                                op.first};
  Launch runs;
  runs.grid_x = static_cast<unsigned>(blocks);
  runs.block_x = kPairTile;
  Launch experts;
  experts.grid_x = static_cast<unsigned>((op.number() + kPairTile - 1) / kPairTile);
  experts.block_x = kPairTile;
  Launch warp;
  warp.block_x = kWarp;
  stream.launch(op.name, runs, count_pairs<kPairTile>, a);
  stream.launch(op.name, experts, sum_blocks<kPairTile>, a, blocks);
  stream.launch(op.name, warp, add_experts<kWarp>, a);
  stream.launch(op.name, runs, place_pairs<kPairTile>, a);
}

}  // namespace mbench::cuda
