#include "engine/ops/matmul.h"

#include <cblas.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <optional>

#include "engine/backend/cpu/bf16_gemms.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/ops/epilogue.h"

namespace mbench::cpu {
namespace {

using ops::Matmul;
using ops::Matrix;

// Largest panels that 16-bit operands are converted into: 8 MiB of a, 32 MiB of b, 16 MiB of c. Narrower ones are converted more
// often and multiplied at a lower rate (docs/evidence/2026-11-26-speed.md).
constexpr std::int64_t kRows = 1024, kCols = 4096, kDepth = 2048;
// Batches whose panels are smaller than this (in floats) are shared out among the threads whole.
constexpr std::int64_t kSmallPanels = 256 * 1024;

void sgemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
           std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, static_cast<int>(m),
              static_cast<int>(n), static_cast<int>(k), alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb), beta,
              c, static_cast<int>(ldc));
}

// The part [row, row + rows) x [col, col + cols) of an operand as BLAS wants it.
struct Panel {
  const float* data;
  std::int64_t ld;
};

template <class T>
Panel panel_of(const Matrix& x, std::int64_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
               std::int64_t cols, float* buffer) {
  if (x.transposed) {
    std::swap(row, col);
    std::swap(rows, cols);
  }
  const T* from = x.data.as<T>() + x.offset + index * x.batch_stride + row * x.ld + col;
  if constexpr (std::is_same_v<T, float>) {
    return {from, x.ld};
  } else {
    parallel_rows(rows, cols, [&](std::int64_t r) { to_floats(from + r * x.ld, buffer + r * cols, cols); });
    return {buffer, cols};
  }
}

struct PanelSizes {
  std::int64_t rows, cols, depth;
  std::int64_t a() const { return rows * depth; }
  std::int64_t b() const { return depth * cols; }
  std::int64_t c() const { return rows * cols; }
  std::int64_t total() const { return a() + b() + c(); }
};

template <class TC>
void scale_row(TC* row, std::int64_t n, float beta) {
  float buffer[kTile];
  for (std::int64_t j = 0; j < n; j += kTile) {
    const std::int64_t count = std::min(kTile, n - j);
    const float* x = load(row + j, buffer, count);
    float* y = target(row + j, buffer);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = beta == 0 ? 0 : beta * x[i];
    store(y, row + j, count);
  }
}

// row = tile + beta * row
template <class TC>
void merge_row(const float* tile, TC* row, std::int64_t n, float beta) {
  if (beta == 0) {
    from_floats(tile, row, n);
    return;
  }
  float old[kTile], sum[kTile];
  for (std::int64_t j = 0; j < n; j += kTile) {
    const std::int64_t count = std::min(kTile, n - j);
    to_floats(row + j, old, count);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sum[i] = tile[j + i] + beta * old[i];
    from_floats(sum, row + j, count);
  }
}

// One product of the batch where an operand or the result is 16 bits wide.
template <class T, class TC>
void convert_and_multiply(const Matmul& op, std::int64_t index, const PanelSizes& size, float* scratch) {
  const std::int64_t m = op.c.rows, n = op.c.cols, k = op.a.cols;
  float *abuf = scratch, *bbuf = abuf + size.a(), *tile = bbuf + size.b();
  TC* c = op.c.data.as<TC>() + op.c.offset + index * op.c.batch_stride;
  constexpr bool direct = std::is_same_v<TC, float>;
  Panel a{};
  for (std::int64_t j0 = 0; j0 < n; j0 += size.cols) {
    const std::int64_t nj = std::min(size.cols, n - j0);
    Panel b{};
    for (std::int64_t i0 = 0; i0 < m; i0 += size.rows) {
      const std::int64_t mi = std::min(size.rows, m - i0);
      TC* out = c + i0 * op.c.ld + j0;
      for (std::int64_t p0 = 0; p0 < k; p0 += size.depth) {
        const std::int64_t kp = std::min(size.depth, k - p0);
        if (j0 == 0 || size.rows < m || size.depth < k) a = panel_of<T>(op.a, index, i0, p0, mi, kp, abuf);
        if (i0 == 0 || size.depth < k) b = panel_of<T>(op.b, index, p0, j0, kp, nj, bbuf);
        const float beta = p0 > 0 ? 1.0f : direct ? op.beta : 0.0f;
        float* to = tile;
        std::int64_t ld = nj;
        if constexpr (direct) {
          to = out;
          ld = op.c.ld;
        }
        sgemm(op.a.transposed, op.b.transposed, mi, nj, kp, op.alpha, a.data, a.ld, b.data, b.ld, beta, to, ld);
      }
      if constexpr (!direct)
        parallel_rows(mi, nj, [&](std::int64_t r) { merge_row(tile + r * nj, out + r * op.c.ld, nj, op.beta); });
    }
  }
}

void multiply_f32(const Matmul& op, std::int64_t index) {
  const auto at = [&](const Matrix& x) { return x.data.as<float>() + x.offset + index * x.batch_stride; };
  sgemm(op.a.transposed, op.b.transposed, op.c.rows, op.c.cols, op.a.cols, op.alpha, at(op.a), op.a.ld, at(op.b),
        op.b.ld, op.beta, at(op.c), op.c.ld);
}

void multiply(const Matmul& op, Scratch& memory) {
  const std::int64_t m = op.c.rows, n = op.c.cols, k = op.a.cols;
  if (m == 0 || n == 0 || op.batch == 0) return;
  constexpr std::int64_t limit = std::numeric_limits<int>::max();
  check(std::max({m, n, k, op.a.ld, op.b.ld, op.c.ld}) <= limit, "matmul", "sizes, got {} x {} x {}, need at most {}",
        m, n, k, limit);
  if (k == 0) {  // nothing to add, and no leading dim that BLAS would take
    with_type(op.c.data.dtype(), [&](auto type) {
      using T = decltype(type);
      for (std::int64_t row = 0; row < op.batch * m; ++row)
        scale_row(op.c.data.as<T>() + op.c.offset + row / m * op.c.batch_stride + row % m * op.c.ld, n, op.beta);
    });
    return;
  }
  const int threads = omp_get_max_threads();
  const DType in = op.a.data.dtype(), out = op.c.data.dtype();
  if (in == DType::f32 && out == DType::f32) {
    if (op.batch >= threads && threads > 1) {
      // Inside a parallel region BLAS runs on the calling thread alone.
#pragma omp parallel for schedule(dynamic)
      for (std::int64_t i = 0; i < op.batch; ++i) multiply_f32(op, i);
    } else {
      for (std::int64_t i = 0; i < op.batch; ++i) multiply_f32(op, i);
    }
    return;
  }
  const PanelSizes size{std::min(kRows, m), std::min(kCols, n), std::min(kDepth, k)};
  with_type(in, [&](auto in_type) {
    with_type(out, [&](auto out_type) {
      using T = decltype(in_type);
      using TC = decltype(out_type);
      const bool shared_out = op.batch >= threads && threads > 1 && size.total() <= kSmallPanels;
      float* scratch = memory.floats(size.total() * (shared_out ? threads : 1));
#pragma omp parallel for schedule(dynamic) if (shared_out)
      for (std::int64_t i = 0; i < op.batch; ++i)
        convert_and_multiply<T, TC>(op, i, size, scratch + omp_get_thread_num() * size.total());
    });
  });
}

// On bf16 instructions, with a bias if that is all of the epilogue. False, and nothing is done, for what is left to BLAS: there are
// none, operands that are not bf16, a result in f16, no terms to sum, another epilogue.
bool multiply_natively(CpuOps& cpu, const Matmul& op) {
  if (!cpu.bf16_gemms || op.a.data.dtype() != DType::bf16 || op.c.data.dtype() == DType::f16) return false;
  if (op.c.rows == 0 || op.c.cols == 0 || op.a.cols == 0 || op.batch == 0) return false;
  if (op.gelu_input || op.gelu_grad_input || op.bias_gradient) return false;
  const auto place = [&](const Matrix& x) {
    return Bf16Shape::Place{x.ld, op.batch > 1 ? x.batch_stride : 0, x.transposed};
  };
  const Bf16Shape shape{op.c.rows,     op.c.cols,   op.a.cols,   op.batch,
                        place(op.a),   place(op.b), place(op.c), op.c.data.dtype() == DType::f32,
                        bool(op.bias), op.alpha,    op.beta};
  Bf16Gemm* gemm = cpu.bf16_gemms->find(shape);
  if (gemm == nullptr) return false;
  const auto at = [](const Matrix& x) {
    return x.data.data() + static_cast<std::size_t>(x.offset) * size_of(x.data.dtype());
  };
  gemm->run(at(op.a), at(op.b), at(op.c), op.bias ? op.bias.data() : nullptr, cpu.scratch.bytes(gemm->scratch_bytes()));
  return true;
}

// Numbers of fp16, each as the sum of two of bf16: 8 bits and the 3 that are left, with range to spare.
struct SplitPanel {
  bf16 *high, *low;
};

// The part [row, row + rows) x [col, col + cols) of an operand, as it is stored.
SplitPanel split_panel(const Matrix& x, std::int64_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
                       std::int64_t cols, bf16* buffer) {
  const SplitPanel panel{buffer, buffer + rows * cols};
  if (x.transposed) {
    std::swap(row, col);
    std::swap(rows, cols);
  }
  const f16* from = x.data.as<f16>() + x.offset + index * x.batch_stride + row * x.ld + col;
  parallel_row_tiles(rows, cols, [&](std::int64_t r, std::int64_t c, std::int64_t n) {
    float whole[kTile], part[kTile];
    bf16 *high = panel.high + r * cols + c, *low = panel.low + r * cols + c;
    to_floats(from + r * x.ld + c, whole, n);
    from_floats(whole, high, n);
    to_floats(high, part, n);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)  // nothing is left of infinity: it stays what it is
      part[i] = std::fabs(whole[i]) <= 65504.0f ? whole[i] - part[i] : 0.0f;
    from_floats(part, low, n);
  });
  return panel;
}

// How such a product is cut, and the shapes of what is left of it.
struct SplitSizes {
  static constexpr std::int64_t kRows = 1024, kCols = 1024, kDepth = 2048;
  explicit SplitSizes(const Matmul& op)
      : rows(std::min(kRows, op.c.rows)), cols(std::min(kCols, op.c.cols)), depth(std::min(kDepth, op.a.cols)) {}
  std::int64_t rows, cols, depth;

  // f(first row, first column, rows, columns) of every tile of c.
  template <class F>
  void for_tiles(const Matmul& op, F&& f) const {
    for (std::int64_t i = 0; i < op.c.rows; i += rows)
      for (std::int64_t j = 0; j < op.c.cols; j += cols)
        f(i, j, std::min(rows, op.c.rows - i), std::min(cols, op.c.cols - j));
  }
  // f(first term, terms) of every panel of the operands of a tile.
  template <class F>
  void for_panels(const Matmul& op, F&& f) const {
    for (std::int64_t p = 0; p < op.a.cols; p += depth) f(p, std::min(depth, op.a.cols - p));
  }
  static Bf16Shape shape(const Matmul& op, std::int64_t m, std::int64_t n, std::int64_t k, bool first) {
    return {.m = m,
            .n = n,
            .k = k,
            .a = {op.a.transposed ? m : k, 0, op.a.transposed},
            .b = {op.b.transposed ? k : n, 0, op.b.transposed},
            .c = {n, 0, false},
            .to_f32 = true,
            .alpha = op.alpha,
            .beta = first ? 0.0f : 1.0f};
  }
};

// The most memory that the products of a split one work in; nothing where one of them has no code.
std::optional<std::size_t> split_work(Bf16Gemms& gemms, const Matmul& op, const SplitSizes& size) {
  std::optional<std::size_t> most = 0;
  size.for_tiles(op, [&](std::int64_t, std::int64_t, std::int64_t m, std::int64_t n) {
    size.for_panels(op, [&](std::int64_t, std::int64_t k) {
      for (const bool first : {true, false}) {
        const Bf16Gemm* gemm = gemms.find(SplitSizes::shape(op, m, n, k, first));
        if (gemm == nullptr) most.reset();
        if (most) most = std::max(*most, gemm->scratch_bytes());
      }
    });
  });
  return most;
}

// Products of fp16 operands on units that multiply bf16 at many times the rate of f32: a product of two sums of two is four
// products, all exact in f32. False, and nothing is done, where there are no such units.
bool multiply_split(CpuOps& cpu, const Matmul& op) {
  if (!cpu.bf16_gemms || !cpu.bf16_gemms->matrix_units() || op.a.data.dtype() != DType::f16) return false;
  if (op.c.rows == 0 || op.c.cols == 0 || op.a.cols == 0 || op.batch == 0) return false;
  Bf16Gemms& gemms = *cpu.bf16_gemms;
  const SplitSizes size(op);
  const std::optional<std::size_t> work_bytes = split_work(gemms, op, size);
  if (!work_bytes) return false;
  const auto whole_lines = [](std::int64_t floats) { return (floats + 15) / 16 * 16; };
  const std::int64_t c_floats = whole_lines(size.rows * size.cols), a_floats = whole_lines(size.rows * size.depth),
                     b_floats = whole_lines(size.depth * size.cols);  // two numbers of 16 bits each
  float* tile = static_cast<float*>(
      cpu.scratch.bytes(static_cast<std::size_t>(c_floats + a_floats + b_floats) * sizeof(float) + *work_bytes));
  float *a_buffer = tile + c_floats, *b_buffer = a_buffer + a_floats, *work = b_buffer + b_floats;
  const auto multiply_tile = [&](std::int64_t index, std::int64_t i, std::int64_t j, std::int64_t m, std::int64_t n) {
    size.for_panels(op, [&](std::int64_t p, std::int64_t k) {
      const SplitPanel a = split_panel(op.a, index, i, p, m, k, reinterpret_cast<bf16*>(a_buffer));
      const SplitPanel b = split_panel(op.b, index, p, j, k, n, reinterpret_cast<bf16*>(b_buffer));
      const auto add = [&](const bf16* left, const bf16* right, bool first) {
        gemms.find(SplitSizes::shape(op, m, n, k, first))->run(left, right, tile, nullptr, work);
      };
      add(a.high, b.high, p == 0);
      add(a.high, b.low, false);
      add(a.low, b.high, false);
      add(a.low, b.low, false);
    });
  };
  with_type(op.c.data.dtype(), [&](auto type) {
    using TC = decltype(type);
    for (std::int64_t index = 0; index < op.batch; ++index)
      size.for_tiles(op, [&](std::int64_t i, std::int64_t j, std::int64_t m, std::int64_t n) {
        multiply_tile(index, i, j, m, n);
        TC* out = op.c.data.as<TC>() + op.c.offset + index * op.c.batch_stride + i * op.c.ld + j;
        parallel_rows(m, n, [&](std::int64_t r) { merge_row(tile + r * n, out + r * op.c.ld, n, op.beta); });
      });
  });
  return true;
}

void multiply_somehow(CpuOps& cpu, const Matmul& op) {
  if (!multiply_natively(cpu, op) && !multiply_split(cpu, op)) multiply(op, cpu.scratch);
}

}  // namespace

// CBLAS has no epilogues: they are the ops that they are made of. oneDNN adds a bias to its f32 sums; what an epilogue else
// reads or writes beside c is one pass of an op over c, as for CBLAS.
template <>
void compute(CpuOps& cpu, const Matmul& op) {
  if (!op.has_epilogue()) return multiply_somehow(cpu, op);
  if (op.bias && multiply_natively(cpu, op)) return;
  multiply_somehow(cpu, ops::gemm_before_epilogue(op));
  ops::for_each_part_of_epilogue(op, [&](const auto& part) { compute(cpu, part); });
}

}  // namespace mbench::cpu
