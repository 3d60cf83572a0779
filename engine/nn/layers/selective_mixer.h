// The mixer of the first Mamba. A projection makes gates and inputs, a causal convolution goes along the sequence, and a second projection
// makes (low-rank steps, B, C) of all channels' inputs. A third one makes each channel's step. A scan and a last projection follow.
//
// Under tensor parallelism each rank has some channels. What the second projection makes is summed over ranks, so that all have it. Its
// gradient, which each rank's channels give a part of, is summed too, before it goes back through the norms.
#pragma once
#include <optional>

#include "engine/nn/layers/columns_norm.h"
#include "engine/nn/layers/mixer.h"
#include "engine/nn/linear/linear.h"
#include "engine/ops/selective_scan.h"

namespace mbench::nn {

class SelectiveMixer final : public Mixer {
 public:
  // The convolution, the norms, the steps and the scan's states are made again in backward, as mamba_ssm's fused function does.
  struct Saved final : Mixer::Saved {
    Linear::Saved in_linear, x_linear, dt_linear, out_linear;
    Tensor made;    // [seq, batch, local groups, (gates, inputs)]
    Tensor packed;  // [seq, batch, (low-rank steps, B, C)], before their norms
    std::vector<Tensor*> inputs() override { return {&in_linear.x}; }
  };
  SelectiveMixer(ParameterStore& store, const Plan& plan, const StateMixerSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  Tensor bias() const override { return out_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  // A norm of some columns of what is packed.
  struct PartNorm {
    ColumnsNorm norm;
    std::int64_t first, columns;
  };
  Tensor convolve(Context& context, const Tensor& made) const;
  // The packed columns, normed where the model does so. `rstds`: of each norm, which its gradient needs.
  Tensor normed(Context& context, const Tensor& packed, std::vector<Tensor>& rstds) const;
  // Each channel's raw step, [seq, batch, local channels].
  Tensor steps(Context& context, const Tensor& normed, Saved& saved) const;
  ops::SelectiveScan scan(Context& context, const ops::SelectiveShape& shape, const Tensor& y) const;
  ops::SelectiveShape shape_of(const Tensor& inputs, const Tensor& made, const Tensor& steps,
                               const Tensor& normed) const;

  StateMixerSpec spec_;
  Transition shared_;  // of what is packed, from where it is made to the channels
  Linear in_;
  Parameter *conv_, *conv_bias_;
  Linear x_;
  std::vector<PartNorm> norms_;
  Linear dt_;
  Parameter *a_log_, *dt_bias_, *d_;
  Linear out_;
};

}  // namespace mbench::nn
