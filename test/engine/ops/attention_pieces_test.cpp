#include "engine/ops/attention_pieces.h"

#include "test/catch.h"

using namespace mbench::ops;

TEST_CASE("pieces of attention's gradient keep their score gradients within 256 MiB, or are the least that there is") {
  CHECK(attention_pieces(2, 4, 512, false) == AttentionPieces{2, 4});      // all at once
  CHECK(attention_pieces(32, 32, 2048, false) == AttentionPieces{1, 32});  // 256 MiB a sample
  CHECK(attention_pieces(64, 16, 2048, false) == AttentionPieces{2, 16});
  CHECK(attention_pieces(5, 8, 2048, false) == AttentionPieces{3, 8});    // 3 and 2 rather than 4 and 1
  CHECK(attention_pieces(1, 32, 8192, false) == AttentionPieces{1, 2});   // 128 MiB a head
  CHECK(attention_pieces(2, 32, 32768, false) == AttentionPieces{1, 1});  // 2 GiB a head
  CHECK(attention_pieces(64, 4, 2048, true) == AttentionPieces{8, 4});
  CHECK(attention_pieces(16, 4, 8192, true) == AttentionPieces{1, 4});  // heads that share keys stay together
}

TEST_CASE("every piece's rows start at a multiple of 16 bytes, and the last ends with them") {
  for (const bool shared : {false, true})
    for (const std::int64_t seq : {1000, 1001, 1002, 4094, 5000, 16384})
      for (const std::int64_t heads : {1, 2, 3, 12, 25})
        for (const std::int64_t samples : {4, 8, 28}) {
          const AttentionPieces each = attention_pieces(samples, heads, seq, shared);
          INFO(samples << " x " << heads << " x " << seq << ": " << each.samples << " x " << each.heads);
          CHECK(each.samples >= 1);
          CHECK(each.heads >= 1);
          CHECK(each.samples <= samples);
          CHECK(each.heads <= heads);
          if (each.samples > 1) CHECK(each.heads == heads);
          if (shared) CHECK(each.heads == heads);
          CHECK(each.samples * heads * seq % 4 == 0);
          if (each.heads < heads) CHECK(each.heads * seq % 4 == 0);
          const std::int64_t least = 4 * heads;  // heads, where rows are odd
          if (score_gradient_bytes(1, least, seq) <= kScoreGradients)
            CHECK(score_gradient_bytes(each.samples, each.heads, seq) <= kScoreGradients);
        }
}
