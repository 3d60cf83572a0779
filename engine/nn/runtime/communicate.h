// Carries out the exchanges that a transition resolved to.
#pragma once
#include "engine/nn/runtime/context.h"

namespace mbench::nn {

// Returns x in its new place. all_reduce works in place on x, which must be only the caller's.
Tensor communicate(Context& context, const Exchanges& exchanges, const Tensor& x);

// The same in two steps, for several GEMMs that read what one exchange brings. Its last is an all_gather along the sequence. First what
// arrives, then for each GEMM a tensor in the order that it reads: the same, unless the framework copies.
Tensor communicate_for_each(Context& context, const Exchanges& exchanges, const Tensor& x);
Tensor in_order(Context& context, const Exchanges& exchanges, const Tensor& arrived);

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
