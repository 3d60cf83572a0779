// Layer normalisation or RMS norm over the hidden dim. Its parameters, if any, are whole on every rank.
#pragma once
#include "engine/nn/context.h"
#include "engine/nn/parameters.h"

namespace mbench {

class Norm {
 public:
  struct Saved {
    Tensor x, rstd;
    Tensor mean;  // of layer normalisation
  };
  Norm(ParameterStore& store, const Plan& plan, const NormSpec& spec);
  Tensor forward(Context& context, const Tensor& x, Saved& saved) const;
  // Gradient of x; `residual`, if given, is the gradient that by-passed the norm and is added.
  Tensor backward(Context& context, const Tensor& dy, const Tensor& residual, Saved& saved) const;

 private:
  float eps_;
  bool of_layers_;
  Parameter *gamma_ = nullptr, *beta_ = nullptr;
};

}  // namespace mbench
