// The one allocator: the same code on every device, only the raw memory beneath it differs.
//
// One arena in one range of addresses that grows at its top; blocks are placed best-fit, lowest address
// first, and freed neighbours merge, so memory freed by one shape serves another. Nothing is ever given back
// during a run: after the first iteration the arena no longer grows, so there are no page faults and no
// cudaMalloc. Sizes are rounded up to 512 bytes, as the PyTorch caching allocator counts them. Reuse is
// decided in host order, never by the timing of kernels: the same program asks for the same bytes on a CPU, a
// GPU and a simulated machine. Not thread-safe: one allocator belongs to one rank.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/category.h"
#include "engine/base/error.h"

namespace mbench {

// Bytes handed out, in all and by category.
struct MemoryUse {
  std::size_t total = 0;
  std::array<std::size_t, kCategories> by_category{};
};

// Where raw memory comes from. Addresses [base, base + committed) may be used.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  virtual std::byte* base() const = 0;
  // Makes the first `bytes` (a multiple of granule) usable; false if the device has no more.
  virtual bool commit(std::size_t bytes) = 0;
  virtual std::size_t granule() const = 0;
};

// An allocation that did not fit: what was asked for, in which category, and how full the device was.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

class Allocator {
 public:
  // `limit`: bytes the device may hold, 0 for no limit but that of the raw memory.
  Allocator(std::unique_ptr<RawMemory> raw, std::size_t limit);

  std::byte* allocate(std::size_t bytes, Category category, std::string_view what);
  void release(std::byte* block);

  const MemoryUse& in_use() const { return use_; }
  const MemoryUse& peak() const { return peak_; }  // at the moment of the highest total
  std::size_t reserved() const { return committed_; }
  std::uint64_t raw_allocations() const { return raw_allocations_; }
  void reset_peak() { peak_ = use_; }

  // Memory of the device that is not the arena's (library_memory.h): one holder now has `after` bytes of it
  // instead of `before`. The arena cannot have what is held there, nor it what the arena has reserved: throws
  // OutOfMemory where the limit is less than both.
  void change_library(std::size_t before, std::size_t after, std::string_view what);
  std::size_t library_peak() const { return library_peak_; }

  static constexpr std::size_t kRounding = 512;

 private:
  struct Block {
    std::size_t size;
    Category category;
  };
  void add_free(std::size_t offset, std::size_t size);
  void remove_free(std::size_t offset, std::size_t size);
  [[noreturn]] void fail_full(std::string_view what, std::string_view category, std::size_t need) const;

  std::unique_ptr<RawMemory> raw_;
  std::size_t limit_;
  std::size_t committed_ = 0;
  std::size_t library_ = 0, library_peak_ = 0;
  std::uint64_t raw_allocations_ = 0;
  MemoryUse use_, peak_;
  std::map<std::size_t, Block> used_;                      // by offset
  std::map<std::size_t, std::size_t> free_;                // offset -> size, no two adjacent
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // (size, offset) of the same
};

}  // namespace mbench
