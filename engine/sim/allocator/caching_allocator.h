// PyTorch's caching allocator by its own rules (c10/cuda/CUDACachingAllocator.cpp), without addresses: which block a tensor gets, when
// a segment is requested from the device, and what stays cached. It predicts what torch.cuda.max_memory_reserved() says after a run.
//
// - A request is rounded up to 512 bytes. Up to 1 MiB it is served from segments of 2 MiB, below 10 MiB from segments of 20 MiB.
//   Above, it gets a segment of its own, rounded up to 2 MiB. Small and large requests have separate pools.
//
// - The smallest free block that holds it is taken. It is split where more than 1 MiB is left, or 512 bytes in the small pool and in
//   expandable segments. What is not split off counts as allocated.
//
// - Freed neighbours of a segment merge. Segments are kept. Those without a used block are returned to the device only where
//   it would be full otherwise; then the request is tried again.
//
// - What a CUDA graph takes while it is captured comes from private pools, a small and a large one. All graphs share them, as those of
//   Megatron-Core do (cuda_graphs.py, CudaGraphManager.global_mempool). No one else gets their blocks, and their segments are never
//   returned as long as the graphs live (release_cached_blocks(), graph_pools_freeable).
//
// - A stream has pools of its own, and a block goes back to the pool of its stream. So what gathers need at their peak is not there for
//   activations at theirs. The order of requests on all streams is the host's, and a freed block is there for the next request of its
//   stream: no stream waits for another.
//
// - A block that another stream has used (Tensor.record_stream()) counts as free, but is in no pool until that stream is through with it.
//   A host that is ahead of its device does not find it for the next request. How far ahead it is the allocator cannot know: such a block
//   is back when the next one is given back. A full device waits for all of them.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/memory_stream.h"
#include "engine/device/arena.h"
#include "engine/sim/allocator/caching_settings.h"

namespace mbench::sim {

class CachingAllocator {
 public:
  // `limit`: bytes that it may reserve, 0 for no limit.
  CachingAllocator(const CachingSettings& settings, std::size_t limit);

  // Whose memory a request gets. `graph`: of a captured part; its graph's memory is of no stream.
  struct For {
    bool graph = false;
    MemoryStream stream = MemoryStream::compute;
  };
  // The block of a request of so many bytes. Throws OutOfMemory, which names `what`.
  std::size_t take(std::size_t bytes, Category category, std::string_view what, For whom);
  std::size_t take(std::size_t bytes, Category category, std::string_view what) {
    return take(bytes, category, what, For{});
  }
  void give(std::size_t block, std::size_t bytes, Category category);
  // Of a block that another stream has used.
  void give_recorded(std::size_t block, std::size_t bytes, Category category);

  // Counts requested bytes, as an Arena does.
  const MemoryUse& peak() const { return peak_; }
  // Counts the bytes of blocks: torch.cuda.max_memory_allocated().
  std::size_t peak_allocated() const { return peak_allocated_; }
  std::size_t allocated() const { return allocated_; }
  // Counts the bytes of all segments: torch.cuda.max_memory_reserved() and memory_reserved().
  std::size_t reserved() const { return peak_reserved_; }
  std::size_t reserved_now() const { return reserved_; }
  // How often it had to return segments to have room: torch.cuda.memory_stats()["num_alloc_retries"].
  std::uint64_t retries() const { return retries_; }
  // Segments that it has requested from the device, and returned to it. Of an expandable segment each page counts, as each is mapped by
  // itself.
  struct DeviceCalls {
    std::uint64_t requested = 0, returned = 0;
    bool operator==(const DeviceCalls&) const = default;
  };
  const DeviceCalls& device_calls() const { return calls_; }

  // The free blocks. If two allocators have equal ones, the next requests change both alike.
  struct FreeBlock {
    std::size_t size, address;
    std::uint32_t block;
    bool operator<(const FreeBlock& other) const {
      return size != other.size ? size < other.size : address < other.address;
    }
    bool operator==(const FreeBlock& other) const { return size == other.size && address == other.address; }
  };
  // A small and a large pool of each stream, and of graphs.
  static constexpr std::size_t kPools = 2 * kMemoryStreams + 2;
  struct Free {
    std::array<std::vector<FreeBlock>, kPools> pools;
    std::vector<FreeBlock> recorded;  // given back, and not yet in their pools
    std::size_t reserved = 0;
    bool operator==(const Free&) const = default;
  };
  const Free& free() const { return free_; }

  // A part of a segment, in the order of addresses. `block`: the name that take() gave it, where it is used and not given back.
  struct Part {
    std::size_t address = 0, size = 0;
    bool used = false;
    std::size_t block = 0;
  };
  struct Segment {
    std::size_t address = 0, size = 0;
    bool small = false, graph = false;
    MemoryStream stream = MemoryStream::compute;
    std::vector<Part> parts;
  };
  // The mapped segments. An expandable segment with gaps counts as several.
  std::vector<Segment> segments() const;
  std::size_t address(std::size_t block) const { return blocks_[block].address; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  enum class State : std::uint8_t { used, free, unmapped };
  struct Block {
    std::size_t address = 0, size = 0;
    std::uint32_t before = kNone, after = kNone;  // in its segment
    State state = State::free;
    bool small = false, graph = false;
    MemoryStream stream = MemoryStream::compute;
  };
  struct Pool {
    bool small = false, graph = false;
    MemoryStream stream = MemoryStream::compute;
    std::size_t index() const {
      return 2 * (graph ? kMemoryStreams : static_cast<std::size_t>(stream)) + (small ? 0 : 1);
    }
  };
  static Pool pool_of(const Block& block) { return {block.small, block.graph, block.stream}; }

  std::vector<FreeBlock>& pool(Pool pool) { return free_.pools[pool.index()]; }
  std::size_t rounded(std::size_t bytes) const;
  std::size_t segment_size(std::size_t size) const;
  bool splits(const Block& block, std::size_t size) const;

  std::uint32_t find(Pool from, std::size_t size);
  std::uint32_t add_segment(Pool of, std::size_t size);
  std::uint32_t grow(Pool of, std::size_t size);
  std::uint32_t with_room_behind(Pool of, std::size_t size) const;
  bool map(std::uint32_t block, std::size_t size);
  bool release_oversized(Pool of, std::size_t size);
  void release_all();
  void count_freed(std::size_t block, std::size_t bytes, Category category);
  void put_recorded();
  void release(std::uint32_t block);
  void unmap(std::uint32_t block);
  [[noreturn]] void fail_full(std::size_t size, Category category, std::string_view what) const;

  std::uint32_t new_block(const Block& block);
  std::uint32_t cut(std::uint32_t block, std::size_t size);
  void merge(std::uint32_t block);
  void absorb(std::uint32_t block, std::uint32_t next);
  void put(std::uint32_t block);
  void remove(std::uint32_t block);
  void add_reserved(std::size_t bytes);

  CachingSettings settings_;
  std::size_t limit_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> unused_;  // of blocks_
  Free free_;
  // The first block of each pool's expandable segment.
  std::array<std::uint32_t, kPools> growing_ = [] {
    std::array<std::uint32_t, kPools> none{};
    none.fill(kNone);
    return none;
  }();
  std::size_t next_address_ = 0;
  std::size_t reserved_ = 0, peak_reserved_ = 0, allocated_ = 0, peak_allocated_ = 0;
  std::uint64_t retries_ = 0;
  DeviceCalls calls_;
  MemoryUse use_, peak_;
};

}  // namespace mbench::sim
