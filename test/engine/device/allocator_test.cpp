#include "engine/device/allocator.h"

#include <cstring>
#include <vector>

#include "engine/backend/cpu/cpu_device.h"
#include "engine/device/library_memory.h"
#include "test/catch.h"

using namespace mbench;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Counts what it is asked for; its addresses are never touched.
class CountedMemory final : public RawMemory {
 public:
  explicit CountedMemory(std::size_t most) : most_(most) {}
  std::byte* base() const override { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40); }
  bool commit(std::size_t bytes) override { return bytes <= most_; }
  std::size_t granule() const override { return 2 * kMiB; }

 private:
  std::size_t most_;
};

struct Fixture {
  explicit Fixture(std::size_t limit = 0, std::size_t most = 1024 * kMiB)
      : memory(std::make_unique<CountedMemory>(most), limit) {}
  std::byte* get(std::size_t bytes, Category c = Category::activations) { return memory.allocate(bytes, c, "block"); }
  Allocator memory;
};

}  // namespace

TEST_CASE("sizes are rounded up to 512 bytes and counted by category") {
  Fixture f;
  std::byte* a = f.get(1, Category::weights);
  std::byte* b = f.get(512, Category::gradients);
  std::byte* c = f.get(513, Category::gradients);
  f.get(0, Category::other);
  CHECK(b - a == 512);
  CHECK(c - b == 512);
  CHECK(f.memory.in_use().total == 512 + 512 + 1024 + 512);
  CHECK(f.memory.in_use().by_category[static_cast<int>(Category::weights)] == 512);
  CHECK(f.memory.in_use().by_category[static_cast<int>(Category::gradients)] == 1536);
  CHECK(f.memory.in_use().by_category[static_cast<int>(Category::other)] == 512);
  CHECK(f.memory.reserved() == 2 * kMiB);
}

TEST_CASE("the smallest free block that fits is used, the lowest among equals") {
  Fixture f;
  std::byte* large = f.get(8192);
  f.get(512);
  std::byte* small = f.get(2048);
  f.get(512);
  std::byte* same = f.get(2048);
  f.get(512);
  f.memory.release(large);
  f.memory.release(same);
  f.memory.release(small);
  CHECK(f.get(2048) == small);
  CHECK(f.get(1500) == same);
  CHECK(f.get(2048) == large);
}

TEST_CASE("freed neighbours merge, whichever is freed first") {
  for (const std::vector<int>& order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    Fixture f;
    std::byte* block[3] = {f.get(1024), f.get(1024), f.get(1024)};
    f.get(512);
    for (int i : order) f.memory.release(block[i]);
    CHECK(f.get(3072) == block[0]);
  }
}

TEST_CASE("the peak is the moment of the highest total, with its categories") {
  Fixture f;
  std::byte* a = f.get(4 * kMiB, Category::weights);
  std::byte* b = f.get(2 * kMiB, Category::activations);
  f.memory.release(b);
  f.get(1 * kMiB, Category::workspace);
  CHECK(f.memory.peak().total == 6 * kMiB);
  CHECK(f.memory.peak().by_category[static_cast<int>(Category::activations)] == 2 * kMiB);
  CHECK(f.memory.peak().by_category[static_cast<int>(Category::workspace)] == 0);
  f.memory.release(a);
  f.memory.reset_peak();
  CHECK(f.memory.peak().total == 1 * kMiB);
  CHECK(f.memory.peak().by_category[static_cast<int>(Category::workspace)] == 1 * kMiB);
}

TEST_CASE("a second round of the same program makes no raw allocation") {
  Fixture f;
  const auto round = [&] {
    std::vector<std::byte*> blocks;
    for (std::size_t i = 1; i < 40; ++i) {
      blocks.push_back(f.get(i * 70001 % 3000000));
      if (i % 3 == 0) {
        f.memory.release(blocks[i / 2]);
        blocks[i / 2] = f.get(i * 1000);
      }
    }
    for (std::byte* b : blocks) f.memory.release(b);
  };
  round();
  const auto raw = f.memory.raw_allocations();
  const auto reserved = f.memory.reserved();
  CHECK(raw > 0);
  for (int i = 0; i < 5; ++i) round();
  CHECK(f.memory.raw_allocations() == raw);
  CHECK(f.memory.reserved() == reserved);
  CHECK(f.memory.in_use().total == 0);
  CHECK(f.get(reserved) != nullptr);  // all of it is one block again
  CHECK(f.memory.raw_allocations() == raw);
}

TEST_CASE("the arena grows into a free block at its top") {
  Fixture f;
  std::byte* a = f.get(1 * kMiB);  // leaves 1 MiB free at the top of the first granule
  std::byte* b = f.get(3 * kMiB);
  CHECK(b - a == static_cast<std::ptrdiff_t>(kMiB));
  CHECK(f.memory.reserved() == 4 * kMiB);
}

TEST_CASE("a full device says what did not fit, and goes on") {
  for (const auto& [limit, most] : {std::pair<std::size_t, std::size_t>{8 * kMiB, 1024 * kMiB}, {0, 8 * kMiB}}) {
    Fixture f(limit, most);
    std::byte* a = f.get(6 * kMiB, Category::weights);
    try {
      f.memory.allocate(3 * kMiB, Category::optimizer, "adam moments of wte");
      FAIL("no exception");
    } catch (const OutOfMemory& e) {
      const std::string what = e.what();
      CHECK(e.kind() == ErrorKind::out_of_memory);
      for (const char* part : {"adam moments of wte", "optimizer", "3.00 MiB", "6.00 MiB"})
        CHECK_THAT(what, Catch::Matchers::Contains(part));
      if (limit != 0) CHECK_THAT(what, Catch::Matchers::Contains("8.00 MiB"));
    }
    CHECK(f.memory.in_use().total == 6 * kMiB);
    f.memory.release(a);
    CHECK(f.get(8 * kMiB) == a);
  }
}

TEST_CASE("what libraries hold outside the arena counts against the limit, not into the peak") {
  Fixture f(8 * kMiB, 1024 * kMiB);
  std::byte* a = f.get(4 * kMiB);
  {
    LibraryMemory library(f.memory);
    library.resize(3 * kMiB, "workspace");
    CHECK(f.memory.peak().total == 4 * kMiB);
    CHECK(f.memory.library_peak() == 3 * kMiB);
    CHECK_THROWS_WITH(
        f.get(2 * kMiB),
        Catch::Matchers::Contains("4.00 MiB reserved of the limit of 8.00 MiB, 3.00 MiB of it held outside the arena"));
    CHECK_THROWS_WITH(library.resize(5 * kMiB, "scratch of kernels"),
                      Catch::Matchers::Contains("out of memory at scratch of kernels (library), need 5.00 MiB"));
    LibraryMemory other(f.memory);
    CHECK_THROWS_AS(other.resize(2 * kMiB, "another"), OutOfMemory);
    library.resize(1 * kMiB, "workspace");
    CHECK(f.get(2 * kMiB) != nullptr);
  }
  CHECK(f.memory.library_peak() == 3 * kMiB);
  f.memory.release(a);
}

TEST_CASE("releasing what was not handed out is an internal error") {
  Fixture f;
  std::byte* a = f.get(1024);
  CHECK_THROWS_AS(f.memory.release(a + 512), Error);
  f.memory.release(a);
  CHECK_THROWS_AS(f.memory.release(a), Error);
}

TEST_CASE("where nothing is placed, what is in use counts alike, and no address comes back") {
  Fixture placed, unplaced;
  unplaced.memory.place_nothing();
  std::vector<std::byte*> seen;
  for (int round = 0; round < 3; ++round) {
    std::byte *a = placed.get(kMiB, Category::weights), *b = placed.get(100);
    std::byte *c = unplaced.get(kMiB, Category::weights), *d = unplaced.get(100);
    CHECK(d - c == static_cast<std::ptrdiff_t>(kMiB));
    for (const std::byte* before : seen) CHECK(c > before);
    seen.push_back(d);
    placed.memory.release(a), unplaced.memory.release(c);
    CHECK(unplaced.memory.in_use().by_category == placed.memory.in_use().by_category);
    placed.memory.release(b), unplaced.memory.release(d);
  }
  CHECK(unplaced.memory.in_use().total == 0);
  CHECK(unplaced.memory.peak().by_category == placed.memory.peak().by_category);
  CHECK(unplaced.memory.reserved() == 0);
  CHECK_THROWS(unplaced.memory.release(seen.back() + 1));
}
