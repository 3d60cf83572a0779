#include "engine/nn/moe/moe.h"

#include <utility>

#include "engine/ops/add.h"
#include "engine/ops/run.h"

namespace mbench::nn {

std::vector<Tensor*> Moe::Saved::inputs() {
  std::vector<Tensor*> all = {&router.linear.x};
  if (narrowed) all.push_back(&down.x);
  shared.add_inputs(all);
  return all;
}

Moe::Moe(ParameterStore& store, const Plan& plan, const MoeSpec& spec, Regions drop)
    : router_(store, plan, spec),
      experts_(store, plan, spec.expert, spec.routing.weighted, drop),
      dispatcher_(make_dispatcher(plan, spec)),
      router_captured_(plan.captured.has(CapturedPart::moe_router)) {
  route_.joined = true;
  route_back_.joined = dispatcher_->captured();
  if (spec.shared) shared_.emplace(store, plan, spec, drop);
  if (!spec.down) return;
  down_.emplace(store, plan, *spec.down);
  up_.emplace(store, plan, *spec.up);
}

Tensor Moe::forward(Context& c, const MicroBatch& batch, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  dispatcher_->charge_host(c);
  SharedForward shared(c, batch, this->shared(), saved.shared, x);
  TokenDispatcher::Tokens tokens;
  route_.graph(c, router_captured_, batch, [&] {
    shared.before_router();
    tokens.weights = router_.forward(c, batch, x, saved.router);
  });
  tokens.experts = saved.router.experts;
  saved.narrowed = down_.has_value();
  tokens.x = down_ ? down_->forward(c, x, saved.down) : x;
  shared.before_preprocess();
  {
    Router::Load load;
    saved.tokens = dispatcher_->preprocess(c, batch, tokens, router_.balances() ? &load : nullptr);
    if (router_.balances()) router_.count(c, load, saved.router);
  }
  shared.before_dispatch();
  RowsInFlight sent = dispatcher_->dispatch(c, batch, std::move(tokens.x), *saved.tokens);
  shared.while_dispatched();
  x.reset();
  RowsInFlight::Rows rows = sent.finish();
  shared.dispatched();
  Tensor made = experts_.forward(c, saved.tokens->sizes, std::move(rows.x), std::move(rows.weights), saved.experts);
  shared.before_combine();
  Tensor y = dispatcher_->combine(c, std::move(made), *saved.tokens);
  shared.combined();
  if (up_) y = up_->forward(c, y, saved.up);
  shared.add_to(y);
  return y;
}

Tensor Moe::backward(Context& c, const MicroBatch& batch, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  dispatcher_->charge_host(c);
  SharedBackward shared(c, batch, this->shared(), saved.shared, dy);
  shared.before_combine();
  RowsInFlight sent = dispatcher_->combine_backward(c, up_ ? up_->backward(c, dy, saved.up) : dy, *saved.tokens);
  shared.while_combined();
  dy.reset();
  Tensor dweights, arrived = sent.finish().x;
  shared.combined();
  Tensor drows = experts_.backward(c, saved.tokens->sizes, std::move(arrived), saved.experts, dweights);
  shared.before_dispatch();
  const TokenDispatcher::Gradients gradients =
      dispatcher_->dispatch_backward(c, batch, std::move(drows), std::move(dweights), *saved.tokens);
  shared.dispatched();
  const Tensor dx = route_backward(c, batch, gradients, saved, shared);
  shared.add_to(dx);
  return dx;
}

// The gradient of the tokens travels while the router's backward runs, unless that is captured.
Tensor Moe::route_backward(Context& c, const MicroBatch& batch, const TokenDispatcher::Gradients& gradients,
                           Saved& saved, SharedBackward& shared) const {
  Tensor dx;
  const auto arrive = [&] {
    dx = gradients.x->finish();
    if (down_) dx = down_->backward(c, dx, saved.down);
  };
  if (router_captured_) {
    arrive();
    dx = route_back_.own_input(c, true, dx);
    shared.captured(route_back_);
  }
  route_back_.graph(c, router_captured_, batch, [&] {
    const Tensor drouter = router_.backward(c, batch, gradients.weights, saved.router);
    if (!router_captured_) arrive();
    run(c.device, ops::Add{dx, drouter, dx});
    shared.after_router();
  });
  return dx;
}

}  // namespace mbench::nn
