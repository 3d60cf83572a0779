// Layer normalisation or RMS norm over the hidden dim. Its parameters, if any, are whole on every rank.
#pragma once
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench::nn {

// Of a weight that is not there in every model.
inline Tensor value_of(const Parameter* p) {
  return p != nullptr ? p->value : Tensor();
}
inline Tensor gradient_of(const Parameter* p) {
  return p != nullptr ? p->gradient : Tensor();
}

class Norm {
 public:
  struct Saved {
    Tensor x, rstd;
    Tensor mean;  // of layer normalisation
    // Where the framework has small ops for an RMS norm: the input in f32, in place of x, and what gamma multiplies. The first also
    // under autocast.
    Tensor wide, normalised;
  };
  Norm(ParameterStore& store, const Plan& plan, const NormSpec& spec);
  // It stands behind the last layer.
  void set_last() { last_ = true; }
  Tensor forward(Context& context, const Tensor& x, Saved& saved) const;
  // The input of a forward, made again of its f32 copy where only that was kept.
  static Tensor input(Context& context, Saved& saved);
  // Gradient of x; `residual`, if given, is the gradient that by-passed the norm and is added.
  Tensor backward(Context& context, const Tensor& dy, const Tensor& residual, Saved& saved) const;

 private:
  static void keep_in_f32(Context& context, Saved& saved);
  void keep_unfused(Context& context, const Tensor& y, Saved& saved) const;
  float eps_;
  bool of_layers_, last_ = false;
  Parameter *gamma_ = nullptr, *beta_ = nullptr;
};

}  // namespace mbench::nn
