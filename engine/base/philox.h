// Philox4x32-10, the counter-based random generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11). A draw depends
// on (seed, site, step, element) only, not on who draws it or in which order. So a dropout mask or an initial weight is the same in every
// layout and on every device.
//
// Element e of a site takes word e % 4 of a block. Its counter is {e/4 low, e/4 high, site low, step}, its key {seed low, seed high ^ site
// high}. Sites are names of a model hashed to 64 bits, and no two of them share a draw.
#pragma once
#include <array>
#include <cstdint>

namespace mbench {

// Names one random tensor: one draw of one run. `site` is the place in the model, `step` the optimizer step (0 for what is drawn once).
struct RngKey {
  std::uint64_t seed = 0;
  std::uint64_t site = 0;
  std::uint32_t step = 0;

  // The parts of it that Philox's counter and key take.
  constexpr std::uint32_t counter_site() const { return static_cast<std::uint32_t>(site); }
  constexpr std::uint32_t key_low() const { return static_cast<std::uint32_t>(seed); }
  constexpr std::uint32_t key_high() const { return static_cast<std::uint32_t>((seed ^ site) >> 32); }
};

struct Philox {
  static constexpr std::uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  static constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

  static constexpr std::array<std::uint32_t, 4> block(const RngKey& key, std::uint64_t index) {
    std::uint32_t c0 = static_cast<std::uint32_t>(index), c1 = static_cast<std::uint32_t>(index >> 32);
    std::uint32_t c2 = key.counter_site(), c3 = key.step;
    std::uint32_t k0 = key.key_low(), k1 = key.key_high();
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{kMul0} * c0, p1 = std::uint64_t{kMul1} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    return {c0, c1, c2, c3};
  }
  static constexpr std::uint32_t word(const RngKey& key, std::uint64_t element) {
    return block(key, element >> 2)[element & 3];
  }
  // An element is dropped with probability p when its word is below this bound.
  static constexpr std::uint32_t drop_bound(double p) {
    return p >= 1 ? 0xFFFFFFFFu : static_cast<std::uint32_t>(p * 4294967296.0);
  }
};

}  // namespace mbench
