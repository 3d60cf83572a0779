// How parameters lie in flat tensors and which part is a rank's own, for every rank of a group.
#include "engine/nn/state/state_layout.h"

#include <algorithm>

#include "test/catch.h"

using namespace mbench;
using namespace mbench::nn;

namespace {

using Item = StateLayout::Item;

constexpr Axes kDp{Axis::dp}, kEdp{Axis::edp};
constexpr StatePlan kWhole{};
constexpr StatePlan kState{replicate, replicate, shard(0)};
constexpr StatePlan kAll{shard(0), shard(0), shard(0)};
constexpr StatePlan kOwners{replicate, replicate, shard(0), StatePlan::Cut::parameters};

// Two chunks of two units each; one unit with experts between dense weights, one with a table of its own bucket.
const std::vector<Item> kItems = {{1000, kDp, 0, true}, {70, kDp, 0},  {300, kDp, 1}, {64, kDp, 1},
                                  {500, kDp, 2},        {90, kEdp, 2}, {20, kDp, 2},  {640, kDp, 3}};
const StateLayout::Units kUnits{4, {0, 2}};

StateLayout layout(const StatePlan& plan, int rank, int size, std::int64_t bucket_elements = 1 << 20,
                   int expert_size = 1) {
  return StateLayout(plan, kItems, kUnits, bucket_elements, 64, [=](Axes data) {
    return data == kEdp ? StateLayout::Peers{rank % expert_size, expert_size} : StateLayout::Peers{rank, size};
  });
}

std::vector<std::vector<int>> units_of(const StateLayout& l) {
  std::vector<std::vector<int>> all;
  for (const StateLayout::Bucket& b : l.buckets()) all.push_back(b.units);
  return all;
}

// The own parts of all ranks make up each bucket, each element once.
void check_cover(const StatePlan& plan, int size, std::int64_t bucket_elements) {
  std::vector<int> owners;
  for (int rank = 0; rank < size; ++rank) {
    const StateLayout l = layout(plan, rank, size, bucket_elements, size);
    owners.resize(static_cast<std::size_t>(l.size()));
    std::int64_t at = 0;
    for (const StateLayout::Own& own : l.own()) {
      CHECK(own.at == at);
      at += own.size();
      const StateLayout::Bucket& bucket = l.buckets()[static_cast<std::size_t>(own.bucket)];
      CHECK(own.begin >= bucket.begin);
      CHECK(own.end <= bucket.end);
      for (std::int64_t e = own.begin; e < own.end; ++e) ++owners[static_cast<std::size_t>(e)];
    }
    CHECK(at <= l.owned());
    CHECK(l.owned() == layout(plan, 0, size, bucket_elements, size).owned());
  }
  CHECK(std::all_of(owners.begin(), owners.end(), [](int n) { return n == 1; }));
}

}  // namespace

TEST_CASE("what is not sharded lies item after item, aligned, and is all a rank's own") {
  const StateLayout l = layout(kWhole, 1, 4);
  CHECK(l.buckets().empty());
  CHECK(l.range(0) == StateLayout::Range{0, 1024});
  CHECK(l.range(1) == StateLayout::Range{1024, 1152});
  CHECK(l.size() == 1024 + 128 + 320 + 64 + 512 + 128 + 64 + 640);
  CHECK(l.owned() == l.size());
  REQUIRE(l.own().size() == 1);
  CHECK(l.own()[0].size() == l.size());
  REQUIRE(l.runs(2).size() == 3);
  CHECK(l.runs(2)[1].data == kEdp);
  CHECK(l.runs(1).size() == 1);
}

TEST_CASE("buckets are of neighbours with the same ranks of data, of one chunk, and full or at an end") {
  using Units = std::vector<std::vector<int>>;
  CHECK(units_of(layout(kState, 0, 2)) == Units{{0}, {0, 1}, {2}, {2}, {2, 3}});
  // Filled from the last: unit 1 alone is full.
  CHECK(units_of(layout(kState, 0, 2, 300)) == Units{{0}, {0}, {1}, {2}, {2}, {2}, {3}});
  // Sharded weights are gathered unit by unit.
  CHECK(units_of(layout(kAll, 0, 2)) == Units{{0}, {0}, {1}, {2}, {2}, {2}, {3}});
  const StateLayout l = layout(kState, 0, 2);
  CHECK(l.buckets_of(0) == std::vector<int>{0, 1});
  CHECK(l.buckets_of(2) == std::vector<int>{2, 3, 4});
}

TEST_CASE("every element is one rank's own, and every rank makes the same room") {
  for (const StatePlan& plan : {kState, kAll, kOwners})
    for (const int size : {1, 2, 3, 8})
      for (const std::int64_t bucket : {1, 300, 1 << 20}) {
        INFO(size << " ranks, buckets of " << bucket);
        check_cover(plan, size, bucket);
      }
}

TEST_CASE("even parts are equal, aligned, and lie in the order of the ranks") {
  for (int rank = 0; rank < 3; ++rank) {
    const StateLayout l = layout(kAll, rank, 3);
    REQUIRE(l.own().size() == l.buckets().size());
    for (const StateLayout::Own& own : l.own()) {
      const StateLayout::Bucket& b = l.buckets()[static_cast<std::size_t>(own.bucket)];
      CHECK(own.begin % 64 == 0);
      CHECK(own.size() * b.peers == b.size());
      CHECK(own.begin == b.begin + (b.peers > 1 ? rank * own.size() : 0));
    }
  }
}

TEST_CASE("weights in FP8 alone lie behind all others, in buckets of their own") {
  const std::vector<Item> items = {
      {1000, kDp, 0}, {70, kDp, 0, false, true}, {300, kDp, 1}, {64, kDp, 1, false, true}, {500, kEdp, 1, false, true}};
  const auto of = [&](const StatePlan& plan, int rank, int size) {
    return StateLayout(plan, items, {2, {0}}, 1 << 20, 64, [=](Axes) { return StateLayout::Peers{rank, size}; });
  };
  const StateLayout whole = of(kWhole, 0, 1);
  CHECK(whole.range(2) == StateLayout::Range{1024, 1344});
  CHECK(whole.fp8_begin() == 1344);
  CHECK(whole.fp8_at() == 1344);
  CHECK(whole.range(1) == StateLayout::Range{1344, 1472});
  CHECK(whole.range(3) == StateLayout::Range{1472, 1536});
  CHECK(whole.size() == 1536 + 512);
  REQUIRE(whole.own().size() == 2);
  CHECK(whole.own()[0] == StateLayout::Own{{0, 1344}, 0, 0});
  CHECK(whole.own()[1] == StateLayout::Own{{1344, 2048}, 0, 1344});
  REQUIRE(whole.runs(1).size() == 3);
  CHECK(whole.runs(1)[0] == StateLayout::Run{{1024, 1344}, kDp});
  CHECK(whole.runs(1)[1] == StateLayout::Run{{1472, 1536}, kDp});
  CHECK(whole.runs(1)[2] == StateLayout::Run{{1536, 2048}, kEdp});
  for (const StatePlan& plan : {kState, kAll, kOwners})
    for (const int size : {1, 2, 3}) {
      std::int64_t fp8 = 0;
      for (int rank = 0; rank < size; ++rank) {
        const StateLayout l = of(plan, rank, size);
        for (const StateLayout::Bucket& b : l.buckets()) CHECK((b.end <= l.fp8_begin() || b.begin >= l.fp8_begin()));
        for (const StateLayout::Own& own : l.own()) {
          CHECK((own.begin >= l.fp8_begin()) == (own.at >= l.fp8_at()));
          if (own.begin >= l.fp8_begin()) fp8 += own.size();
        }
        CHECK(l.range(1).begin >= l.fp8_begin());
        CHECK(l.buckets_of(1).size() == 3);
      }
      CHECK(fp8 == of(plan, 0, size).size() - of(plan, 0, size).fp8_begin());
    }
  CHECK(layout(kState, 0, 2).fp8_begin() == layout(kState, 0, 2).size());
  CHECK(layout(kOwners, 0, 2).fp8_at() == layout(kOwners, 0, 2).owned());
}

TEST_CASE("a whole parameter goes to the rank that has least, a shared one to the first") {
  const StateLayout l = layout(kOwners, 1, 2);
  const auto owner = [&](std::size_t item) {
    for (const StateLayout::Bucket& b : l.buckets())
      for (const StateLayout::Part& part : b.parts)
        if (part.begin <= l.range(item).begin && l.range(item).end <= part.end) return part.owner;
    return -1;
  };
  // 1024 to the first; then 128, 320, 64 and 512 to the second, which has 1024 too; 64 to the first, 640 to the second.
  const std::vector<int> owners = {owner(0), owner(1), owner(2), owner(3), owner(4), owner(6), owner(7)};
  CHECK(owners == std::vector<int>{0, 1, 1, 1, 1, 0, 1});
  CHECK(l.owned() == 1664 + 128);  // and the experts' weights, which no other rank has
}
