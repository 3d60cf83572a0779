// The expert that sees all tokens. Where the model says so, a gate of its own scales its output by a number for each token.
// It runs whole, or in parts (SharedExperts::in_parts), between which tokens travel.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/layers/mlp.h"
#include "engine/nn/layers/plan_inside.h"
#include "engine/nn/runtime/communicate.h"

namespace mbench::nn {

class SharedExpert {
 public:
  struct Saved {
    std::unique_ptr<Mixer::Saved> mlp;
    Linear::Saved gate_linear;
    Tensor gate, output;  // f32 of each token, and the output that it multiplies
    bool gated = false;
    bool gathered = false;  // the input that `mlp` keeps is gathered: no tensor of the MoE's
    void add_inputs(std::vector<Tensor*>& all);
  };
  // What passes between the parts of a forward or a backward.
  struct Passing {
    bool started = false;
    std::unique_ptr<Communication> travelling;  // over tp
    Tensor between;                             // of fc1 and fc2, or its gradient
    Tensor dlogits;                             // of the gate
  };
  SharedExpert(ParameterStore& store, const Plan& plan, const MoeSpec& spec, Regions drop);
  // The bias that is left to add: where a gate multiplies it too, forward adds it.
  Tensor bias() const { return gate_ ? Tensor() : mlp_.bias(); }
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x, Saved& saved) const;
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy, Saved& saved) const;

  // A forward in parts: start(), which does nothing the second time, first(), second(), finish(). Over tp x begins to travel in the first
  // of them, and the output's sum in the third.
  void start(Context& context, const Tensor& x, Saved& saved, Passing& passing) const;
  void first(Context& context, Saved& saved, Passing& passing) const;
  void second(Context& context, Saved& saved, Passing& passing) const;
  Tensor finish(Context& context, Saved& saved, Passing& passing) const;
  // A backward in parts, in that order.
  void start_backward(Context& context, Tensor dy, Saved& saved, Passing& passing) const;
  void second_backward(Context& context, Saved& saved, Passing& passing) const;
  void first_backward(Context& context, Saved& saved, Passing& passing) const;
  Tensor finish_backward(Context& context, Saved& saved, Passing& passing) const;

 private:
  // The gate, of x; the output times it; and their gradients.
  void open(Context& context, const Tensor& x, Saved& saved) const;
  Tensor scaled(Context& context, Tensor output, Saved& saved) const;
  Tensor scaled_backward(Context& context, Tensor dy, Saved& saved, Tensor& dlogits) const;
  void open_backward(Context& context, Tensor dlogits, const Tensor& dx, Saved& saved) const;

  std::unique_ptr<Plan> inside_;  // in parts: of `mlp_`, which exchanges nothing itself
  ExchangesOutside outside_;
  Mlp mlp_;
  std::optional<Linear> gate_;
};

}  // namespace mbench::nn
