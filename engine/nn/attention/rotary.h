// The cosines and sines of rotary positions, and factors on queries by position: a table for each way in which layers
// have them, made when first used and kept.
#pragma once
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/documents.h"
#include "engine/device/device.h"
#include "engine/plan/sequence_share.h"
#include "engine/point/model_spec.h"

namespace mbench::nn {

// How many small ops of PyTorch's that launch a kernel rotate a tensor without a fused kernel, as in Megatron-Core's
// _apply_rotary_pos_emb_bshd(). These are cosine, sine, each scaled and cast, halves exchanged, two multiplications, a
// sum, and concatenations. The gradient takes as many.
inline constexpr int kUnfusedRotaryCalls = 12;

class RotaryAngles {
 public:
  // [2, rows, rotated columns / 2] f32, cosines and sines, for the positions of that share of heads of that width. They
  // restart in each of the documents, which are the same in all calls, or null.
  const Tensor& get(Device& device, const RopeSpec& rope, std::int64_t head_dim, const SequenceShare& share,
                    const Documents* documents);
  // Likewise [2, rows, head_dim / 2], of no rotation: cosines are the factors on a head, and sines 0. Turned by it, a head is multiplied, and
  // so is its gradient.
  const Tensor& get(Device& device, const AttentionTemperature& temperature, std::int64_t head_dim,
                    const SequenceShare& share, const Documents* documents);

 private:
  struct Key {
    std::variant<RopeSpec, AttentionTemperature> turn;
    std::int64_t head_dim = 0;
    SequenceShare share;
    bool operator==(const Key&) const = default;
  };
  // `pair_of(position, i)`: of the i-th pair of columns the cosine and the sine.
  template <class F>
  const Tensor& table_of(Device& device, const Key& key, std::int64_t pairs, const Documents* documents,
                         const F& pair_of);
  std::vector<std::pair<Key, Tensor>> tables_;
};

}  // namespace mbench::nn
