// Rows of a table picked by ids, and the gradient: the same bits every time, without atomics on numbers.
//
// The gradient has two stages. The first compares every id with every later one, tiles of ids in shared
// memory (count^2 / 2 comparisons, count^2 / 64 bytes from the cache), and notes for each id whether it stood
// earlier and where it stands last. In the second a block takes each id that stands there for the first time,
// walks the ids up to the last of its kind, adds their rows in order in f32 registers, and writes the row of
// the table once. All occurrences of an id are thus one block's work (one for each 128 vectors of columns):
// an id that fills the batch is what takes longest.
//
// Where the table has few rows (token types) every id fills much of the batch. There the ids are cut into chunks, of which a block
// for each row of the table adds those that are its own, and the chunks' sums are added in order.
#pragma once
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
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

inline constexpr int kIdTile = 256;

// Two integers for each id, zero at first: whether the same id stood earlier, and the place of its last
// occurrence (0: this one).
struct Places {
  int *earlier, *last;
};

template <int Threads>
__global__ void __launch_bounds__(Threads) clear_places(Places places, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  places.earlier[i] = 0;
  places.last[i] = 0;
}

// Block (x, y) compares tile x with tile x + y. Whoever finds an id again notes the same: the order does not
// matter.
template <int Threads>
__global__ void __launch_bounds__(Threads) find_places(const std::int64_t* ids, int count, Places places) {
  __shared__ SharedArray<std::int64_t, Threads> tile;
  const int lane = static_cast<int>(threadIdx.x), i = static_cast<int>(blockIdx.x) * Threads + lane;
  const int begin = static_cast<int>(blockIdx.x + blockIdx.y) * Threads;
  if (begin >= count) return;  // the whole block
  tile[lane] = begin + lane < count ? ids[begin + lane] : 0;
  __syncthreads();
  if (i >= count) return;
  const std::int64_t id = ids[i];
  const int size = count - begin < Threads ? count - begin : Threads;
  int last = 0;
  for (int j = 0; j < size; ++j) {
    if (tile[j] != id || begin + j <= i) continue;
    last = begin + j;
    places.earlier[last] = 1;
  }
  if (last > 0) atomicMax(places.last + i, last);
}

template <class TY, class TT>
struct EmbeddingGradArguments {
  const std::int64_t* ids;
  const TY* dy;
  TT* dtable;
  Places places;
  int count;
  std::int64_t cols, first_row, local;
};

// Block (i, y): id i, and its y-th part of the columns.
template <int V, class TY, class TT>
__global__ void __launch_bounds__(kColumnThreads) embedding_grad(EmbeddingGradArguments<TY, TT> a) {
  __shared__ SharedArray<int, kColumnThreads> found;
  __shared__ SharedArray<int, kColumnThreads / kWarp> counts;
  const int i = static_cast<int>(blockIdx.x);
  const std::int64_t id = a.ids[i], row = id - a.first_row;
  if (row < 0 || row >= a.local || a.places.earlier[i] != 0) return;  // the whole block
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * kColumnThreads + threadIdx.x) * V;
  const bool mine = col < a.cols;
  Floats<V> sum = filled<V>(0);
  const auto add = [&](int from) {
    if (!mine) return;
    const Floats<V> d = load<V>(a.dy + from * a.cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] += d.v[k];
  };
  add(i);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int begin = i + 1; begin <= a.places.last[i]; begin += kColumnThreads) {
    const int at = begin + static_cast<int>(threadIdx.x);
    const bool same = at < a.count && a.ids[at] == id;
    const unsigned lanes = __ballot_sync(kAllLanes, same);
    if (lane == 0) counts[warp] = __popc(lanes);
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < kColumnThreads / kWarp; ++w) {
      if (w < warp) before += counts[w];
      all += counts[w];
    }
    if (same) found[before + __popc(lanes & ((1u << lane) - 1u))] = at;
    __syncthreads();
    for (int k = 0; k < all; ++k) add(found[k]);  // all have, before the next tile's first barrier is passed
  }
  if (!mine) return;
  TT* to = a.dtable + row * a.cols + col;
  const Floats<V> was = load<V>(to);
#pragma unroll
  for (int k = 0; k < V; ++k) sum.v[k] += was.v[k];
  store(to, sum);
}

inline constexpr std::int64_t kSmallTable = 64;  // rows
inline constexpr std::int64_t kSmallTableSums = 512;  // of chunks, over all rows: what is in scratch

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
  const SmallTableArguments<TY> a{pointer<std::int64_t>(op.ids), dy, partial, count, chunk_ids, cols, op.first_row, local};
  if (wide)
    stream.launch(op.name, plan.shape, small_table_sums<V, TY>, a);
  else
    stream.launch(op.name, plan.shape, small_table_sums<1, TY>, a);
  TT* table = pointer<TT>(op.dtable);
  stream.launch(op.name, add_chunks_shape(local * cols, false), add_chunks<TT, TT>, partial, chunks, local * cols, local * cols,
                table, table);
}

template <class Stream>
void enqueue(Stream& stream, const ops::Embedding& op) {
  with_float(op.name, op.table.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.table.shape().cols();
    launch_columns(stream, op.name, op.ids.numel(), cols,
                   EmbeddingEach<T>{pointer<std::int64_t>(op.ids), pointer<T>(op.table), pointer<T>(op.y),
                                    cols, op.first_row, op.table.shape().rows(), op.accumulate});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::EmbeddingGrad& op) {
  const std::int64_t cols = op.dtable.shape().cols(), count = op.ids.numel();
  if (count == 0 || cols == 0 || op.dtable.shape().rows() == 0) return;
  if (op.dtable.shape().rows() <= kSmallTable)
    return with_float(op.name, op.dy.dtype(), [&](auto dy_type) {
      with_float(op.name, op.dtable.dtype(), [&](auto table_type) {
        enqueue_small_table<decltype(dy_type), decltype(table_type)>(stream, op);
      });
    });
  const std::int64_t tiles = (count + kIdTile - 1) / kIdTile;
  check(tiles <= 65535, op.name, "ids, got {}, need at most {}", count, 65535 * kIdTile);
  int* scratch = static_cast<int*>(stream.scratch(static_cast<std::size_t>(2 * count) * sizeof(int)));
  const Places places{scratch, scratch + count};
  const int n = static_cast<int>(count);
  const auto* ids = pointer<std::int64_t>(op.ids);
  Launch shape;
  shape.block_x = kIdTile;
  shape.grid_x = static_cast<unsigned>(tiles);
  stream.launch(op.name, shape, clear_places<kIdTile>, places, n);
  shape.grid_y = static_cast<unsigned>(tiles);
  stream.launch(op.name, shape, find_places<kIdTile>, ids, n, places);
  with_float(op.name, op.dy.dtype(), [&](auto dy_type) {
    with_float(op.name, op.dtable.dtype(), [&](auto table_type) {
      using TY = decltype(dy_type);
      using TT = decltype(table_type);
      constexpr int V = width_of<TY, TT>();
      const EmbeddingGradArguments<TY, TT> a{ids,  pointer<TY>(op.dy), pointer<TT>(op.dtable),  places, n,
                                             cols, op.first_row,       op.dtable.shape().rows()};
      const bool wide = cols % V == 0 && aligned<V>(a.dy) && aligned<V>(a.dtable);
      const std::int64_t width = kColumnThreads * (wide ? V : 1);
      Launch sums;
      sums.block_x = kColumnThreads;
      sums.grid_x = static_cast<unsigned>(count);
      sums.grid_y = static_cast<unsigned>((cols + width - 1) / width);
      if (wide)
        stream.launch(op.name, sums, embedding_grad<V, TY, TT>, a);
      else
        stream.launch(op.name, sums, embedding_grad<1, TY, TT>, a);
    });
  });
}

}  // namespace mbench::cuda
