// The mixer of LFM2: a projection makes B, C and x, packed by groups of channels, a gated convolution goes along the sequence, and a
// projection follows. Under tensor parallelism each rank has whole groups.
#pragma once
#include "engine/nn/layers/mixer.h"
#include "engine/nn/linear/linear.h"

namespace mbench::nn {

class ShortConv final : public Mixer {
 public:
  // B x and the convolution are computed again in backward.
  struct Saved final : Mixer::Saved {
    Linear::Saved in_linear, out_linear;
    Tensor made;  // [seq, batch, local groups, (B, C, x)]
    std::vector<Tensor*> inputs() override { return {&in_linear.x}; }
  };
  ShortConv(ParameterStore& store, const Plan& plan, const ShortConvSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  Tensor bias() const override { return out_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  std::int64_t width_;  // of a group: channels
  Linear in_;
  Parameter* conv_;
  Linear out_;
};

}  // namespace mbench::nn
