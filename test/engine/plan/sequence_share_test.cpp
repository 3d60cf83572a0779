#include "engine/plan/sequence_share.h"

#include <vector>

#include "test/catch.h"

using namespace mbench;

namespace {

std::vector<std::int64_t> positions(const SequenceShare& share) {
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < share.rows(); ++row) all.push_back(share.position(row));
  return all;
}

}  // namespace

TEST_CASE("zig-zag: a rank has a chunk counted from each end of the sequence") {
  CHECK(positions({16, 4, 0, true}) == std::vector<std::int64_t>{0, 1, 14, 15});
  CHECK(positions({16, 4, 1, true}) == std::vector<std::int64_t>{2, 3, 12, 13});
  CHECK(positions({16, 4, 3, true}) == std::vector<std::int64_t>{6, 7, 8, 9});
  CHECK(positions({16, 4, 2, false}) == std::vector<std::int64_t>{8, 9, 10, 11});
  CHECK(positions({4, 1, 0, true}) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(SequenceShare(4, 1, 0, true).chunks() == 1);
}

TEST_CASE("zig-zag: every position is one rank's, and all ranks see as many pairs of causal attention") {
  for (const int ranks : {2, 3, 8}) {
    const std::int64_t seq = ranks * 10;
    std::vector<int> owners(static_cast<std::size_t>(seq), 0);
    std::int64_t pairs = -1;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t seen = 0;
      for (const std::int64_t p : positions({seq, ranks, rank, true})) {
        ++owners[static_cast<std::size_t>(p)];
        seen += p + 1;
      }
      if (pairs < 0) pairs = seen;
      CHECK(seen == pairs);
    }
    CHECK(owners == std::vector<int>(static_cast<std::size_t>(seq), 1));
  }
}
