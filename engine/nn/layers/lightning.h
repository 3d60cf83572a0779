// Lightning attention: linear attention with a fixed decay for each head (MiniMax-01). It is Mamba-2's scan with values as inputs, keys as B,
// queries as C, and steps of 1. SiLU of queries, keys and values is a convolution of one tap. Under tensor parallelism each rank has some
// heads, and their outputs are normed together.
#pragma once
#include "engine/nn/layers/all_heads_norm.h"
#include "engine/nn/layers/mixer.h"
#include "engine/nn/linear/linear.h"
#include "engine/ops/state_scan.h"

namespace mbench::nn {

class Lightning final : public Mixer {
 public:
  // Queries, keys, values and the scan's states are computed again in backward.
  struct Saved final : Mixer::Saved {
    Linear::Saved in_linear, out_linear;
    Tensor made;       // [seq, batch, local heads, (gate, value, key, query)]
    Tensor y, normed;  // [seq, batch, local heads, dim]: the scan's output, and behind its norm
    Tensor rstd;
    std::vector<Tensor*> inputs() override { return {&in_linear.x}; }
  };
  Lightning(ParameterStore& store, const Plan& plan, const LightningSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  Tensor bias() const override { return out_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  // Values, keys and queries, behind SiLU.
  Tensor activated(Context& context, const Tensor& made) const;
  // The scan to y, or only its states.
  ops::StateScan scan(Context& context, const Tensor& activated, const Tensor& y) const;
  // The gradient of what was activated, from the gradient of the scan's output.
  Tensor scan_back(Context& context, const Tensor& dy, const Tensor& activated) const;

  std::int64_t dim_, chunk_;
  Linear in_;
  Tensor tap_, log_slopes_, step_,
      none_;  // constants: SiLU's tap; the scan's A, the bias that makes its steps 1, its D
  AllHeadsNorm norm_;
  Linear out_;
};

}  // namespace mbench::nn
