// The free blocks of an arena, against a plain list of free bytes.
#include "engine/device/free_blocks.h"

#include <random>

#include "test/catch.h"

using namespace mbench;

namespace {

// The same policy in the plainest way: every byte is free or not.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : free_(size, false) {}
  std::size_t take(std::size_t size) {
    std::size_t best = FreeBlocks::kNone, best_size = FreeBlocks::kNone;
    for (std::size_t begin = 0; begin < free_.size();) {
      std::size_t end = begin;
      while (end < free_.size() && free_[end]) ++end;
      if (end - begin >= size && end - begin < best_size) best = begin, best_size = end - begin;
      begin = end + 1;
    }
    if (best != FreeBlocks::kNone) mark(best, size, false);
    return best;
  }
  void give(std::size_t offset, std::size_t size) { mark(offset, size, true); }
  std::size_t begin_of_last(std::size_t end) const {
    while (end > 0 && free_[end - 1]) --end;
    return end;
  }

 private:
  void mark(std::size_t offset, std::size_t size, bool free) {
    for (std::size_t i = offset; i < offset + size; ++i) free_[i] = free;
  }
  std::vector<bool> free_;
};

}  // namespace

TEST_CASE("nothing is free at first, and what is taken whole is free no more") {
  FreeBlocks blocks;
  CHECK(blocks.take(1) == FreeBlocks::kNone);
  CHECK(blocks.begin_of_last(64) == 64);
  blocks.give(8, 16);
  CHECK(blocks.take(17) == FreeBlocks::kNone);
  CHECK(blocks.take(16) == 8);
  CHECK(blocks.take(1) == FreeBlocks::kNone);
}

TEST_CASE("the smallest free block that fits is taken, the lowest of equals, from its low end") {
  FreeBlocks blocks;
  blocks.give(0, 8);
  blocks.give(20, 4);
  blocks.give(40, 4);
  CHECK(blocks.take(3) == 20);
  CHECK(blocks.take(4) == 40);
  CHECK(blocks.take(5) == 0);
  CHECK(blocks.take(2) == 5);
  CHECK(blocks.take(1) == 7);
  CHECK(blocks.take(1) == 23);
}

TEST_CASE("a block given back joins its neighbours on both sides, and the end of the last is known") {
  FreeBlocks blocks;
  blocks.give(0, 4);
  blocks.give(8, 4);
  CHECK(blocks.begin_of_last(12) == 8);
  CHECK(blocks.begin_of_last(16) == 16);
  CHECK(blocks.take(12) == FreeBlocks::kNone);
  blocks.give(4, 4);
  CHECK(blocks.begin_of_last(12) == 0);
  CHECK(blocks.take(12) == 0);
}

TEST_CASE("any order of taking and giving is as that of single bytes") {
  constexpr std::size_t kSize = 400;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    FreeBlocks blocks;
    Bytes bytes(kSize);
    blocks.give(0, kSize);
    bytes.give(0, kSize);
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (int i = 0; i < 500; ++i) {
      if (taken.empty() || random() % 5 < 3) {
        const std::size_t size = 1 + random() % 24, offset = blocks.take(size);
        REQUIRE(offset == bytes.take(size));
        if (offset != FreeBlocks::kNone) taken.emplace_back(offset, size);
      } else {
        std::swap(taken[random() % taken.size()], taken.back());
        blocks.give(taken.back().first, taken.back().second);
        bytes.give(taken.back().first, taken.back().second);
        taken.pop_back();
      }
      REQUIRE(blocks.begin_of_last(kSize) == bytes.begin_of_last(kSize));
    }
  }
}
