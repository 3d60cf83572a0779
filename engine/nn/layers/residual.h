// The end of a residual branch: y = x + scale * dropout(branch + bias), on this rank's part of the hidden activations.
#pragma once
#include "engine/nn/runtime/context.h"
#include "engine/ops/arguments.h"

namespace mbench::nn {

class ResidualDropout {
 public:
  struct Saved {
    Tensor mask;  // empty where masks are drawn again
  };
  explicit ResidualDropout(const std::string& site, float scale = 1) : site_(site_of(site)), scale_(scale) {}
  // An empty bias adds none.
  Tensor forward(Context& context, const MicroBatch& batch, const Tensor& branch, const Tensor& bias,
                 const Tensor& residual, Saved& saved) const;
  // The gradient of the branch; the residual's is dy itself.
  Tensor backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;

 private:
  std::uint64_t site_;
  float scale_;
};

ops::HiddenMap hidden_map(const Context& context, const MicroBatch& batch);

}  // namespace mbench::nn
