#include "engine/ops/epilogue.h"

namespace mbench::ops {
namespace {

void need_inside(std::string_view argument, const Matrix& m, std::int64_t batch) {
  need_float(Matmul::name, argument, m.data);
  const std::int64_t stored_rows = m.transposed ? m.cols : m.rows, stored_cols = m.transposed ? m.rows : m.cols;
  const std::int64_t last =
      m.offset + (batch - 1) * m.batch_stride + (stored_rows - 1) * m.ld + stored_cols;  // one past the end
  mbench::check(m.ld >= stored_cols && last <= m.data.numel(), Matmul::name,
                "{} reaches past its tensor, got end {} and ld {}, need end at most {} and ld at least {}", argument,
                last, m.ld, m.data.numel(), stored_cols);
}

void check_epilogue(const Matmul& op) {
  const Matrix &a = op.a, &c = op.c;
  const DType type = c.data.dtype();
  mbench::check(op.batch == 1 && op.alpha == 1 && c.ld == c.cols, Matmul::name,
                "epilogue, got batch {}, alpha {} and ld {} of c, need batch 1, alpha 1 and ld {}", op.batch, op.alpha,
                c.ld, c.cols);
  mbench::check(op.beta == 0 || !(op.bias || op.gelu_input || op.gelu_grad_input), Matmul::name,
                "epilogue on what c held, got beta {}, need 0", op.beta);
  const int kinds = (op.bias || op.gelu_input ? 1 : 0) + (op.gelu_grad_input ? 1 : 0) + (op.bias_gradient ? 1 : 0);
  mbench::check(kinds == 1, Matmul::name, "epilogues, got {}, need bias and GELU, or one gradient", kinds);
  const auto need = [&](std::string_view argument, const Tensor& t, std::int64_t numel) {
    if (!t) return;
    need_dtype(Matmul::name, argument, t, type);
    mbench::check(t.numel() == numel, Matmul::name, "elements of {}, got {}, need {}", argument, t.numel(), numel);
  };
  need("bias", op.bias, c.cols);
  need("gelu_input", op.gelu_input, c.rows * c.cols);
  need("gelu_grad_input", op.gelu_grad_input, c.rows * c.cols);
  need("bias_gradient", op.bias_gradient, c.rows);
  mbench::check(!op.bias_gradient || (a.transposed && a.ld == a.rows), Matmul::name,
                "bias_gradient of an a that is no contiguous tensor transposed, got ld {}, need {}", a.ld, a.rows);
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
  if (has_epilogue()) check_epilogue(*this);
}

double Matmul::epilogue_flops() const {
  const double elements = static_cast<double>(c.rows) * static_cast<double>(c.cols);
  double flops = 0;
  if (gelu_input)
    flops += BiasGelu::kFlops * elements;
  else if (bias)
    flops += BiasAdd::kFlops * elements;
  if (gelu_grad_input) flops += BiasGeluGrad::kFlops * elements;
  if (bias_gradient) flops += BiasGrad::kFlops * static_cast<double>(a.rows) * static_cast<double>(a.cols);
  return flops;
}

Cost Matmul::cost() const {
  const double m = static_cast<double>(a.rows), n = static_cast<double>(b.cols), k = static_cast<double>(a.cols);
  const double in = static_cast<double>(size_of(a.data.dtype())), out = static_cast<double>(size_of(c.data.dtype()));
  const double epilogue = epilogue_flops();
  const double bytes = in * (m * k + k * n) + out * m * n * (beta == 0 ? 1 : 2);
  const double extra = bytes_of(bias) + bytes_of(gelu_input) + bytes_of(gelu_grad_input) + 2 * bytes_of(bias_gradient);
  return {2 * m * n * k * static_cast<double>(batch) + epilogue, bytes * static_cast<double>(batch) + extra, true,
          epilogue};
}

}  // namespace mbench::ops
