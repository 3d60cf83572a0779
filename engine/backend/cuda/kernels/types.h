// Picks the template for a storage type, once per call of an op.
#pragma once
#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/base/half_types.h"
#include "engine/device/tensor.h"

namespace mbench::cuda {

// f(T()) with the T that stores `t`.
template <class F>
void with_float(std::string_view op, DType t, F&& f) {
  switch (t) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    default:
      fail(ErrorKind::internal, op, "dtype, got {}, need a floating-point type", name_of(t));
  }
}

// The elements of `t`, null if it is empty.
template <class T>
T* pointer(const Tensor& t) {
  return t ? t.as<T>() : nullptr;
}

}  // namespace mbench::cuda
