// A linear layer that is several GEMMs of a framework: queries, keys and values, or gates and ups. Each gathers the layer's input over tp,
// keeps what it gathered, and scatters its own gradient. So does DTensor's ColwiseParallel without a PrepareModuleInput around the block;
// compiled, they share one gather (Keeps::joined_gathers).
// Here the GEMMs are blocks of the weight's rows, as even as can be.
#pragma once
#include "engine/nn/linear/linear_gemms.h"

namespace mbench::nn {

class SeparateGemms {
 public:
  explicit SeparateGemms(std::int64_t gemms) : gemms_(gemms) {}

  // [seq, batch, in] -> [seq, batch, out] in their places, without a bias.
  Tensor forward(Context& context, const LinearSite& site, const Tensor& x, LinearSaved& saved) const;
  // From the gradient of the output; adds to the weight's gradient and returns the input's.
  Tensor backward(Context& context, const LinearSite& site, const Tensor& dy, LinearSaved& saved) const;

 private:
  std::int64_t gemms_;
};

}  // namespace mbench::nn
