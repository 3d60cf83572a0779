// Parts of a layer that recompute may drop: what a forward keeps of a region is freed after it, and made again by
// a second forward of the region before its backward (Chen et al. 2016, "Training Deep Nets with Sublinear Memory
// Cost"; Megatron's --recompute-granularity).
#pragma once
#include <cstdint>
#include <initializer_list>

namespace mbench {

enum class Region : std::uint8_t {
  layer,          // of the layer only its input is kept
  core_attention  // of the attention core only Q, K and V are kept
};

class Regions {
 public:
  constexpr Regions() = default;
  constexpr Regions(std::initializer_list<Region> regions) {
    for (const Region r : regions) bits_ |= 1u << static_cast<unsigned>(r);
  }
  constexpr bool has(Region r) const { return (bits_ >> static_cast<unsigned>(r) & 1u) != 0; }
  constexpr bool operator==(const Regions&) const = default;

 private:
  unsigned bits_ = 0;
};

}  // namespace mbench
