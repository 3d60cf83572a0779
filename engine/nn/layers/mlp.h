// The dense feed-forward block: fc2(activation(fc1(x))).
#pragma once
#include "engine/nn/layers/activation.h"
#include "engine/nn/layers/mixer.h"

namespace mbench::nn {

class Mlp final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    Linear::Saved fc1, fc2;
    ActivationFunction::Saved activation;
    Tensor gate, up;  // each from a GEMM of its own, where every second one is kept
    Tensor unread;    // the output, where it is kept too (Keeps::unread_products)
    std::vector<Tensor*> inputs() override { return {&fc1.x}; }
  };
  Mlp(ParameterStore& store, const Plan& plan, const MlpSpec& spec, Regions drop = {});
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  void restore(Context& context, const MicroBatch& batch, Tensor x,
               std::unique_ptr<Mixer::Saved>& saved) const override;
  void keep_alternate_gemms(Mixer::Saved& saved) const override;
  Tensor make_others(Context& context, const MicroBatch& batch, Tensor x, Mixer::Saved& saved,
                     bool output) const override;
  // A forward in two parts, fc1 with the activation and fc2, for who runs something in between; and a backward. first() may take x.
  Tensor first(Context& context, Tensor& x, std::unique_ptr<Mixer::Saved>& saved) const;
  Tensor second(Context& context, const Tensor& wide, Mixer::Saved& saved) const;
  Tensor second_backward(Context& context, Tensor dy, Mixer::Saved& saved) const;
  Tensor first_backward(Context& context, Tensor gradient, Mixer::Saved& saved) const;
  Tensor bias() const override { return fc2_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  // The gates (0) or the ups (1) of fc1's pairs.
  Tensor half(Context& context, const Linear::Arrived& arrived, std::int64_t which) const;
  static Tensor gated(Context& context, const Saved& saved);

  Linear fc1_;
  ActivationFunction activation_;
  Linear fc2_;
  std::int64_t pairs_ = 0;  // on this rank, where gates and ups have separate GEMMs
};

}  // namespace mbench::nn
