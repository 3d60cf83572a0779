// How the gradient of fused attention is cut on GPUs where two runs must give the same bits. That form keeps the
// gradients of all scores in 16 bits, so that memory grows with the square of the sequence. A piece takes at most
// kScoreGradients bytes of it, or what the smallest piece needs. Heads and samples are independent in this gradient, so
// pieces give the bits of the whole.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>

namespace mbench::ops {

inline constexpr std::int64_t kScoreGradients = std::int64_t{256} << 20;  // bytes

// What is computed at a time; the last piece may have less.
struct AttentionPieces {
  std::int64_t samples = 0, heads = 0;
  bool operator==(const AttentionPieces&) const = default;
};

// Bytes of the gradients of scores: tiles of 64 x 64, 16 bits each.
inline std::int64_t score_gradient_bytes(std::int64_t samples, std::int64_t heads, std::int64_t seq) {
  const std::int64_t side = (seq + 63) / 64 * 64;
  return samples * heads * side * side * 2;
}

// `shared_keys`: the heads of a sample share keys and values, whose gradients are sums over them; such a sample is not
// cut. In every piece, what it reads of each row (f32) starts at a multiple of 16 bytes.
inline AttentionPieces attention_pieces(std::int64_t samples, std::int64_t heads, std::int64_t seq, bool shared_keys) {
  // How many of `all` a piece has: a multiple of `step`, and pieces as equal as `most` at a time allows.
  const auto share = [](std::int64_t all, std::int64_t most, std::int64_t step) {
    most = std::max(step, most / step * step);
    const std::int64_t pieces = (all + most - 1) / most, each = (all + pieces - 1) / pieces;
    return std::min(all, (each + step - 1) / step * step);
  };
  const std::int64_t heads_at_once = std::max<std::int64_t>(1, kScoreGradients / score_gradient_bytes(1, 1, seq));
  const std::int64_t rows = heads * seq, samples_step = 4 / std::gcd<std::int64_t>(4, rows);
  if (heads_at_once >= heads * samples_step || shared_keys || samples_step > 1)
    return {share(samples, heads_at_once / heads, samples_step), heads};
  return {1, share(heads, heads_at_once, 4 / std::gcd<std::int64_t>(4, seq))};
}

}  // namespace mbench::ops
