#include "engine/ops/arguments.h"

namespace mbench::ops {

void need_shape(std::string_view op, std::string_view argument, const Tensor& t, const Shape& shape) {
  check(static_cast<bool>(t), op, "{} is missing, need {}", argument, shape);
  check(t.shape() == shape, op, "shape of {}, got {}, need {}", argument, t.shape(), shape);
}

void need_dtype(std::string_view op, std::string_view argument, const Tensor& t, DType dtype) {
  check(static_cast<bool>(t), op, "{} is missing", argument);
  check(t.dtype() == dtype, op, "dtype of {}, got {}, need {}", argument, name_of(t.dtype()), name_of(dtype));
}

void need_float(std::string_view op, std::string_view argument, const Tensor& t) {
  check(static_cast<bool>(t), op, "{} is missing", argument);
  check(is_float(t.dtype()), op, "dtype of {}, got {}, need a floating-point type", argument, name_of(t.dtype()));
}

void need_same(std::string_view op, std::string_view argument, const Tensor& t, const Tensor& like) {
  need_shape(op, argument, t, like.shape());
  need_dtype(op, argument, t, like.dtype());
}

}  // namespace mbench::ops
