// The low-rank adapters of experts whose weights are frozen (engine/point/adapter.h), one for each expert: y += scale * (x A^T) B^T of its
// rows. A [experts, rank, in] and B [experts, out, rank] lie with their experts, and are cut over etp as an Adapter's are over tp.
#pragma once
#include "engine/nn/moe/expert_gemms.h"

namespace mbench::nn {

class ExpertAdapter {
 public:
  ExpertAdapter(ParameterStore& store, const Plan& plan, const LinearSpec& spec);

  // As Adapter::forward() and backward(), of rows by expert.
  Tensor forward(Context& context, const ExpertRows& rows, const Tensor& x, const Tensor& y) const;
  void backward(Context& context, const ExpertRows& rows, const Tensor& dy, const Tensor& x, const Tensor& low,
                const Tensor& dx) const;

 private:
  Parameter *a_, *b_;
  float scale_;
};

}  // namespace mbench::nn
