#include "engine/nn/moe/shared_moments.h"

#include <utility>

#include "engine/ops/add.h"
#include "engine/ops/run.h"

namespace mbench::nn {

SharedForward::SharedForward(Context& c, const MicroBatch& batch, const SharedExpert* expert,
                             SharedExpert::Saved& saved, Tensor x)
    : context_(c), batch_(batch), expert_(expert), saved_(saved), x_(expert ? std::move(x) : Tensor()) {}

void SharedForward::before_router() {
  if (is(SharedExperts::in_turn)) output_ = expert_->forward(context_, batch_, std::exchange(x_, Tensor()), saved_);
}

void SharedForward::before_preprocess() {
  if (!is(SharedExperts::in_parts)) return;
  beside_.emplace(context_, [this] {
    expert_->start(context_, x_, saved_, passing_);
    x_.reset();
    expert_->first(context_, saved_, passing_);
  });
}

// Its input travels while rows are made of tokens, unless those travelled already, or rows are made in a captured graph.
void SharedForward::before_dispatch() {
  if (is(SharedExperts::in_parts) && !context_.plan.captured.has(CapturedPart::moe_preprocess))
    expert_->start(context_, x_, saved_, passing_);
}

void SharedForward::while_dispatched() {
  if (is(SharedExperts::while_dispatched))
    output_ = expert_->forward(context_, batch_, std::exchange(x_, Tensor()), saved_);
}

void SharedForward::dispatched() {
  if (beside_) beside_->end();
  beside_.reset();
}

void SharedForward::before_combine() {
  if (is(SharedExperts::in_parts))
    beside_.emplace(context_, [this] { expert_->second(context_, saved_, passing_); });
  else if (is(SharedExperts::while_combined))
    beside_.emplace(context_,
                    [this] { output_ = expert_->forward(context_, batch_, std::exchange(x_, Tensor()), saved_); });
}

void SharedForward::combined() {
  if (!beside_) return;
  beside_->end();
  beside_.reset();
  if (is(SharedExperts::in_parts)) output_ = expert_->finish(context_, saved_, passing_);
}

void SharedForward::add_to(const Tensor& y) {
  if (expert_) run(context_.device, ops::Add{y, std::exchange(output_, Tensor()), y});
}

SharedBackward::SharedBackward(Context& c, const MicroBatch& batch, const SharedExpert* expert,
                               SharedExpert::Saved& saved, Tensor dy)
    : context_(c), batch_(batch), expert_(expert), saved_(saved), dy_(expert ? std::move(dy) : Tensor()) {}

void SharedBackward::whole() {
  dx_ = expert_->backward(context_, batch_, std::exchange(dy_, Tensor()), saved_);
}

void SharedBackward::before_combine() {
  if (is(SharedExperts::while_combined)) whole();
  if (!is(SharedExperts::in_parts)) return;
  expert_->start_backward(context_, std::exchange(dy_, Tensor()), saved_, passing_);
  beside_.emplace(context_, [this] { expert_->second_backward(context_, saved_, passing_); });
}

void SharedBackward::while_combined() {
  if (is(SharedExperts::while_dispatched)) whole();
}

void SharedBackward::combined() {
  if (beside_) beside_->end();
  beside_.reset();
}

void SharedBackward::before_dispatch() {
  if (is(SharedExperts::in_parts))
    beside_.emplace(context_, [this] { expert_->first_backward(context_, saved_, passing_); });
}

void SharedBackward::dispatched() {
  if (beside_) beside_->end();
  beside_.reset();
}

void SharedBackward::captured(const CapturedPiece& piece) {
  if (is(SharedExperts::in_turn)) dy_ = piece.own_input(context_, true, std::exchange(dy_, Tensor()));
}

void SharedBackward::after_router() {
  if (is(SharedExperts::in_turn)) whole();
}

void SharedBackward::add_to(const Tensor& dx) {
  if (is(SharedExperts::in_parts)) dx_ = expert_->finish_backward(context_, saved_, passing_);
  if (expert_) run(context_.device, ops::Add{dx, std::exchange(dx_, Tensor()), dx});
}

}  // namespace mbench::nn
