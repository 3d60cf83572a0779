// The allocator's policy without addresses: sizes, growth, peaks and limits. What it does through an allocator is in
// allocator_test.cpp.
#include "engine/device/arena.h"

#include "test/catch.h"

using namespace mbench;
using Catch::Contains;

namespace {

// Grows by whole granules of 4096 bytes up to its size.
class SmallMemory final : public RawMemory {
 public:
  explicit SmallMemory(std::size_t size) : size_(size) {}
  std::byte* base() const override { return nullptr; }
  bool commit(std::size_t bytes) override { return bytes <= size_; }
  std::size_t granule() const override { return 4096; }

 private:
  std::size_t size_;
};

Arena arena(std::size_t limit, std::size_t size = std::size_t{1} << 20) {
  return Arena(std::make_unique<SmallMemory>(size), limit);
}

}  // namespace

TEST_CASE("a block takes whole units of 512 bytes, at least one") {
  CHECK(Arena::rounded(0) == 512);
  CHECK(Arena::rounded(1) == 512);
  CHECK(Arena::rounded(512) == 512);
  CHECK(Arena::rounded(513) == 1024);
}

TEST_CASE("an arena grows by granules, from the free block at its top") {
  Arena a = arena(0);
  CHECK(a.take(512, Category::weights, "w") == 0);
  CHECK(a.reserved() == 4096);
  CHECK(a.take(4096, Category::activations, "x") == 512);
  CHECK(a.reserved() == 8192);
  CHECK(a.take(3584, Category::activations, "y") == 4608);
  CHECK(a.reserved() == 8192);
  CHECK(a.raw_allocations() == 2);
  // Given back it is used again, and nothing grows.
  a.give(512, 4096, Category::activations);
  CHECK(a.take(2048, Category::activations, "z") == 512);
  CHECK(a.take(2048, Category::activations, "z") == 2560);
  CHECK(a.raw_allocations() == 2);
}

TEST_CASE("an arena knows what is in use by category, and the peak keeps those of its moment") {
  Arena a = arena(0);
  const std::size_t x = a.take(1024, Category::activations, "x");
  a.take(512, Category::weights, "w");
  a.give(x, 1024, Category::activations);
  a.take(512, Category::gradients, "g");
  const auto of = [](const MemoryUse& use, Category c) { return use.by_category[static_cast<std::size_t>(c)]; };
  CHECK(a.in_use().total == 1024);
  CHECK(of(a.in_use(), Category::activations) == 0);
  CHECK(of(a.in_use(), Category::gradients) == 512);
  CHECK(a.peak().total == 1536);
  CHECK(of(a.peak(), Category::activations) == 1024);
  CHECK(of(a.peak(), Category::weights) == 512);
  CHECK(of(a.peak(), Category::gradients) == 0);
  a.reset_peak();
  CHECK(a.peak().total == 1024);
}

TEST_CASE("a block beyond the limit, or beyond what the device has, is refused by its name, and nothing changes") {
  for (const bool limited : {true, false}) {
    Arena a = limited ? arena(8192) : arena(0, 8192);
    a.take(6144, Category::weights, "w");
    CHECK_THROWS_AS(a.take(4096, Category::activations, "scores"), OutOfMemory);
    CHECK_THROWS_WITH(a.take(4096, Category::activations, "scores"),
                      Contains("out of memory at scores (activations)") && Contains("need 4.00 KiB") &&
                          Contains(limited ? "of the limit of 8.00 KiB" : "of what the device has"));
    CHECK(a.in_use().total == 6144);
    CHECK(a.reserved() == 8192);
    CHECK(a.take(2048, Category::activations, "less") == 6144);
  }
}

TEST_CASE("what is held outside the arena narrows the limit") {
  Arena a = arena(8192);
  a.change_library(0, 4096, "workspace");
  a.take(4096, Category::weights, "w");
  CHECK_THROWS_AS(a.take(512, Category::weights, "more"), OutOfMemory);
  CHECK_THROWS_AS(a.change_library(0, 512, "another"), OutOfMemory);
  a.change_library(4096, 0, "workspace");
  CHECK(a.library_peak() == 4096);
  CHECK(a.take(512, Category::weights, "more") == 4096);
}
