// Sums the counts of a step, and moves the correction of an MoE's scores by them.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/router_correction.h"

namespace mbench::cuda {

struct AddCountsEach {
  static constexpr int kWidth = 1;
  const std::int64_t* counts;
  float* load;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    load[i] += static_cast<float>(counts[i]);
  }
};

struct MoveCorrectionEach {
  static constexpr int kWidth = 1;
  float *load, *correction;
  float mean, speed;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    if (load[i] < mean) correction[i] += speed;
    if (load[i] > mean) correction[i] -= speed;
    load[i] = 0;
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::AddCounts& op) {
  launch_flat(stream, op.name, op.load.numel(),
              AddCountsEach{pointer<std::int64_t>(op.counts), pointer<float>(op.load)});
}

template <class Stream>
void enqueue(Stream& stream, const ops::MoveCorrection& op) {
  launch_flat(stream, op.name, op.load.numel(),
              MoveCorrectionEach{pointer<float>(op.load), pointer<float>(op.correction), op.mean, op.speed});
}

}  // namespace mbench::cuda
