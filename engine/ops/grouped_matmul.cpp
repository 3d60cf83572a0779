#include "engine/ops/grouped_matmul.h"

namespace mbench::ops {

Matmul GroupedMatmul::of(std::int64_t expert) const {
  const std::int64_t begin = offsets[static_cast<std::size_t>(expert)],
                     rows = offsets[static_cast<std::size_t>(expert) + 1] - begin;
  const std::int64_t in = x.shape().cols(), out = y.shape().cols();
  const Matrix xs(x, rows, in, in, begin * in), ys(y, rows, out, out, begin * out),
      ws(w, out, in, in, expert * out * in);
  switch (gemm) {
    case Gemm::forward:
      return {xs, ws.t(), ys, 1, 1, beta};
    case Gemm::input_gradient:
      return {ys, ws, xs, 1, 1, beta};
    case Gemm::weight_gradient:
      return {ys.t(), xs, ws, 1, 1, beta};
  }
  fail(ErrorKind::internal, name, "GEMM, got {}, need one of 3", static_cast<int>(gemm));
}

void GroupedMatmul::check() const {
  need_float(name, "x", x);
  need_float(name, "w", w);
  need_float(name, "y", y);
  mbench::check(offsets.size() >= 2, name, "offsets, got {}, need one more than there are experts", offsets.size());
  need_shape(name, "w", w, {experts(), y.shape().cols(), x.shape().cols()});
  mbench::check(x.shape().rows() == y.shape().rows(), name, "rows of x and y, got {} and {}, need as many",
                x.shape().rows(), y.shape().rows());
  const bool gradient = gemm == Gemm::weight_gradient;
  const Tensor& other = gemm == Gemm::forward ? x : y;  // both factors have one dtype
  need_dtype(name, gradient ? "x" : "w", gradient ? x : w, other.dtype());
  std::int64_t end = 0;
  for (const std::int64_t offset : offsets) {
    mbench::check(offset >= end && offset <= x.shape().rows(), name,
                  "offsets, got {} after {}, need rising ones of at most {}", offset, end, x.shape().rows());
    end = offset;
  }
}

Cost GroupedMatmul::cost() const {
  Cost all;
  all.matmul = true;
  for (std::int64_t e = 0; e < experts(); ++e) {
    const Cost one = of(e).cost();
    all.flops += one.flops, all.bytes += one.bytes;
  }
  return all;
}

}  // namespace mbench::ops
