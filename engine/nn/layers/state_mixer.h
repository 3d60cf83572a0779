// A mixer with a state: Mamba-2, or Gated DeltaNet. A projection makes gates, inputs, B, C and steps, packed by groups of
// heads. A causal convolution and a scan go along the sequence. A gated norm and a projection follow. Under tensor
// parallelism each rank has whole groups. Where the sequence is split over ranks, each scans all of it for some heads (scan_share.h).
#pragma once
#include "engine/nn/layers/mixer.h"
#include "engine/nn/layers/scan_share.h"
#include "engine/nn/linear/linear.h"
#include "engine/ops/delta_scan.h"

namespace mbench::nn {

class StateMixer final : public Mixer {
 public:
  // The convolution's output and the scan's states are computed again in backward, as the fused kernels of mamba_ssm do.
  struct Saved final : Mixer::Saved {
    Linear::Saved in_linear, out_linear;
    // [seq, batch, local groups, width]: what the first projection made. Where heads travel, its gates and what this rank scans; else
    // both are all of it.
    Tensor gates, scanned;
    Tensor y;      // [seq, batch, local groups, heads' columns]: the scan's output
    Tensor rstd;   // of the gated norm, if there is one
    Tensor gated;  // stands for the norm's input, where the framework's scan multiplies by the gates
    std::vector<Tensor*> inputs() override { return {&in_linear.x}; }
  };
  StateMixer(ParameterStore& store, const Plan& plan, const StateMixerSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  Tensor bias() const override { return out_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  // The weights of what is convolved and scanned, or their gradients: of the heads that this rank scans.
  struct OfHeads {
    Tensor conv, conv_bias, a_log, dt_bias, d;
  };
  OfHeads weights_of(Context& context, const ScanShare& share) const;
  OfHeads gradients_of(Context& context, const ScanShare& share) const;
  // A scan's inputs, as they were made and convolved.
  struct Inputs {
    const ScanShare& share;
    Tensor made, convolved;
    OfHeads weights;
  };
  Inputs convolve(Context& context, const ScanShare& share, const Tensor& made) const;
  ops::ScanShape scan_of(const Inputs& inputs) const;
  Shape output_of(const Inputs& inputs) const;
  // Mamba-2's scan to y, or only its states; the gated delta rule.
  ops::StateScan scan(Context& context, const Inputs& inputs, const Tensor& y) const;
  ops::DeltaScan delta_scan(Context& context, const Inputs& inputs, const Tensor& y) const;
  // The gradient of what was convolved, from the gradient of the scan's output; the steps' in `dmade`.
  Tensor scan_back(Context& context, const Tensor& dy, const Inputs& inputs, const OfHeads& gradients,
                   const Tensor& dmade) const;
  Tensor normed(Context& context, Saved& saved) const;
  Tensor normed_back(Context& context, const Tensor& dy, Saved& saved, const Tensor& din) const;
  // What the first projection made, or its gradient, times the factors of its parts.
  void multiply(Context& context, const Tensor& in) const;
  bool mamba() const { return spec_.kind == MixerKind::mamba2; }
  bool gates_first() const { return mamba() && spec_.norm == StateNorm::gated; }
  std::int64_t norm_width() const { return mamba() ? spec_.group_width() : spec_.head_dim; }

  StateMixerSpec spec_;
  Linear in_;
  Parameter *conv_, *conv_bias_ = nullptr, *a_log_, *dt_bias_, *d_ = nullptr, *gamma_ = nullptr;
  Linear out_;
};

}  // namespace mbench::nn
