// What requesting a segment from a device and returning it take the host, in seconds. PyTorch's allocator pays for both each time that it
// is full (sim/allocator). A driver maps and unmaps by handle: ten of 2 MiB take ten times as long as one of 20 MiB (pytorch#96995). So a
// page of an expandable segment and a whole segment count the same.
#pragma once
#include "engine/sim/allocator/caching_allocator.h"

namespace mbench::sim {

// On an A100, means of 4,096 handles of 2 MiB (magnate3/linux-riscv-dev@f3389cca, nccl/gpu/shm/bench_vmm/README.md): cuMemCreate 193.3 us,
// cuMemMap 1.5, cuMemSetAccess 36.0.
inline constexpr double kRequestSegment = 230.8e-6;
// Likewise: cuMemUnmap. What cuMemRelease takes was not measured there.
inline constexpr double kReturnSegment = 25.6e-6;

inline double seconds_of(const CachingAllocator::DeviceCalls& calls) {
  return static_cast<double>(calls.requested) * kRequestSegment + static_cast<double>(calls.returned) * kReturnSegment;
}

}  // namespace mbench::sim
