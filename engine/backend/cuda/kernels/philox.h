// Philox words of consecutive elements in a kernel: equal to Philox::word of each (engine/base/philox.h).
#pragma once
#include "engine/backend/cuda/kernels/simt.h"
#include "engine/base/philox.h"

namespace mbench::cuda {

struct Words {
  std::uint32_t v[4];
};

__device__ inline Words philox_block(const RngKey& key, std::uint64_t index) {
  std::uint32_t c0 = static_cast<std::uint32_t>(index), c1 = static_cast<std::uint32_t>(index >> 32);
  std::uint32_t c2 = key.counter_site(), c3 = key.step;
  std::uint32_t k0 = key.key_low(), k1 = key.key_high();
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(Philox::kMul0) * c0;
    const std::uint64_t p1 = static_cast<std::uint64_t>(Philox::kMul1) * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += Philox::kWeyl0;
    k1 += Philox::kWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

// word[i] = the word of element `element` + i. A block serves four elements. If the vector does not start at the beginning of a block, one
// more block is drawn.
template <int V>
__device__ inline void draw(const RngKey& key, std::uint64_t element, std::uint32_t (&word)[V]) {
  const int lead = static_cast<int>(element & 3);
  std::uint64_t index = element >> 2;
  if (V % 4 == 0 && lead == 0) {
#pragma unroll
    for (int i = 0; i < V; i += 4) {
      const Words w = philox_block(key, index++);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (i + j < V) word[i + j] = w.v[j];  // always so here: V is a multiple of 4
    }
    return;
  }
  Words w = philox_block(key, index);
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const int at = (lead + i) & 3;
    if (i > 0 && at == 0) w = philox_block(key, ++index);
    word[i] = at == 0 ? w.v[0] : at == 1 ? w.v[1] : at == 2 ? w.v[2] : w.v[3];
  }
}

}  // namespace mbench::cuda
