// What each recorded action of a step takes of an allocator's memory and gives back, block by block.
#pragma once
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/device/allocator.h"
#include "engine/device/in_parts.h"
#include "engine/device/on_stream.h"
#include "engine/sim/recording/step_events.h"

namespace mbench::sim {

class Blocks final : public AllocationObserver {
 public:
  struct Block {
    std::size_t size;
    Category category;
    std::uint32_t name;
    std::size_t made_in;
    std::size_t freed_in = kNever;
    bool graph = false;     // of a captured part
    bool in_layer = false;  // taken while one runs
    MemoryStream stream = MemoryStream::compute;
    TensorParts parts{};
  };
  struct Event {
    std::size_t block;
    bool taken;
  };
  static constexpr std::size_t kNever = ~std::size_t{0};

  // `named`: whether `names` are wanted. If not, all have one, which says nothing.
  explicit Blocks(bool named) : names(named ? 0 : 1), named_(named) {}

  void next_action() { events_.emplace_back(); }
  void allocated(const std::byte* at, std::size_t size, Category category, std::string_view what) override {
    addresses_.push_back(at);
    events_.back().push_back({blocks_.size(), true});
    blocks_.push_back({size, category, 0, events_.size() - 1, kNever, in_graph_ && *in_graph_,
                       memory_->part().kind == ModelPart::Kind::layer, OnStream::now(), InParts::now()});
    last_ = what;
  }
  void described(const std::byte*, const Shape& shape, DType dtype) override {
    if (named_) blocks_.back().name = name(last_, memory_->part(), shape, dtype);
  }
  void released(const std::byte* at) override {
    if (ended_) return;
    const auto it = std::lower_bound(addresses_.begin(), addresses_.end(), at);
    const auto block = static_cast<std::size_t>(it - addresses_.begin());
    blocks_[block].freed_in = events_.size() - 1;
    events_.back().push_back({block, false});
  }
  void end() { ended_ = true; }

  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<std::vector<Event>>& events() const { return events_; }  // [action]
  std::vector<TensorName> names;
  // Of an allocator that places nothing. `in_graph`: whether a captured part runs now.
  void watch(Allocator& memory, const bool* in_graph = nullptr) {
    memory_ = &memory;
    in_graph_ = in_graph;
    memory.observe(this);
  }

 private:
  std::uint32_t name(std::string_view what, ModelPart part, const Shape& shape, DType dtype) {
    std::size_t hash = std::hash<std::string_view>{}(what);
    const auto add = [&](auto value) { hash = (hash ^ static_cast<std::size_t>(value)) * 0x9e3779b97f4a7c15; };
    add(part.kind), add(part.index), add(dtype), add(shape.rank());
    for (int i = 0; i < shape.rank(); ++i) add(shape[i]);
    // Names of one hash lie behind each other.
    for (;; ++hash) {
      const auto [known, fresh] = by_hash_.try_emplace(hash, static_cast<std::uint32_t>(names.size()));
      if (fresh) names.push_back({std::string(what), part, shape, dtype});
      const TensorName& name = names[known->second];
      if (name.what == what && name.part == part && name.shape == shape && name.dtype == dtype) return known->second;
    }
  }
  Allocator* memory_ = nullptr;
  const bool* in_graph_ = nullptr;
  std::string_view last_;  // that was allocated
  std::unordered_map<std::size_t, std::uint32_t> by_hash_;
  std::vector<Block> blocks_;
  std::vector<std::vector<Event>> events_;
  std::vector<const std::byte*> addresses_;  // of each block: they rise
  const bool named_;
  bool ended_ = false;
};

}  // namespace mbench::sim
