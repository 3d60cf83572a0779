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
  TokenDispatcher::Tokens tokens;
  route_.graph(c, router_captured_, batch, [&] { tokens.weights = router_.forward(c, batch, x, saved.router); });
  tokens.experts = saved.router.experts;
  saved.narrowed = down_.has_value();
  tokens.x = down_ ? down_->forward(c, x, saved.down) : x;
  {
    Router::Load load;
    saved.tokens = dispatcher_->preprocess(c, batch, tokens, router_.balances() ? &load : nullptr);
    if (router_.balances()) router_.count(c, load, saved.router);
  }
  RowsInFlight sent = dispatcher_->dispatch(c, batch, std::move(tokens.x), *saved.tokens);
  Tensor shared;
  if (shared_) shared = shared_->forward(c, batch, std::move(x), saved.shared);
  x.reset();
  RowsInFlight::Rows rows = sent.finish();
  Tensor made = experts_.forward(c, saved.tokens->sizes, std::move(rows.x), std::move(rows.weights), saved.experts);
  Tensor y = dispatcher_->combine(c, std::move(made), *saved.tokens);
  if (up_) y = up_->forward(c, y, saved.up);
  if (shared_) run(c.device, ops::Add{y, shared, y});
  return y;
}

Tensor Moe::backward(Context& c, const MicroBatch& batch, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  dispatcher_->charge_host(c);
  RowsInFlight sent = dispatcher_->combine_backward(c, up_ ? up_->backward(c, dy, saved.up) : dy, *saved.tokens);
  Tensor dshared, dweights;
  if (shared_) dshared = shared_->backward(c, batch, std::move(dy), saved.shared);
  dy.reset();
  Tensor drows = experts_.backward(c, saved.tokens->sizes, sent.finish().x, saved.experts, dweights);
  const TokenDispatcher::Gradients gradients =
      dispatcher_->dispatch_backward(c, batch, std::move(drows), std::move(dweights), *saved.tokens);
  const Tensor dx = route_backward(c, batch, gradients, saved);
  if (shared_) run(c.device, ops::Add{dx, dshared, dx});
  return dx;
}

// The gradient of the tokens travels while the router's backward runs, unless that is captured.
Tensor Moe::route_backward(Context& c, const MicroBatch& batch, const TokenDispatcher::Gradients& gradients,
                           Saved& saved) const {
  Tensor dx;
  const auto arrive = [&] {
    dx = gradients.x->finish();
    if (down_) dx = down_->backward(c, dx, saved.down);
  };
  if (router_captured_) {
    arrive();
    dx = route_back_.own_input(c, true, dx);
  }
  route_back_.graph(c, router_captured_, batch, [&] {
    const Tensor drouter = router_.backward(c, batch, gradients.weights, saved.router);
    if (!router_captured_) arrive();
    run(c.device, ops::Add{dx, drouter, dx});
  });
  return dx;
}

}  // namespace mbench::nn
