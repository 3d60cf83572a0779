// What memory of the process is memory of a fake GPU, and what is pinned. Device memory begins as 0xFF
// bytes: NaN in every floating-point type.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace fake_cuda {

enum class Kind { pageable, pinned, device };

class Memory {
 public:
  static Memory& get();

  // Null where a GPU has no room. Followed by a page that nothing may touch.
  void* allocate(Kind kind, std::size_t bytes);
  // False unless `at` is the start of an allocation of that kind.
  bool release(Kind kind, void* at);

  // Ranges that the driver maps, or that are page-locked in place. They are counted separately from the memory behind them.
  void add_mapped(void* at, std::size_t bytes, Kind kind = Kind::device);
  void remove_mapped(void* at);
  // Whether a mapped range of that kind begins there.
  bool is_mapped(void* at, Kind kind);
  // Whether that lies in memory of a GPU that the driver mapped.
  bool is_mapped_at(const void* at);
  // Whether a part of [at, at + bytes) is in a range, and whether all of it is in one.
  bool touches_range(const void* at, std::size_t bytes);
  bool in_one_range(const void* at, std::size_t bytes);
  // Counts memory of the GPU; false where it has no room.
  bool take(std::size_t bytes);
  void give(std::size_t bytes);
  std::size_t used();

  // What all of [at, at + bytes) is; pageable too where it is partly something else.
  Kind kind_of(const void* at, std::size_t bytes);
  // Whether a part of it is device memory.
  bool touches_device(const void* at, std::size_t bytes);

 private:
  struct Range {
    std::size_t bytes;
    Kind kind;
    bool mapped;
  };
  std::mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_;
  std::size_t used_ = 0;
};

}  // namespace fake_cuda
