// Rows of a table picked by ids, and the gradient: the same bits every time, without atomics on numbers, linear in the ids.
//
// The gradient sorts the places of the ids by their rows (sort_rows.h) and cuts them into runs. A block adds a run's gradients, row after
// row of the table, in f32 registers. A row whose places all lie in the run gets its sum at once. If a row goes on into the next run, or
// comes from the one before, the block keeps the part. A second kernel adds the parts in order. So each row is written once, and all blocks
// share the work of an id that fills the batch.
//
// Where the table has few rows (token types) every id fills much of the batch. There the ids are cut into chunks. In a chunk, a block for
// each row of the table adds the gradients of that row. The chunks' sums are added in order.
#pragma once
#include <type_traits>

#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/sort_rows.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/embedding.h"

namespace mbench::cuda {

template <class T>
struct EmbeddingEach {
  static constexpr int kWidth = width_of<T>();
  const std::int64_t* ids;
  const T* table;
  T* y;
  std::int64_t cols, first_row, local;  // local: rows of the table
  bool accumulate;
  struct Kept {};
  bool aligned() const { return cuda::aligned<kWidth>(table, y); }
  template <int V>
  __device__ Kept column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(Kept, std::int64_t i, std::int64_t col) const {
    const std::int64_t row = ids[i] - first_row;
    const bool here = row >= 0 && row < local;
    if (accumulate && !here) return;
    Floats<V> z = here ? load<V>(table + row * cols + col) : filled<V>(0);
    if (accumulate) {
      const Floats<V> was = load<V>(y + i * cols + col);
#pragma unroll
      for (int k = 0; k < V; ++k) z.v[k] += was.v[k];
    }
    store(y + i * cols + col, z);
  }
};

inline constexpr int kRunIds = kWarp;  // of a run, or a multiple of it
inline constexpr int kLoadedIds = 8;   // gradients that a thread loads before it adds one
inline constexpr std::int64_t kRunSums =
    8 << 20;  // the parts that runs keep have at most this many f32 values (except two rows)

template <class TY, class TT>
struct EmbeddingGradArguments {
  SortedRows sorted;
  const TY* dy;
  TT* dtable;
  float*
      parts;  // [runs, 2, cols]: of the run's first row if it comes from the run before, and of its last row if it goes on
  int count, run, runs;
  std::int64_t cols, local;

  __device__ int row(int i) const { return sorted.rows[i]; }
  __device__ float* part(int run, int which) const { return parts + (2 * std::int64_t{run} + which) * cols; }
  template <int V>
  __device__ void add_to_table(int row, std::int64_t col, Floats<V> sum) const {
    TT* to = dtable + row * cols + col;
    const Floats<V> was = load<V>(to);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] += was.v[k];
    store(to, sum);
  }
};

template <int V>
__device__ inline void add_to(Floats<V>& sum, const Floats<V>& x) {
#pragma unroll
  for (int k = 0; k < V; ++k) sum.v[k] += x.v[k];
}

// Block (i, y): run i, and its y-th part of the columns.
template <int V, class TY, class TT>
__global__ void __launch_bounds__(kColumnThreads) add_runs(EmbeddingGradArguments<TY, TT> a) {
  __shared__ SharedArray<int, kRunIds> rows;
  __shared__ SharedArray<int, kRunIds> places;
  const int run = static_cast<int>(blockIdx.x), begin = run * a.run,
            end = begin + a.run < a.count ? begin + a.run : a.count;
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * kColumnThreads + threadIdx.x) * V;
  const int before = begin > 0 ? a.row(begin - 1) : -1, after = end < a.count ? a.row(end) : -1;
  int row = a.row(begin);
  bool from_before = row == before;
  Floats<V> sum = filled<V>(0);
  const auto finish = [&](bool goes_on) {
    if (row >= a.local || col >= a.cols) return;
    if (from_before)
      store(a.part(run, 0) + col, sum);
    else if (goes_on)
      store(a.part(run, 1) + col, sum);
    else
      a.add_to_table(row, col, sum);
  };
  for (int first = begin; first < end; first += kRunIds) {
    const int here = end - first < kRunIds ? end - first : kRunIds, lane = static_cast<int>(threadIdx.x);
    __syncthreads();  // the ids of the last round have been read
    if (lane < here) rows[lane] = a.row(first + lane), places[lane] = a.sorted.places[first + lane];
    __syncthreads();
    for (int from = 0; from < here; from += kLoadedIds) {
      Pack<TY, V> loaded[kLoadedIds];
#pragma unroll
      for (int k = 0; k < kLoadedIds; ++k)
        if (from + k < here && rows[from + k] < a.local && col < a.cols)
          loaded[k] = load_pack<V>(a.dy + places[from + k] * a.cols + col);
#pragma unroll
      for (int k = 0; k < kLoadedIds; ++k) {
        if (from + k >= here || rows[from + k] >= a.local) continue;
        if (rows[from + k] != row) {
          finish(false);
          row = rows[from + k], from_before = false, sum = filled<V>(0);
        }
        add_to(sum, floats_of(loaded[k]));
      }
    }
  }
  finish(row == after);
}

// Block (i, y): the last row of run i, if it begins there and goes on, and its y-th part of the columns.
template <int V, class TY, class TT>
__global__ void __launch_bounds__(kColumnThreads) add_parts(EmbeddingGradArguments<TY, TT> a) {
  const int run = static_cast<int>(blockIdx.x), begin = run * a.run, next = begin + a.run;
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * kColumnThreads + threadIdx.x) * V;
  if (next >= a.count || col >= a.cols) return;
  const int row = a.row(next - 1);
  if (row >= a.local || a.row(next) != row) return;
  if (begin > 0 && a.row(begin - 1) == row) return;  // the row comes from the run before
  Floats<V> sum = load<V>(a.part(run, 1) + col);
#pragma unroll 4
  for (int other = run + 1; other < a.runs && a.row(other * a.run) == row; ++other)
    add_to(sum, load<V>(a.part(other, 0) + col));
  a.add_to_table(row, col, sum);
}

inline constexpr std::int64_t kSmallTable = 64;       // rows
inline constexpr std::int64_t kSmallTableSums = 512;  // chunks, over all rows: their sums are in scratch

template <class TY>
struct SmallTableArguments {
  const std::int64_t* ids;
  const TY* dy;
  float* partial;  // [chunks, local, cols]
  std::int64_t count, chunk_ids, cols, first_row, local;
};

// Block (x, y, z): a part of the columns, chunk y of the ids, row z of the table.
template <int V, class TY>
__global__ void __launch_bounds__(kColumnThreads) small_table_sums(SmallTableArguments<TY> a) {
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (col >= a.cols) return;
  const std::int64_t id = a.first_row + blockIdx.z, begin = blockIdx.y * a.chunk_ids;
  const std::int64_t end = begin + a.chunk_ids < a.count ? begin + a.chunk_ids : a.count;
  Floats<V> sum = filled<V>(0);
  for (std::int64_t i = begin; i < end; ++i) {
    if (a.ids[i] != id) continue;
    const Floats<V> d = load<V>(a.dy + i * a.cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] += d.v[k];
  }
  store(a.partial + (blockIdx.y * a.local + blockIdx.z) * a.cols + col, sum);
}

template <class TY, class TT, class Stream>
void enqueue_small_table(Stream& stream, const ops::EmbeddingGrad& op) {
  const std::int64_t cols = op.dtable.shape().cols(), local = op.dtable.shape().rows(), count = op.ids.numel();
  constexpr int V = width_of<TY>();
  const auto* dy = pointer<TY>(op.dy);
  const bool wide = cols % V == 0 && aligned<V>(dy);
  ColumnSums plan = column_sums(count, cols, wide ? V : 1);
  const std::int64_t most = std::min(plan.chunks, std::max<std::int64_t>(1, kSmallTableSums / local));
  const std::int64_t chunk_ids = (count + most - 1) / most, chunks = (count + chunk_ids - 1) / chunk_ids;
  auto* partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(chunks * local * cols) * sizeof(float)));
  plan.shape.grid_y = static_cast<unsigned>(chunks), plan.shape.grid_z = static_cast<unsigned>(local);
  const SmallTableArguments<TY> a{
      pointer<std::int64_t>(op.ids), dy, partial, count, chunk_ids, cols, op.first_row, local};
  if (wide)
    stream.launch(op.name, plan.shape, small_table_sums<V, TY>, a);
  else
    stream.launch(op.name, plan.shape, small_table_sums<1, TY>, a);
  TT* table = pointer<TT>(op.dtable);
  stream.launch(op.name, add_chunks_shape(local * cols, false), add_chunks<TT, TT>, partial, chunks, local * cols,
                local * cols, table, table);
}

template <class Stream>
void enqueue(Stream& stream, const ops::Embedding& op) {
  with_float(op.name, op.table.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.table.shape().cols();
    launch_columns(stream, op.name, op.ids.numel(), cols,
                   EmbeddingEach<T>{pointer<std::int64_t>(op.ids), pointer<T>(op.table), pointer<T>(op.y), cols,
                                    op.first_row, op.table.shape().rows(), op.accumulate});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::EmbeddingGrad& op) {
  const std::int64_t cols = op.dtable.shape().cols(), count = op.ids.numel();
  if (count == 0 || cols == 0 || op.dtable.shape().rows() == 0) return;
  if (op.dtable.shape().rows() <= kSmallTable)
    return with_float(op.name, op.dy.dtype(), [&](auto dy_type) {
      with_float(op.name, op.dtable.dtype(),
                 [&](auto table_type) { enqueue_small_table<decltype(dy_type), decltype(table_type)>(stream, op); });
    });
  const std::int64_t local = op.dtable.shape().rows();
  const std::int64_t steps = std::max<std::int64_t>(1, (2 * count * cols / kRunSums + kRunIds - 1) / kRunIds),
                     run = steps * kRunIds;
  const std::int64_t runs = (count + run - 1) / run;
  auto* parts = static_cast<float*>(
      stream.scratch(static_cast<std::size_t>(2 * runs * cols) * sizeof(float) + sort_scratch(count) * sizeof(int)));
  const SortedRows sort = sorted(stream, op.name, pointer<std::int64_t>(op.ids), count, op.first_row, local,
                                 reinterpret_cast<int*>(parts + 2 * runs * cols));
  with_float(op.name, op.dy.dtype(), [&](auto dy_type) {
    with_float(op.name, op.dtable.dtype(), [&](auto table_type) {
      using TY = decltype(dy_type);
      using TT = decltype(table_type);
      constexpr int V = width_of<TY, TT>();
      const EmbeddingGradArguments<TY, TT> a{sort,
                                             pointer<TY>(op.dy),
                                             pointer<TT>(op.dtable),
                                             parts,
                                             static_cast<int>(count),
                                             static_cast<int>(run),
                                             static_cast<int>(runs),
                                             cols,
                                             local};
      const auto launch = [&](auto width) {
        constexpr int kWidth = width();
        Launch shape;
        shape.block_x = kColumnThreads;
        shape.grid_x = static_cast<unsigned>(runs);
        shape.grid_y = static_cast<unsigned>((cols + kColumnThreads * kWidth - 1) / (kColumnThreads * kWidth));
        stream.launch(op.name, shape, add_runs<kWidth, TY, TT>, a);
        stream.launch(op.name, shape, add_parts<kWidth, TY, TT>, a);
      };
      if (cols % V == 0 && aligned<V>(a.dy) && aligned<V>(a.dtable))
        launch(std::integral_constant<int, V>());
      else
        launch(std::integral_constant<int, 1>());
    });
  });
}

}  // namespace mbench::cuda
