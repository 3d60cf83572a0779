// Where tokens come from. A sample depends only on (step, index within the global batch), so every layout trains on the
// same data.
//
// Draws use Philox with the run's seed, site fnv1a("data.<what>") and the step; w(what, e) is word e.
//   synthetic:    token p of sample g is `w(tokens, g * (seq + 1) + p) mod vocab`, p in [0, seq].
//   text, tokens: the seq + 1 tokens from position `(w(start, g) * (n - seq)) >> 32` of the n tokens of the file.
//
// next_token: inputs are tokens [0, seq), labels tokens [1, seq], every weight 1.
//
// masked_words_and_order: labels are tokens [0, seq). Sample g has length `seq/2 + w(length, g) mod (seq - seq/2 + 1)`;
// positions from there on are padding.
// A position below it is masked if it is 1 or `w(mask, g * seq + p) < 0.15 * 2^32`.
// Masked positions have weight 1 and input vocab - 1, the others weight 0. Token type is 1 from position length/2 on,
// else 0. The binary label is `w(order, g) & 1`.
//
// With labels of samples neither predicts words: the inputs are tokens [0, seq), none masked, with the padding and token types of the
// objective. The label of sample g is `w(label, g) mod labels`.
//
// text:FILE     every byte is a token
// tokens:FILE   little-endian tokens, in one of three formats:
//   - llm.c's .bin: a header of 256 int32 (magic, version, tokens). Magic 20240520 and version 1 mean uint16 tokens,
//     magic 20240801 and version 7 uint32. The header's count must agree with the size of the file.
//   - raw uint32 where the file's name ends in .u32 or .uint32.
//   - raw uint16 (nanoGPT's .bin) otherwise. Read as raw tokens the magics begin with 55432 and 55713.
//
// Raw uint16 tokens are refused for a vocabulary of more than 65536: such a file holds something else. Files are
// mapped, and tokens checked as they are drawn: one outside the vocabulary stops the run before it is trained on.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/documents.h"
#include "engine/base/philox.h"
#include "engine/point/model_spec.h"

namespace mbench::train {

// One micro batch on the host: [batch, seq] samples stored position-major ([seq, batch]), as the engine uses them. Only
// keep is [batch, seq].
struct HostBatch {
  std::vector<std::int64_t> tokens, positions;
  std::vector<std::int64_t> labels;  // with weights, where words are predicted
  std::vector<float> weights;
  double weight_sum = 0;
  // only for masked words and order:
  std::vector<std::int64_t> token_types;
  std::vector<std::uint8_t> keep;
  std::vector<std::int64_t> classes;  // [batch]: the order of sentences, or labels of samples
  // only for multi-token prediction, by depth: tokens further on than labels by the depth, 0 with weight 0 past the
  // sample's end.
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

// Joins the micro batches of replicas, one after the other, into one whose loss is the sum of theirs. Each weight is
// divided by the sum of weights in its own batch.
HostBatch join(const std::vector<HostBatch>& batches);

// Positions restart in each of the documents, which may be null.
HostBatch make_batch(const TokenSource& source, const ModelSpec& model, std::uint64_t seed, std::int64_t step,
                     std::int64_t first_sample, std::int64_t batch, std::int64_t seq,
                     const Documents* documents = nullptr);

}  // namespace mbench::train
