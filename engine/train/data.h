// Where tokens come from. A sample is a function of (step, index within the global batch) alone, so every
// layout trains on the same data.
//
// Draws use Philox with the run's seed, site fnv1a("data.<what>") and the step; w(what, e) is word e.
//   synthetic:   token p of sample g = w(tokens, g * (seq + 1) + p) mod vocab, p in [0, seq]
//   text, tokens: the seq + 1 tokens from position (w(start, g) * (n - seq)) >> 32 of the n tokens of the file
// next_token: inputs are tokens [0, seq), labels tokens [1, seq], every weight 1.
// masked_words_and_order: labels are tokens [0, seq); the sample's length is seq/2 + w(length, g) mod (seq - seq/2 + 1),
// positions from there on are padding; a position below it is masked (weight 1, input = vocab - 1) if it is 1
// or w(mask, g * seq + p) < 0.15 * 2^32, else its weight is 0; token type 1 from position length/2 on, else
// 0; binary label = w(order, g) & 1.
//
// text:FILE     every byte is a token.
// tokens:FILE   little-endian tokens, as one of
//   - llm.c's .bin: a header of 256 int32 (magic, version, tokens) with magic 20240520, version 1 for uint16 tokens
//     and magic 20240801, version 7 for uint32. Its count must agree with the size of the file.
//   - raw uint32 where the file's name ends in .u32 or .uint32;
//   - raw uint16 (nanoGPT's .bin) otherwise. Read as raw tokens the magics begin with 55432 and 55713.
// Raw uint16 tokens are refused for a vocabulary of more than 65536: such a file holds something else. Files
// are mapped, and tokens checked as they are drawn: one outside the vocabulary stops the run before it is
// trained on.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/point/model_spec.h"

namespace mbench {

// One micro batch on the host, [batch, seq] samples stored position-major ([seq, batch]) as the engine uses
// them, but for keep, [batch, seq].
struct HostBatch {
  std::vector<std::int64_t> tokens, labels, positions;
  std::vector<float> weights;
  double weight_sum = 0;
  // masked words and order alone:
  std::vector<std::int64_t> token_types;
  std::vector<std::uint8_t> keep;
  std::vector<std::int64_t> order_labels;  // [batch]
  // of multi-token prediction alone, by depth: the tokens so many positions further on than labels, 0 with weight 0 where
  // that is past the sample's end.
  struct Ahead {
    std::vector<std::int64_t> labels;
    std::vector<float> weights;
    double weight_sum = 0;
  };
  std::vector<Ahead> ahead;
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Fills out[0 .. seq] with the tokens of sample `sample` of step `step`.
  virtual void fill(std::int64_t step, std::int64_t sample, std::int64_t seq, std::int64_t* out) const = 0;
};

// "synthetic", "text:FILE" or "tokens:FILE". A file that is missing, empty, shorter than one sample, of an
// odd size or with tokens outside the vocabulary is bad_input by name.
std::unique_ptr<TokenSource> open_data(const std::string& data, std::int64_t vocab, std::int64_t seq,
                                       std::uint64_t seed);

// Micro batches of replicas, one after the other, as the one whose loss is the sum of theirs: what is weighed counts by the
// share that it has in its own.
HostBatch join(const std::vector<HostBatch>& batches);

HostBatch make_batch(const TokenSource& source, const ModelSpec& model, std::uint64_t seed, std::int64_t step,
                     std::int64_t first_sample, std::int64_t batch, std::int64_t seq);

}  // namespace mbench
