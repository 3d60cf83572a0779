// When the shared expert computes within a forward or a backward of its MoE (Keeps::shared_experts). The MoE calls all functions in
// the order in which they stand here; each does what is due then, or nothing. Without a shared expert none does anything.
#pragma once
#include <optional>

#include "engine/nn/moe/shared_expert.h"
#include "engine/nn/runtime/captured.h"

namespace mbench::nn {

class SharedForward {
 public:
  // `expert`: null if there is none.
  SharedForward(Context& context, const MicroBatch& batch, const SharedExpert* expert, SharedExpert::Saved& saved,
                Tensor x);
  void before_router();
  void before_preprocess();  // a dispatcher may send tokens already there
  void before_dispatch();
  void while_dispatched();
  void dispatched();
  void before_combine();
  void combined();
  void add_to(const Tensor& y);

 private:
  bool is(SharedExperts when) const { return expert_ && context_.keeps().shared_experts == when; }

  Context& context_;
  const MicroBatch& batch_;
  const SharedExpert* expert_;
  SharedExpert::Saved& saved_;
  Tensor x_, output_;
  SharedExpert::Passing passing_;
  std::optional<BesideTokens> beside_;
};

class SharedBackward {
 public:
  // `dy`: of the MoE's output.
  SharedBackward(Context& context, const MicroBatch& batch, const SharedExpert* expert, SharedExpert::Saved& saved,
                 Tensor dy);
  void before_combine();
  void while_combined();
  void combined();
  void before_dispatch();
  void dispatched();
  // Where the router's backward is `piece`, captured: dy as that reads it.
  void captured(const CapturedPiece& piece);
  void after_router();
  void add_to(const Tensor& dx);

 private:
  bool is(SharedExperts when) const { return expert_ && context_.keeps().shared_experts == when; }
  void whole();

  Context& context_;
  const MicroBatch& batch_;
  const SharedExpert* expert_;
  SharedExpert::Saved& saved_;
  Tensor dy_, dx_;
  SharedExpert::Passing passing_;
  std::optional<BesideTokens> beside_;
};

}  // namespace mbench::nn
