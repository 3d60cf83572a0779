// y = x sigmoid(z), with the gates z in columns of a wider tensor: attention's output and the gate that the queries' projection makes
// (Qwen3-Next). Or y = x silu(z): a scan's output without a norm (Falcon-H1).
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

inline void need_gates_in_columns(std::string_view op, const Tensor& x, const Tensor& z, std::int64_t first) {
  need_float(op, "x", x);
  check(x.shape().rank() == 4 && z.shape().rank() == 4, op, "x and z, got {} and {}, need [seq, batch, groups, width]",
        x.shape(), z.shape());
  const Shape &s = x.shape(), &n = z.shape();
  check(n[0] == s[0] && n[1] == s[1] && n[2] == s[2] && first >= 0 && first + s[3] <= n[3], op,
        "z, got {} from column {} on, need the columns of {}", n, first, s);
  need_dtype(op, "z", z, x.dtype());
}

struct ColumnGate {
  static constexpr std::string_view name = "column_gate";
  Tensor x;  // [seq, batch, groups, n]
  Tensor z;  // [seq, batch, groups, width]: the gates are columns [first, first + n)
  Tensor y;  // like x; may be x itself
  std::int64_t first = 0;
  bool silu = false;
  void check() const {
    need_gates_in_columns(name, x, z, first);
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {5.0 * static_cast<double>(x.numel()), 3 * bytes_of(x)}; }
};

struct ColumnGateGrad {
  static constexpr std::string_view name = "column_gate_grad";
  Tensor dy, x, z;
  Tensor dx;  // like x; may be dy itself
  Tensor dz;  // like z; only the gates' columns are written
  std::int64_t first = 0;
  bool silu = false;
  void check() const {
    need_gates_in_columns(name, x, z, first);
    need_same(name, "dy", dy, x);
    need_same(name, "dx", dx, x);
    need_same(name, "dz", dz, z);
  }
  Cost cost() const { return {8.0 * static_cast<double>(x.numel()), 5 * bytes_of(x)}; }
};

}  // namespace mbench::ops
