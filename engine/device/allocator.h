// The one allocator: the same code on every device, only the raw memory beneath it differs.
//
// One arena in one range of addresses that grows at its top. Blocks are placed best-fit, lowest address first, and
// freed neighbours merge, so memory freed by one shape serves another. Nothing is ever given back during a run. After
// the second iteration the arena no longer grows: no page faults and no cudaMalloc. Sizes are rounded up to 512 bytes,
// as the PyTorch caching allocator counts them.
//
// Reuse is decided in host order, never by the timing of kernels. The same program asks for the same bytes on a CPU, a
// GPU and a simulated machine. Not thread-safe: one allocator belongs to one rank.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/model_part.h"
#include "engine/base/shape.h"
#include "engine/device/arena.h"

namespace mbench {

// Sees every block as it is handed out and as it comes back.
class AllocationObserver {
 public:
  virtual ~AllocationObserver() = default;
  virtual void allocated(const std::byte* block, std::size_t size, Category category, std::string_view what) = 0;
  virtual void released(const std::byte* block) = 0;
  // What a block that has just been handed out is for.
  virtual void described(const std::byte* /*block*/, const Shape&, DType) {}
};

class Allocator {
 public:
  // `limit`: bytes the device may hold; 0: as many as the raw memory has.
  Allocator(std::unique_ptr<RawMemory> raw, std::size_t limit) : arena_(std::move(raw), limit) {}

  // Every block gets addresses of its own, which never come back: where nobody places blocks or has their memory, and only what is in
  // use counts. Before the first block.
  void place_nothing() { places_ = false; }

  std::byte* allocate(std::size_t bytes, Category category, std::string_view what);
  void release(std::byte* block);

  const MemoryUse& in_use() const { return arena_.in_use(); }
  const MemoryUse& peak() const { return arena_.peak(); }  // at the moment of the highest total
  std::size_t reserved() const { return arena_.reserved(); }
  std::uint64_t raw_allocations() const { return arena_.raw_allocations(); }
  void reset_peak() { arena_.reset_peak(); }
  void observe(AllocationObserver* observer) { observer_ = observer; }
  void describe(const std::byte* block, const Shape& shape, DType dtype) {
    if (observer_) observer_->described(block, shape, dtype);
  }
  // A number that follows from which blocks were handed out and came back since it was last begun, and in which order.
  std::uint64_t history() const { return history_; }
  void begin_history() { history_ = 0; }
  // What runs now, for observers.
  ModelPart part() const { return part_; }
  void part(ModelPart part) { part_ = part; }

  // Memory of the device outside the arena (library_memory.h): one holder now has `after` bytes of it instead of
  // `before`. Throws OutOfMemory where this memory and what the arena has reserved exceed the limit.
  void change_library(std::size_t before, std::size_t after, std::string_view what) {
    arena_.change_library(before, after, what);
  }
  std::size_t library() const { return arena_.library(); }  // now
  std::size_t library_peak() const { return arena_.library_peak(); }
  // library_peak() becomes the most since this call.
  void reset_library_peak() { arena_.reset_library_peak(); }

  static constexpr std::size_t kRounding = Arena::kRounding;

 private:
  struct Block {
    std::size_t size;
    Category category;
  };
  struct Unplaced {
    std::size_t offset;
    Block block;
  };
  Arena arena_;
  std::unordered_map<std::size_t, Block> used_;  // by offset
  std::vector<Unplaced> unplaced_;               // all that there ever were, by offset
  std::size_t next_ = 0;                         // offset of an unplaced block
  bool places_ = true;
  AllocationObserver* observer_ = nullptr;
  std::uint64_t history_ = 0;
  ModelPart part_;
};

// While it lives, that part of the model runs.
class InPart {
 public:
  InPart(Allocator& memory, ModelPart part) : memory_(memory), before_(memory.part()) { memory_.part(part); }
  ~InPart() { memory_.part(before_); }
  InPart(const InPart&) = delete;
  InPart& operator=(const InPart&) = delete;

 private:
  Allocator& memory_;
  ModelPart before_;
};

}  // namespace mbench
