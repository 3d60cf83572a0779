// The free blocks of an arena: best fit, the lowest of those of one size, neighbours merged. A few dozen to a few
// hundred of them lie in one array by offset, which is faster than the nodes of a tree. A replay of a large step
// (engine/sim/play/replay_memory.h) spends most of its time here. What is taken fits exactly more often than not, and a
// search that branches is mispredicted at every other comparison.
#pragma once
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace mbench {

class FreeBlocks {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // The offset of `size` bytes, taken from the smallest block that holds them; kNone if there is none.
  std::size_t take(std::size_t size) {
    // What would be left of the best block so far, and which it is.
    std::size_t least = kNone / 2, at = kNone;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block block = blocks_[i];
      const std::size_t rest = block.size - size;  // too small a block: wraps, beyond any size
      if (rest == 0) {
        erase(i);
        return block.offset;
      }
      at = rest < least ? i : at;
      least = rest < least ? rest : least;
    }
    if (at == kNone) return kNone;
    Block& block = blocks_[at];
    block.size = least;
    return std::exchange(block.offset, block.offset + size);
  }

  void give(std::size_t offset, std::size_t size) {
    const std::size_t i = before(offset);
    const bool joins_next = i < blocks_.size() && offset + size == blocks_[i].offset;
    const bool joins_previous = i > 0 && blocks_[i - 1].offset + blocks_[i - 1].size == offset;
    if (joins_previous) {
      blocks_[i - 1].size += size;
      if (!joins_next) return;
      blocks_[i - 1].size += blocks_[i].size;
      erase(i);
    } else if (joins_next) {
      blocks_[i] = {offset, blocks_[i].size + size};
    } else {
      blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(i), {offset, size});
    }
  }

  bool operator==(const FreeBlocks&) const = default;

  // Where the block begins that ends at `end`; `end` itself if there is none.
  std::size_t begin_of_last(std::size_t end) const {
    if (blocks_.empty() || blocks_.back().offset + blocks_.back().size != end) return end;
    return blocks_.back().offset;
  }

 private:
  struct Block {
    std::size_t offset, size;
    bool operator==(const Block&) const = default;
  };
  // How many blocks lie before `offset`: a binary search by conditional moves.
  std::size_t before(std::size_t offset) const {
    const Block* first = blocks_.data();
    for (std::size_t left = blocks_.size(); left > 0; left /= 2) {
      const Block* next = first + (left + 1) / 2;
      first = next[-1].offset < offset ? next : first;
    }
    return static_cast<std::size_t>(first - blocks_.data());
  }
  void erase(std::size_t i) { blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i)); }

  std::vector<Block> blocks_;
};

}  // namespace mbench
