#include "engine/ops/matrix.h"

#include <algorithm>

namespace mbench::ops {

void need_inside(std::string_view op, std::string_view argument, const Matrix& m, std::int64_t batch, bool bytes) {
  if (!bytes || size_of(m.data.dtype()) != 1) need_float(op, argument, m.data);
  mbench::check(!m.transposed && m.ld >= m.cols, op,
                "{}, got a row stride of {} elements{}, need at least their {} columns", argument, m.ld,
                m.transposed ? ", transposed" : "", m.cols);
  // Blocks may lie one before the other.
  const std::int64_t last = m.offset + (batch - 1) * m.batch_stride, begin = std::min(m.offset, last),
                     end = std::max(m.offset, last) + (m.rows - 1) * m.ld + m.cols;
  mbench::check(end <= m.data.numel(), op, "{} reaches past its tensor, got end {}, need at most {}", argument, end,
                m.data.numel());
  mbench::check(begin >= 0, op, "{} begins before its tensor, got {}, need at least 0", argument, begin);
}

void need_like(std::string_view op, std::string_view argument, const Matrix& m, const Matrix& like,
               std::int64_t batch) {
  need_inside(op, argument, m, batch);
  need_dtype(op, argument, m.data, like.data.dtype());
  mbench::check(m.rows == like.rows && m.cols == like.cols, op, "{}, got {} x {}, need {} x {}", argument, m.rows,
                m.cols, like.rows, like.cols);
}

}  // namespace mbench::ops
