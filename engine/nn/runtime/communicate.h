// Carries out the exchanges that a transition resolved to.
#pragma once
#include "engine/nn/runtime/context.h"

namespace mbench::nn {

// Returns x in its new place. all_reduce works in place on x, which must be only the caller's.
Tensor communicate(Context& context, const Exchanges& exchanges, const Tensor& x);

// The same for a tensor that is read once and not kept. Where the graph has a global buffer, an all_gather that comes
// last gathers into it, and the next one overwrites it.
Tensor communicate_briefly(Context& context, const Exchanges& exchanges, const Tensor& x);

// The same, with the last exchange started; finish() waits for it and hands out the tensor. It overlaps with what is
// enqueued in between.
class Communication {
 public:
  enum class Use { keep, brief };  // as communicate(), as communicate_briefly()
  Communication(Context& context, const Exchanges& exchanges, const Tensor& x, Use use = Use::keep);
  ~Communication();
  Tensor finish();

 private:
  class Started;
  Tensor x_;                          // where there is nothing to exchange
  std::unique_ptr<Started> started_;  // the last exchange; what it reads lives until it has ended
};

}  // namespace mbench::nn
