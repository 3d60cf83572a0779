#include "engine/ops/matmul.h"

namespace mbench::ops {
namespace {

void need_inside(std::string_view argument, const Matrix& m, std::int64_t batch) {
  need_float(Matmul::name, argument, m.data);
  const std::int64_t stored_rows = m.transposed ? m.cols : m.rows,
                     stored_cols = m.transposed ? m.rows : m.cols;
  const std::int64_t last =
      m.offset + (batch - 1) * m.batch_stride + (stored_rows - 1) * m.ld + stored_cols;  // one past the end
  mbench::check(m.ld >= stored_cols && last <= m.data.numel(), Matmul::name,
                "{} reaches past its tensor, got end {} and ld {}, need end at most {} and ld at least {}",
                argument, last, m.ld, m.data.numel(), stored_cols);
}

}  // namespace

void Matmul::check() const {
  mbench::check(a.rows == c.rows && a.cols == b.rows && b.cols == c.cols && !c.transposed, name,
                "sizes, got [{}, {}] x [{}, {}] -> [{}, {}]", a.rows, a.cols, b.rows, b.cols, c.rows, c.cols);
  mbench::check(a.data.dtype() == b.data.dtype(), name, "a and b must have one dtype, got {} and {}",
                name_of(a.data.dtype()), name_of(b.data.dtype()));
  need_inside("a", a, batch);
  need_inside("b", b, batch);
  need_inside("c", c, batch);
}

Cost Matmul::cost() const {
  const double m = static_cast<double>(a.rows), n = static_cast<double>(b.cols),
               k = static_cast<double>(a.cols);
  const double in = static_cast<double>(size_of(a.data.dtype())),
               out = static_cast<double>(size_of(c.data.dtype()));
  const double bytes = in * (m * k + k * n) + out * m * n * (beta == 0 ? 1 : 2);
  return {2 * m * n * k * static_cast<double>(batch), bytes * static_cast<double>(batch), true};
}

}  // namespace mbench::ops
