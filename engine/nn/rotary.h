// The cosines and sines of rotary positions: one table of a model, made when first used and kept.
#pragma once
#include <optional>

#include "engine/device/device.h"
#include "engine/plan/sequence_share.h"
#include "engine/spec/model_spec.h"

namespace mbench {

class RotaryAngles {
 public:
  // [2, rows, turned columns / 2] f32, cosines and sines, for the positions of that share of heads of that width. Asked for
  // with other arguments than before, it is made anew.
  const Tensor& get(Device& device, const RopeSpec& rope, std::int64_t head_dim, const SequenceShare& share);

 private:
  struct Key {
    RopeSpec rope;
    std::int64_t head_dim = 0;
    SequenceShare share;
    bool operator==(const Key&) const = default;
  };
  std::optional<Key> key_;
  Tensor table_;
};

}  // namespace mbench
