// What a plan of fused attention is made for: sizes, strides, type and mask of one Attention or AttentionGrad, without addresses. Plain
// C++, no CUDA.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/ops/attention.h"
#include "engine/ops/attention_pieces.h"

namespace mbench::cuda {

// Addresses of [batch, heads, seq, dim]: element (b, a, s, c) is at b * sample + a * head + s * row + c.
struct FlashView {
  std::int64_t row = 0, head = 0, sample = 0;
};

inline FlashView flash_view(const ops::AttentionShape& s, const ops::Matrix& m) {
  if (s.group > 1) return {m.ld, m.cols, m.batch_stride};
  return {m.ld, m.batch_stride, s.heads * m.batch_stride};
}

// Statistics of rows, f32, begin at a multiple of 16 bytes.
inline constexpr std::int64_t kFlashRows = 4;

// Where heads share keys, each group of heads is given as a sample of its own with one head of keys. In a packed tensor, heads of different
// groups do not have a common stride.
struct FlashShape {
  DType type = DType::bf16;
  std::int64_t batch = 0, heads = 0, seq = 0, head_dim = 0;
  std::int64_t key_heads = 0;  // heads, or 1
  std::int64_t v_dim = 0;      // width of values and outputs
  float scale = 1;
  bool causal = false, padded = false;
  std::int64_t window = 0;             // 0: none
  bool bent = false, shifted = false;  // scores capped or lowered by distance; a window on a block of a longer sequence
  std::int64_t of_seq = 0;             // of a document: the sequence that its statistics lie in; 0: seq
  bool gradient = false;
  bool deterministic = true;  // of a gradient: two runs give the same bits
  FlashView q, k, v, out;
  FlashView dout, dq, dk, dv;  // of a gradient

  // Where keys are equal, one plan serves both shapes.
  std::vector<std::int64_t> key() const {
    std::vector<std::int64_t> all{
        static_cast<std::int64_t>(type),    batch,  heads,  seq,      head_dim,      key_heads, v_dim,
        std::bit_cast<std::int32_t>(scale), causal, padded, gradient, deterministic, window,    of_seq};
    for (const FlashView& view : {q, k, v, out, dout, dq, dk, dv}) {
      all.push_back(view.row);
      all.push_back(view.head);
      all.push_back(view.sample);
    }
    return all;
  }
  // What is computed at a time. A deterministic gradient's memory grows with the square of seq.
  ops::AttentionPieces pieces() const {
    if (!gradient || !deterministic) return {batch, heads};
    return ops::attention_pieces(batch, heads, seq, key_heads != heads);
  }
  // Bytes of rowsum(dO O), f32, which the frontend keeps at the start of a gradient's workspace.
  std::int64_t row_sum_bytes() const { return batch * heads * seq * std::int64_t{sizeof(float)}; }
  // Of the statistics of a head.
  std::int64_t statistics_rows() const { return of_seq == 0 ? seq : of_seq; }
};

template <class Op>
FlashShape flash_shape_without_views(const Op& op) {
  const ops::AttentionShape& s = op.shape;
  FlashShape shape;
  shape.type = op.q.data.dtype();
  const bool grouped = s.group > 1;
  shape.batch = grouped ? s.groups() : s.batch, shape.heads = grouped ? s.group : s.heads;
  shape.key_heads = grouped ? 1 : s.heads;
  shape.seq = s.seq, shape.head_dim = s.head_dim, shape.v_dim = s.v_dim();
  shape.scale = s.scale, shape.causal = s.causal, shape.padded = static_cast<bool>(s.keep);
  shape.window = s.window, shape.bent = s.softcap > 0 || s.alibi, shape.shifted = s.window > 0 && !s.causal;
  shape.q = flash_view(s, op.q), shape.k = flash_view(s, op.k), shape.v = flash_view(s, op.v);
  shape.out = flash_view(s, op.out);
  return shape;
}

inline FlashShape flash_shape(const ops::Attention& op) {
  return flash_shape_without_views(op);
}

inline FlashShape flash_shape(const ops::AttentionGrad& op) {
  const ops::AttentionShape& s = op.shape;
  FlashShape shape = flash_shape_without_views(op);
  shape.gradient = true, shape.deterministic = op.deterministic;
  shape.dout = flash_view(s, op.dout);
  shape.dq = flash_view(s, op.dq), shape.dk = flash_view(s, op.dk), shape.dv = flash_view(s, op.dv);
  return shape;
}

// Why fused attention cannot do this on any GPU, with the nearest choice; or nothing.
inline std::optional<std::string> why_no_flash(const FlashShape& s, float dropout) {
  if (s.type != DType::bf16 && s.type != DType::f16)
    return fmt::format(
        "attention \"flash\" on a GPU, got precision {}, which cuDNN's fused attention does not have, need "
        "bf16 or fp16, or attention \"core\"",
        name_of(s.type));
  if (dropout > 0)
    return fmt::format(
        "attention \"flash\" on a GPU, got dropout {}, need 0 or attention \"core\": cuDNN draws masks of "
        "its "
        "own, and a mask here is the same on every device and layout",
        dropout);
  if (s.bent)
    return std::string(
        "attention \"flash\" on a GPU, got scores with a softcap or ALiBi, which are not built in there, need "
        "attention_softcap 0 and rotary positions");
  if (s.shifted)
    return std::string(
        "attention \"flash\" on a GPU, got a window on blocks of a sequence, need cp 1 or cp_communication all_to_all");
  if (s.head_dim % 8 != 0 || s.v_dim % 8 != 0)
    return fmt::format(
        "attention \"flash\" on a GPU, got head_dim {}, need a multiple of 8 or attention "
        "\"core\"",
        s.head_dim % 8 != 0 ? s.head_dim : s.v_dim);
  if (s.padded && s.key_heads != s.heads)
    return std::string(
        "attention \"flash\" on a GPU, got padding with grouped queries, need a key and value head for every "
        "head, or attention \"core\"");
  // The row sums precede the rest of the workspace, which would start at an odd address.
  if (s.row_sum_bytes() % 16 != 0)
    return fmt::format(
        "attention \"flash\" on a GPU, got {} samples x {} heads x seq {}, need samples x heads x seq divisible by 4, "
        "or "
        "attention \"core\"",
        s.batch, s.heads, s.seq);
  return std::nullopt;
}

// Documents are computed one by one, each as a sequence. Why that cannot be, or nothing.
inline std::optional<std::string> why_no_flash_of_documents(const ops::AttentionShape& s) {
  if (!s.documents) return std::nullopt;
  if (s.seq != s.documents->seq())
    return std::string(
        "attention \"flash\" on a GPU, got documents on blocks of a sequence, need cp 1 or cp_communication "
        "all_to_all");
  if (s.keep) return std::string("attention \"flash\" on a GPU, got documents with padding, need attention \"core\"");
  for (std::int64_t d = 0; d < s.documents->count(); ++d)
    if (s.documents->first(d) % kFlashRows != 0)
      return fmt::format(
          "attention \"flash\" on a GPU, got a document that begins at token {}, need lengths divisible by {}, or "
          "attention \"core\"",
          s.documents->first(d), kFlashRows);
  return std::nullopt;
}

}  // namespace mbench::cuda
