// How tokens get to the ranks of their experts and the outputs back, in the words of Megatron-Core: dispatch and combine, each with its
// backward. Moe calls them in that order and knows no more of it.
//
// - AllToAll (all_to_all.h): rows go to the ranks of their experts, and back.
// - AllGather (all_gather.h): all ranks get all tokens, and their sums are reduce-scattered.
// - Flex (flex.h): a token goes once to each rank that has any of its experts.
//
// A further one is a class like these, in a file of its own, and a case in make_dispatcher().
#pragma once
#include <memory>

#include "engine/nn/moe/permutation.h"
#include "engine/nn/moe/router.h"
#include "engine/nn/moe/row_exchange.h"
#include "engine/nn/runtime/communicate.h"

namespace mbench::nn {

// Rows for the experts here: in flight, and overlapped with what is enqueued, until finish().
struct RowsInFlight {
  struct Rows {
    Tensor x;        // [rows, width], the rows of an expert one after the other, experts in order
    Tensor weights;  // [rows, 1] f32, where the framework multiplies within experts
  };
  RowExchange::InFlight x, weights;
  Context::Way own = Context::Way::forward;
  Tensor source = {};  // what the rows were made of, as far as it lives as long as this

  Rows finish() {
    Rows rows{x.finish(own), {}};
    rows.weights = weights.finish();
    return rows;
  }
};

class TokenDispatcher {
 public:
  struct Tokens {
    Tensor x;        // [seq, batch, width]
    Tensor experts;  // [seq, batch, k] i64
    Tensor weights;  // [seq, batch, k] f32
  };
  // What is kept for backward. A dispatcher may keep more.
  struct Saved {
    virtual ~Saved() = default;
    ExpertRows sizes;  // the rows of each expert here
    Permutation::Saved rows;
    Tensor dweights;  // in backward: of the tokens' weights, like their rows
  };
  struct Gradients {
    std::unique_ptr<Communication> x;  // in flight
    Tensor weights;
  };
  virtual ~TokenDispatcher() = default;

  // What a framework's host does for it in addition to its ops, at the begin of forward and of backward.
  virtual void charge_host(Context&) const {}
  // Whether what it does around sending is captured, in the router's graph.
  virtual bool captured() const { return false; }

  // Forward. preprocess() finds where this rank's tokens go. Where `load` is given, it gets how many chose each expert.
  virtual std::unique_ptr<Saved> preprocess(Context& context, const MicroBatch& batch, const Tokens& tokens,
                                            Router::Load* load) const = 0;
  // `x`: of the same tokens.
  virtual RowsInFlight dispatch(Context& context, const MicroBatch& batch, Tensor x, Saved& saved) const = 0;
  // From the rows that experts made, [seq, batch, width]: the sums of this rank's tokens.
  virtual Tensor combine(Context& context, Tensor made, Saved& saved) const = 0;

  // Backward, from the gradient of the sums. The rows that arrive are those of experts' outputs.
  virtual RowsInFlight combine_backward(Context& context, Tensor dsum, Saved& saved) const = 0;
  // From the gradients of the rows, and of their weights where these went to the experts.
  virtual Gradients dispatch_backward(Context& context, const MicroBatch& batch, Tensor drows, Tensor dweights,
                                      Saved& saved) const = 0;
};

// Hidden activations to where they are dispatched, and summed outputs back.
struct DispatchWays {
  DispatchWays(const Plan& plan, const MoeSpec& spec);
  Transition tokens, sums;
};

std::unique_ptr<TokenDispatcher> make_dispatcher(const Plan& plan, const MoeSpec& spec);

}  // namespace mbench::nn
