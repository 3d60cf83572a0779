// Columns of activations as groups or heads of one width, and back.
#pragma once
#include "engine/device/tensor.h"

namespace mbench::nn {

// [seq, batch, columns] as [seq, batch, columns / width, width].
inline Tensor in_groups(const Tensor& t, std::int64_t width) {
  const Shape& s = t.shape();
  return t.view({s[0], s[1], s[2] / width, width});
}

// [seq, batch, groups, width] as [seq, batch, columns].
inline Tensor ungrouped(const Tensor& t) {
  const Shape& s = t.shape();
  return t.view({s[0], s[1], s[2] * s[3]});
}

}  // namespace mbench::nn
