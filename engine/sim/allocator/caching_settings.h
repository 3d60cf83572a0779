// The settings of PyTorch's caching allocator in PYTORCH_CUDA_ALLOC_CONF (also PYTORCH_ALLOC_CONF, PYTORCH_HIP_ALLOC_CONF). Keys and
// meanings are those of c10/core/AllocatorConfig.h, as of PyTorch 2.10. Sizes in bytes.
#pragma once
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <string>

namespace mbench::sim {

struct CachingSettings {
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
  // A segment grows in place instead of being one cudaMalloc of a fixed size.
  bool expandable_segments = false;
  // Free blocks of at least this size are never split.
  std::size_t max_split = kUnlimited;
  // How much larger than the request such a block may be.
  std::size_t max_non_split_rounding = std::size_t{20} << 20;
  // The segment for a request of less than 10 MiB that is not small. Expandable segments grow by this size.
  std::size_t large_segment = std::size_t{20} << 20;
  // Requests are rounded up to one of so many parts between two powers of two. Entries are by power: below 2 MiB, below 4 MiB, up to 32
  // GiB and more. 0 or 1: no rounding.
  std::array<std::size_t, 16> roundup_power2_divisions{};

  bool operator==(const CachingSettings&) const = default;
};

// `before` as changed by a list KEY:VALUE,KEY:VALUE. Keys of host memory and of locks change nothing here. Nor does
// garbage_collection_threshold, which acts only after set_per_process_memory_fraction(). Throws bad_input at `where` for an unknown key
// or an impossible value, unsupported for backend:cudaMallocAsync.
CachingSettings changed_by(CachingSettings before, const std::string& list, const std::string& where);

// `before` as changed by that variable of a run's environment, if it is set.
CachingSettings changed_by(CachingSettings before, const std::map<std::string, std::string>& env);

}  // namespace mbench::sim
