// The factor of a step's gradients from the norm, by one thread. Contraction of a multiplication and an addition cannot round differently
// from the host here, since the multiplication is exact: unscale is a power of two.
#pragma once
#include <cmath>

#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/clip_scale.h"

namespace mbench::cuda {

struct ClipScaleEach {
  static constexpr int kWidth = 1;
  const float* squares;
  float* step;
  float clip, none;  // none: the value for a skipped step
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t) const {
    float scale = step[ops::kStepUnscale];
    const float norm = sqrtf(*squares) * scale;
    if (norm - norm != 0.0f)  // infinite, or not a number
      scale = none;
    else if (clip > 0)
      scale *= fminf(1.0f, clip / (norm + 1e-6f));
    step[ops::kStepGradScale] = scale;
    step[ops::kStepNorm] = norm;
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::ClipScale& op) {
  launch_flat(stream, op.name, 1, ClipScaleEach{pointer<float>(op.squares), pointer<float>(op.by_step), op.clip, NAN});
}

}  // namespace mbench::cuda
