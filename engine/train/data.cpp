#include "engine/train/data.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/train/token_file.h"

namespace mbench::train {
namespace {

// Words of one kind of draw in one step.
struct Draw {
  RngKey key;
  Draw(std::uint64_t seed, std::string_view what, std::int64_t step)
      : key{seed, fnv1a("data." + std::string(what)), static_cast<std::uint32_t>(step)} {}
  std::uint32_t operator()(std::int64_t element) const {
    return Philox::word(key, static_cast<std::uint64_t>(element));
  }
};

class SyntheticTokens final : public TokenSource {
 public:
  SyntheticTokens(std::int64_t vocab, std::uint64_t seed) : vocab_(vocab), seed_(seed) {}
  void fill(std::int64_t step, std::int64_t sample, std::int64_t seq, std::int64_t* out) const override {
    const Draw w(seed_, "tokens", step);
    for (std::int64_t p = 0; p <= seq; ++p) out[p] = w(sample * (seq + 1) + p) % vocab_;
  }

 private:
  std::int64_t vocab_;
  std::uint64_t seed_;
};

class FileTokens final : public TokenSource {
 public:
  FileTokens(TokenFile file, std::int64_t vocab, std::uint64_t seed)
      : file_(std::move(file)), vocab_(vocab), seed_(seed) {}
  void fill(std::int64_t step, std::int64_t sample, std::int64_t seq, std::int64_t* out) const override {
    check(file_.size() > seq, file_.path(), "a sample of {} tokens from a file of {}", seq + 1, file_.size());
    const std::uint32_t w = Draw(seed_, "start", step)(sample);
    // 128 bits: a file may hold more than 2^32 tokens.
    const auto start = static_cast<std::int64_t>(
        (static_cast<unsigned __int128>(w) * static_cast<std::uint64_t>(file_.size() - seq)) >> 32);
    for (std::int64_t p = 0; p <= seq; ++p) {
      out[p] = file_[start + p];
      if (out[p] >= vocab_)
        fail(ErrorKind::bad_input, file_.path(),
             "token {} is outside the model's vocabulary, got {}, need less than {}", start + p, out[p], vocab_);
    }
  }

 private:
  TokenFile file_;
  std::int64_t vocab_;
  std::uint64_t seed_;
};

std::unique_ptr<TokenSource> open_file(TokenFile file, std::int64_t vocab, std::int64_t seq, std::uint64_t seed) {
  if (file.size() < seq + 1)
    fail(ErrorKind::bad_input, file.path(), "too short for one sample, got {} tokens, need at least {} (seq + 1)",
         file.size(), seq + 1);
  // Raw tokens do not tell their width: a vocabulary that 16 bits cannot hold means they are not uint16.
  if (file.format() == TokenFormat::u16 && !file.has_header() && vocab > 65536)
    fail(ErrorKind::bad_input, file.path(),
         "uint16 tokens for a vocabulary of {}, need uint32 tokens: a raw file named *.u32, or a header that "
         "says so",
         vocab);
  return std::make_unique<FileTokens>(std::move(file), vocab, seed);
}

}  // namespace

std::unique_ptr<TokenSource> open_data(const std::string& data, std::int64_t vocab, std::int64_t seq,
                                       std::uint64_t seed) {
  check(vocab > 0 && seq > 0, "data", "vocab {} and seq {} must be positive", vocab, seq);
  if (data == "synthetic") return std::make_unique<SyntheticTokens>(vocab, seed);
  const std::size_t colon = data.find(':');
  const std::string kind = data.substr(0, colon);
  if (colon != std::string::npos) {
    const std::string path = data.substr(colon + 1);
    if (kind == "text") return open_file(TokenFile::open_text(path), vocab, seq, seed);
    if (kind == "tokens") return open_file(TokenFile::open_tokens(path), vocab, seq, seed);
  }
  fail(ErrorKind::bad_input, "data", "no such source, got \"{}\", {}", data,
       nearest_choice(data, {"synthetic", "text:FILE", "tokens:FILE"}));
}

HostBatch join(const std::vector<HostBatch>& batches) {
  HostBatch all;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const HostBatch& b : batches) {
    append(all.tokens, b.tokens);
    append(all.labels, b.labels);
    append(all.positions, b.positions);
    append(all.token_types, b.token_types);
    append(all.keep, b.keep);
    append(all.classes, b.classes);
    for (const float w : b.weights) all.weights.push_back(static_cast<float>(w / b.weight_sum));
  }
  all.weight_sum = 1;
  return all;
}

HostBatch make_batch(const TokenSource& source, const ModelSpec& model, std::uint64_t seed, std::int64_t step,
                     std::int64_t first_sample, std::int64_t batch, std::int64_t seq, const Documents* documents) {
  const bool masked = model.parts().objective == Objective::masked_words_and_order;
  const bool words = model.labels == 0;
  // The shortest sample is seq / 2 long, and position 1 must be inside it: there is always a word to predict.
  if (masked && seq < 4)
    fail(ErrorKind::bad_input, "seq", "too short for {}, got {}, need 4", words ? "masked words" : "padded samples",
         seq);
  const auto count = static_cast<std::size_t>(seq * batch);
  HostBatch out;
  out.tokens.resize(count);
  out.positions.resize(count);
  if (words) out.labels.resize(count), out.weights.assign(count, masked ? 0.0f : 1.0f);
  const bool types = model.parts().token_types > 0;
  if (types) out.token_types.assign(count, 0);
  if (masked) out.keep.assign(count, 0);
  if (masked || !words) out.classes.resize(static_cast<std::size_t>(batch));
  const Draw length_of(seed, "length", step), mask(seed, "mask", step), class_of(seed, words ? "order" : "label", step);
  constexpr std::uint32_t masked_below = Philox::drop_bound(0.15);
  out.ahead.resize(static_cast<std::size_t>(model.mtp_layers));
  for (HostBatch::Ahead& ahead : out.ahead) ahead.labels.assign(count, 0), ahead.weights.assign(count, 0);
  std::vector<std::int64_t> sample(static_cast<std::size_t>(seq) + 1);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t g = first_sample + b;
    source.fill(step, g, seq, sample.data());
    const std::int64_t length = masked ? seq / 2 + length_of(g) % (seq - seq / 2 + 1) : seq;
    if (!out.classes.empty()) out.classes[static_cast<std::size_t>(b)] = class_of(g) % (words ? 2 : model.labels);
    for (std::int64_t p = 0; p < seq; ++p) {
      const auto at = static_cast<std::size_t>(p * batch + b);
      const auto s = static_cast<std::size_t>(p);
      out.positions[at] = documents == nullptr ? p : p - documents->first_of(p);
      out.tokens[at] = sample[s];
      for (std::size_t d = 0; d < out.ahead.size() && s + d + 2 < sample.size(); ++d) {
        out.ahead[d].labels[at] = sample[s + d + 2];
        out.ahead[d].weights[at] = 1;
        out.ahead[d].weight_sum += 1;
      }
      if (words) out.labels[at] = sample[masked ? s : s + 1];
      if (!masked) continue;
      if (types) out.token_types[at] = p >= length / 2;
      out.keep[static_cast<std::size_t>(b * seq + p)] = p < length;
      if (words && p < length && (p == 1 || mask(g * seq + p) < masked_below)) {
        out.tokens[at] = model.vocab - 1;
        out.weights[at] = 1;
      }
    }
  }
  for (const float w : out.weights) out.weight_sum += w;
  return out;
}

}  // namespace mbench::train
