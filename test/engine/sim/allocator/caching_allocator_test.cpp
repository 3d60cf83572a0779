// Each rule of PyTorch's caching allocator, with what c10/cuda/CUDACachingAllocator.cpp gives for it.
#include "engine/sim/allocator/caching_allocator.h"

#include <catch2/catch.hpp>
#include <random>

using namespace mbench;
using sim::CachingAllocator;
using sim::CachingSettings;

namespace {

constexpr std::size_t kKib = 1024, kMib = 1024 * kKib;

// An allocator and what it was asked for.
struct Run {
  explicit Run(const std::string& settings = "", std::size_t limit = 0)
      : allocator(sim::changed_by(CachingSettings{}, settings, "test"), limit) {}
  std::size_t take(std::size_t bytes) { return allocator.take(bytes, Category::activations, "a tensor"); }
  void give(std::size_t block, std::size_t bytes) { allocator.give(block, bytes, Category::activations); }
  CachingAllocator allocator;
};

}  // namespace

TEST_CASE("caching allocator: requests are rounded up to 512 bytes, and small ones share segments of 2 MiB") {
  Run run;
  run.take(1);
  CHECK(run.allocator.allocated() == 512);
  CHECK(run.allocator.reserved() == 2 * kMib);
  run.take(513);
  CHECK(run.allocator.allocated() == 3 * 512);
  run.take(kMib);  // the largest small one
  CHECK(run.allocator.reserved() == 2 * kMib);
  run.take(kMib);
  CHECK(run.allocator.reserved() == 4 * kMib);
}

TEST_CASE(
    "caching allocator: requests below 10 MiB share segments of 20 MiB, larger ones have their own, in steps of 2 "
    "MiB") {
  Run run;
  run.take(kMib + 1);
  CHECK(run.allocator.reserved() == 20 * kMib);
  for (int i = 0; i < 3; ++i) run.take(6 * kMib);  // 19 MiB of 20 with the first
  CHECK(run.allocator.reserved() == 20 * kMib);
  run.take(10 * kMib + 512 * kKib);
  CHECK(run.allocator.reserved() == 32 * kMib);
}

TEST_CASE("caching allocator: what is left of a large block is split off above 1 MiB, and else counts as allocated") {
  Run kept;
  kept.take(11 * kMib);
  CHECK(kept.allocator.allocated() == 12 * kMib);
  Run split;
  split.take(10 * kMib + 512 * kKib);  // 1.5 MiB of 12 are left
  CHECK(split.allocator.allocated() == 10 * kMib + 512 * kKib);
  split.take(kMib + 512);
  CHECK(split.allocator.reserved() == 12 * kMib);
}

TEST_CASE(
    "caching allocator: the smallest free block that is large enough is taken, and a small request never from the "
    "large pool") {
  Run run;
  const std::size_t large = run.take(30 * kMib), close = run.take(24 * kMib);
  run.give(large, 30 * kMib);
  run.give(close, 24 * kMib);
  run.take(23 * kMib);
  run.take(30 * kMib);  // is still whole
  CHECK(run.allocator.reserved() == 54 * kMib);
  run.take(kKib);
  CHECK(run.allocator.reserved() == 56 * kMib);
}

TEST_CASE("caching allocator: freed neighbours of a segment merge, those of two segments do not") {
  Run run;
  const std::size_t a = run.take(8 * kMib), b = run.take(8 * kMib);  // of one segment of 20 MiB
  run.give(a, 8 * kMib);
  run.give(b, 8 * kMib);
  run.take(18 * kMib);
  CHECK(run.allocator.reserved() == 20 * kMib);
  Run apart;
  const std::size_t c = apart.take(20 * kMib), d = apart.take(20 * kMib);
  apart.give(c, 20 * kMib);
  apart.give(d, 20 * kMib);
  apart.take(40 * kMib);
  CHECK(apart.allocator.reserved() == 80 * kMib);
}

TEST_CASE(
    "caching allocator: where the device is full, segments without a used block are returned and the request tried "
    "again") {
  Run run("", 100 * kMib);
  const std::size_t a = run.take(40 * kMib);
  const std::size_t b = run.take(6 * kMib);  // holds a segment of 20 MiB
  run.give(a, 40 * kMib);
  CHECK(run.allocator.retries() == 0);
  run.take(70 * kMib);
  CHECK(run.allocator.retries() == 1);
  CHECK(run.allocator.reserved_now() == 90 * kMib);
  CHECK(run.allocator.reserved() == 90 * kMib);
  CHECK_THROWS_WITH(run.take(30 * kMib), Catch::Contains("need 30") && Catch::Contains("reserved but unallocated") &&
                                             !Catch::Contains("expandable_segments"));
  run.give(b, 6 * kMib);
  run.take(30 * kMib);
  CHECK(run.allocator.reserved_now() == 100 * kMib);
}

TEST_CASE("caching allocator: it counts segments that it requests and returns, and pages of expandable ones") {
  using Calls = CachingAllocator::DeviceCalls;
  Run run("", 100 * kMib);
  run.give(run.take(40 * kMib), 40 * kMib);
  run.give(run.take(30 * kMib), 30 * kMib);  // out of the same
  CHECK(run.allocator.device_calls() == Calls{1, 0});
  run.take(70 * kMib);
  CHECK(run.allocator.device_calls() == Calls{2, 1});
  Run pages("expandable_segments:True", 100 * kMib);
  pages.give(pages.take(50 * kMib), 50 * kMib);  // three pages of 20 MiB
  CHECK(pages.allocator.device_calls() == Calls{3, 0});
  pages.take(10 * kMib);
  pages.give(pages.take(80 * kMib), 80 * kMib);  // two more
  CHECK(pages.allocator.device_calls() == Calls{5, 0});
  CHECK_THROWS_AS(pages.take(110 * kMib), OutOfMemory);
  CHECK(pages.allocator.device_calls().returned == 4);
}

TEST_CASE("caching allocator: fragments that no request fits into are told with what would help") {
  Run run("", 100 * kMib);
  std::vector<std::size_t> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(run.take(9 * kMib));  // two of them in each of 5 segments
  for (int i = 0; i < 10; i += 2) run.give(blocks[static_cast<std::size_t>(i)], 9 * kMib);
  CHECK_THROWS_WITH(run.take(30 * kMib), Catch::Contains("expandable_segments:True"));
}

TEST_CASE("caching allocator: max_split_size_mb keeps large blocks whole") {
  Run run("max_split_size_mb:50");
  const std::size_t a = run.take(100 * kMib);
  run.give(a, 100 * kMib);
  run.take(30 * kMib);  // is not cut from it
  CHECK(run.allocator.reserved() == 130 * kMib);
  run.take(60 * kMib);  // nor does it have a block that is 20 MiB too large
  CHECK(run.allocator.reserved() == 190 * kMib);
  run.take(90 * kMib);
  CHECK(run.allocator.reserved() == 190 * kMib);
  CHECK(run.allocator.allocated() == (100 + 30 + 60) * kMib);
}

TEST_CASE("caching allocator: with max_split_size_mb the device gets back as much as is needed before it gets all") {
  Run run("max_split_size_mb:50", 200 * kMib);
  const std::size_t small = run.take(20 * kMib), a = run.take(60 * kMib), b = run.take(100 * kMib);
  for (const auto& [block, bytes] : {std::pair{small, 20 * kMib}, std::pair{a, 60 * kMib}, std::pair{b, 100 * kMib}})
    run.give(block, bytes);
  run.take(75 * kMib);  // fits into none that may be taken; the segment of 100 MiB is enough
  CHECK(run.allocator.retries() == 0);
  CHECK(run.allocator.reserved_now() == (20 + 60 + 76) * kMib);
}

TEST_CASE("caching allocator: expandable segments grow by pages, and neighbours of any size merge") {
  Run run("expandable_segments:True");
  const std::size_t a = run.take(11 * kMib);
  CHECK(run.allocator.reserved() == 20 * kMib);
  CHECK(run.allocator.allocated() == 11 * kMib);
  const std::size_t b = run.take(30 * kMib);  // 9 MiB of them are there
  CHECK(run.allocator.reserved() == 60 * kMib);
  run.give(a, 11 * kMib);
  run.give(b, 30 * kMib);
  run.take(100 * kMib);
  CHECK(run.allocator.reserved() == 100 * kMib);
  run.take(kKib);  // the small pool has a segment of its own
  CHECK(run.allocator.reserved() == 102 * kMib);
}

TEST_CASE("caching allocator: the block at the end of an expandable segment is kept for what needs it to grow") {
  Run run("expandable_segments:True");
  const std::size_t a = run.take(20 * kMib);
  run.take(12 * kMib);  // 8 MiB are left at the end of 40
  run.give(a, 20 * kMib);
  run.take(7 * kMib);  // though 20 MiB is the larger block, it cannot become larger
  run.take(13 * kMib);
  CHECK(run.allocator.reserved() == 40 * kMib);
  run.take(28 * kMib);
  CHECK(run.allocator.reserved() == 60 * kMib);
}

TEST_CASE("caching allocator: of an expandable segment the device gets back whole pages, which are mapped again") {
  Run run("expandable_segments:True", 100 * kMib);
  const std::size_t a = run.take(50 * kMib);
  run.take(10 * kMib);  // fills three pages
  run.give(a, 50 * kMib);
  // Two pages of the first are returned, and mapped again at the end; 10 MiB stay.
  run.take(70 * kMib);
  CHECK(run.allocator.retries() == 1);
  CHECK(run.allocator.reserved_now() == 100 * kMib);
  run.take(10 * kMib);
  CHECK(run.allocator.reserved_now() == 100 * kMib);
  CHECK_THROWS_AS(run.take(21 * kMib), OutOfMemory);
}

TEST_CASE("caching allocator: roundup_power2_divisions rounds to parts between two powers of two") {
  Run all("roundup_power2_divisions:4");
  all.take(1200);  // of 512 times 4 and less it is as without
  CHECK(all.allocator.allocated() == 1536);
  all.take(40 * kKib + 1);  // parts of 8 KiB
  CHECK(all.allocator.allocated() == 1536 + 48 * kKib);
  Run listed("roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]");
  listed.take(33 * kMib);  // parts of 4 MiB
  CHECK(listed.allocator.allocated() == 36 * kMib);
  listed.take(129 * kMib);  // of 64
  CHECK(listed.allocator.allocated() == (36 + 192) * kMib);
}

TEST_CASE(
    "caching allocator: settings of the environment come after the framework's, and what is no setting is refused") {
  const CachingSettings base = sim::changed_by(CachingSettings{}, "expandable_segments:True", "test");
  CHECK(sim::changed_by(base,
                        {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128, pinned_use_background_threads:True"}}) ==
        sim::changed_by(base, "max_split_size_mb:128", "test"));
  CHECK_FALSE(
      sim::changed_by(base, {{"PYTORCH_ALLOC_CONF", "expandable_segments:False"}, {"PYTORCH_CUDA_ALLOC_CONF", "x:1"}})
          .expandable_segments);
  CHECK(sim::changed_by(base, {{"NCCL_ALGO", "Ring"}}) == base);
  const auto refused = [&](const std::string& list, const std::string& why) {
    INFO(list);
    CHECK_THROWS_WITH(sim::changed_by(base, {{"PYTORCH_CUDA_ALLOC_CONF", list}}), Catch::Contains(why));
  };
  refused("max_split_size:128", "env.PYTORCH_CUDA_ALLOC_CONF");
  refused("max_split_size_mb:20", "between 21 and");
  refused("max_split_size_mb", "need a ':'");
  refused("expandable_segments:true", "True or False");
  refused("roundup_power2_divisions:3", "power of two");
  refused("roundup_power2_divisions:[64:8", "need a ']'");
  refused("max_split_size_mb:99999999999999999999999", "whole number");
  refused("backend:cudaMallocAsync", "not simulated");
  refused("expandable_segments:True max_split_size_mb:64", "True or False");
}

TEST_CASE("caching allocator: whatever is taken and given, blocks are counted once and all comes back") {
  for (const std::string settings :
       {"", "expandable_segments:True", "max_split_size_mb:32", "large_segment_size_mb:40"})
    for (unsigned seed = 0; seed < 20; ++seed) {
      INFO(settings << " " << seed);
      std::mt19937 random(seed);
      Run run(settings, 600 * kMib);
      std::vector<std::pair<std::size_t, std::size_t>> held;
      std::size_t asked = 0;
      for (int i = 0; i < 3000; ++i) {
        if (!held.empty() && random() % 2 == 0) {
          const std::size_t at = random() % held.size();
          run.give(held[at].first, held[at].second);
          asked -= held[at].second;
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        } else {
          const std::size_t bytes = (1 + random() % 4096) << (random() % 14);
          try {
            held.emplace_back(run.take(bytes), bytes);
            asked += bytes;
          } catch (const OutOfMemory&) {
          }
        }
        REQUIRE(run.allocator.allocated() >= asked);
        REQUIRE(run.allocator.reserved_now() >= run.allocator.allocated());
        REQUIRE(run.allocator.reserved_now() <= 600 * kMib);
        std::size_t free = 0;
        for (const auto& pool : run.allocator.free().pools)
          for (const auto& block : pool) free += block.size;
        REQUIRE(run.allocator.reserved_now() - run.allocator.allocated() == free);
      }
      for (const auto& [block, bytes] : held) run.give(block, bytes);
      CHECK(run.allocator.allocated() == 0);
      run.take(598 * kMib);  // every segment is returned for it
    }
}

TEST_CASE("caching allocator: what a graph takes has pools of its own, which are never returned") {
  Run run("", 100 * kMib);
  const auto graph = [&](std::size_t bytes) {
    return run.allocator.take(bytes, Category::activations, "a tensor", {.graph = true});
  };
  const std::size_t eager = run.take(30 * kMib);
  run.give(eager, 30 * kMib);
  // A free block of the general pool is not for it, nor its own for others.
  const std::size_t captured = graph(30 * kMib), small = graph(kKib);
  CHECK(run.allocator.reserved_now() == 62 * kMib);
  run.give(captured, 30 * kMib);
  run.give(small, kKib);
  CHECK(run.take(30 * kMib) == eager);
  run.take(kKib);
  CHECK(run.allocator.reserved_now() == 64 * kMib);
  // The same graph, or another of the same pool, has it again.
  CHECK(graph(30 * kMib) == captured);
  run.give(captured, 30 * kMib);
  run.give(eager, 30 * kMib);
  // Where the device is full, segments of the general pool go.
  run.take(60 * kMib);
  CHECK(run.allocator.retries() == 1);
  CHECK(run.allocator.reserved_now() == 94 * kMib);
  std::size_t of_graphs = 0;
  for (const auto& segment : run.allocator.segments()) of_graphs += segment.graph ? segment.size : 0;
  CHECK(of_graphs == 32 * kMib);
  CHECK_THROWS_AS(run.take(20 * kMib), OutOfMemory);
}

TEST_CASE("caching allocator: expandable segments of graphs grow apart from others") {
  Run run("expandable_segments:True");
  const std::size_t eager = run.take(40 * kMib);
  run.allocator.take(20 * kMib, Category::activations, "a tensor", {.graph = true});
  run.give(eager, 40 * kMib);
  run.allocator.take(20 * kMib, Category::activations, "a tensor", {.graph = true});
  CHECK(run.allocator.reserved_now() == 80 * kMib);
}

TEST_CASE("caching allocator: each stream has pools of its own") {
  for (const char* settings : {"", "expandable_segments:True"}) {
    INFO(settings);
    Run run(settings, 100 * kMib);
    const auto gathered = [&](std::size_t bytes) {
      return run.allocator.take(bytes, Category::weights, "a tensor", {.stream = MemoryStream::gathers});
    };
    const std::size_t computed = run.take(40 * kMib);
    run.give(computed, 40 * kMib);
    // A free block of one stream is not for another.
    const std::size_t arrived = gathered(40 * kMib), small = gathered(kKib);
    CHECK(run.allocator.reserved_now() == 82 * kMib);
    run.give(arrived, 40 * kMib);
    run.give(small, kKib);
    run.take(40 * kMib);
    CHECK(gathered(20 * kMib) != computed);
    CHECK(run.allocator.reserved_now() == 82 * kMib);
    std::size_t of_gathers = 0;
    for (const auto& segment : run.allocator.segments())
      of_gathers += segment.stream == MemoryStream::gathers ? segment.size : 0;
    CHECK(of_gathers == 42 * kMib);
  }
  // Where the device is full, unused segments of all streams go.
  Run full("", 100 * kMib);
  full.give(full.take(40 * kMib), 40 * kMib);
  full.allocator.give(
      full.allocator.take(40 * kMib, Category::weights, "a tensor", {.stream = MemoryStream::reductions}), 40 * kMib,
      Category::weights);
  full.take(90 * kMib);
  CHECK(full.allocator.retries() == 1);
  CHECK(full.allocator.reserved_now() == 90 * kMib);
}

TEST_CASE("caching allocator: a block that another stream has used is back when the next one is given back") {
  for (const char* settings : {"", "expandable_segments:True"}) {
    INFO(settings);
    Run run(settings);
    const auto give = [&](std::size_t block) { run.allocator.give_recorded(block, 40 * kMib, Category::activations); };
    const std::size_t first = run.take(40 * kMib);
    give(first);
    // It counts as free, and the next request does not find it.
    CHECK(run.allocator.allocated() == 0);
    for (const auto& segment : run.allocator.segments())
      for (const auto& part : segment.parts) CHECK_FALSE(part.used);
    const std::size_t second = run.take(40 * kMib);
    CHECK(run.allocator.reserved_now() == 80 * kMib);
    give(second);
    CHECK(run.take(40 * kMib) == first);
    CHECK(run.allocator.reserved_now() == 80 * kMib);
    run.take(40 * kMib);
    CHECK(run.allocator.reserved_now() == 120 * kMib);
  }
  // Free blocks are not alike where one is yet to come back.
  Run one, other;
  const std::size_t block = one.take(40 * kMib);
  one.allocator.give_recorded(block, 40 * kMib, Category::activations);
  other.give(other.take(40 * kMib), 40 * kMib);
  CHECK_FALSE(one.allocator.free() == other.allocator.free());
  // A full device waits for the other stream.
  Run full("", 100 * kMib);
  const std::size_t recorded = full.take(40 * kMib);
  full.allocator.give_recorded(recorded, 40 * kMib, Category::activations);
  full.take(90 * kMib);
  CHECK(full.allocator.retries() == 1);
  CHECK(full.allocator.reserved_now() == 90 * kMib);
}
