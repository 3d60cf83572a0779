#include "engine/nn/moe/moe.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/combine.h"
#include "engine/ops/dispatch.h"
#include "engine/ops/dispatch_plan.h"
#include "engine/ops/run.h"
#include "engine/ops/scale_rows.h"
#include "engine/ops/sigmoid.h"

namespace mbench {
namespace {

using Towards = ExpertExchange::Towards;

// Rows of an expert where all have the same number, for that many dispatched tokens; 0 where they follow the data.
std::int64_t capacity_of(const RouterMode& mode, bool equal, std::int64_t tokens, std::int64_t active,
                         std::int64_t experts) {
  switch (mode.routing) {
    case Routing::balanced:
      return equal ? tokens * active / experts : 0;
    case Routing::capacity:
      return static_cast<std::int64_t>(
          std::ceil(mode.factor * static_cast<double>(tokens * active) / static_cast<double>(experts)));
    case Routing::learned:
      break;
  }
  return 0;
}

// Of the tokens that this rank dispatches.
Shape own_tokens(const Moe::Saved& saved, std::int64_t width) {
  Shape shape = saved.visits.rows.shape();
  shape[-1] = width;
  return shape;
}

}  // namespace

Moe::Moe(ParameterStore& store, const Plan& plan, const MoeSpec& spec, Regions drop)
    : experts_number_(spec.experts),
      active_(spec.active),
      mode_(plan.router),
      weighs_inputs_(spec.routing.weighted == Weighted::input),
      equal_(plan.equal_shares),
      imbalance_(std::min(plan.routing_imbalance, static_cast<double>(plan.mesh.size(Axis::ep)))),
      communication_(plan.ep_communication),
      own_(communication_ != EpCommunication::all_to_all),
      tokens_(Transition::between(plan.role(spec.expert.fc1.role).input, plan.role(spec.expert.fc1.role).consumed,
                                  plan.mesh)),
      sums_(
          Transition::between(plan.role(spec.expert.fc2.role).gemm, plan.role(spec.expert.fc2.role).output, plan.mesh)),
      counted_apart_(
          sequence_axes(own_ ? plan.hidden.value : plan.role(spec.expert.fc1.role).consumed.value, plan.mesh)),
      router_(store, plan, spec),
      experts_(store, plan, spec.expert, spec.routing.weighted, drop),
      exchange_(plan),
      router_captured_(plan.captured.has(CapturedPart::moe_router)),
      preprocess_captured_(plan.captured.has(CapturedPart::moe_preprocess) &&
                           communication_ == EpCommunication::all_to_all) {
  route_.joined = plan_.joined = permute_.joined = true;
  route_back_.joined = preprocess_captured_;
  if (communication_ == EpCommunication::flex && plan.mesh.size(Axis::ep) > 1) visits_.emplace(plan, spec);
  if (spec.shared) shared_.emplace(store, plan, *spec.shared, drop);
  if (spec.shared_gate) shared_gate_.emplace(store, plan, *spec.shared_gate);
  if (spec.down) {
    down_.emplace(store, plan, *spec.down);
    up_.emplace(store, plan, *spec.up);
  }
}

void Moe::plan_dispatch(Context& c, const MicroBatch& batch, const Tensor& experts, Saved& saved) const {
  const auto integers = [&](const Shape& shape, std::string_view what) {
    return c.device.empty(shape, DType::i64, Category::activations, what);
  };
  const std::int64_t here = own_ ? experts_.count() : experts_number_, ranks = c.plan.mesh.size(Axis::ep);
  // Those of which the experts here have their share: what a rank dispatches, or all ranks' together.
  const std::int64_t tokens = visits_ ? saved.visits.rows.shape().rows() * ranks : experts.shape().rows();
  ops::DispatchPlan plan;
  plan.experts = experts;
  plan.capacity = capacity_of(mode_, equal_, tokens, active_, experts_number_);
  plan.rows = saved.rows = visits_
                               ? RankVisits::of_received(c, experts.shape(), DType::i64, saved.visits, "rows of tokens")
                               : integers(experts.shape(), "rows of tokens");
  plan.counts = integers({here}, "tokens of experts");
  plan.offsets = integers({here + 1}, "first rows of experts");
  std::int64_t most = plan.capacity > 0 ? here * plan.capacity : experts.numel();
  // Without values experts have their share, however few tokens come.
  if (visits_ && plan.capacity == 0)
    most = std::max(most, fullest((tokens * active_ + experts_number_ - 1) / experts_number_) * here);
  plan.pairs = saved.pairs = integers({most}, "tokens of rows");
  if (own_) plan.first = c.groups.over({Axis::ep}).rank() * here;
  plan_.graph(c, preprocess_captured_, batch, [&] { run(c.device, plan); });
  saved.sizes = {plan.capacity * (own_ ? 1 : ranks), {}};
  if (plan.capacity == 0)
    read_sizes(c, plan.counts, tokens * active_, saved);
  else if (c.keeps().reads_expert_rows && mode_.routing == Routing::balanced && !c.plan.capture && !visits_)
    wait_for_sizes(c, plan.counts);
  if (!router_.balances()) return;
  const Tensor counts = own_ ? counts_of_own(c, saved) : plan.counts;
  const std::int64_t own = own_ ? saved.router.experts.shape().rows() : tokens;
  Group& together = c.groups.over(counted_apart_);
  if (together.size() > 1) together.run(comm::AllReduce{counts});
  router_.count(c, counts, own * together.size(), saved.router);
}

Tensor Moe::counts_of_own(Context& c, const Saved& saved) const {
  const auto integers = [&](const Shape& shape, std::string_view what) {
    return c.device.empty(shape, DType::i64, Category::activations, what);
  };
  ops::DispatchPlan plan;
  plan.experts = saved.router.experts;
  plan.rows = integers(plan.experts.shape(), "rows of own tokens");
  plan.pairs = integers({plan.experts.numel()}, "own tokens of rows");
  plan.offsets = integers({experts_number_ + 1}, "first rows of own tokens");
  plan.counts = integers({experts_number_}, "own tokens of experts");
  run(c.device, plan);
  return plan.counts;
}

void Moe::read_sizes(Context& c, const Tensor& counts, std::int64_t pairs, Saved& saved) const {
  const std::int64_t ranks = c.plan.mesh.size(Axis::ep), local = experts_number_ / ranks;
  const auto number = static_cast<std::size_t>(experts_number_);
  Tensor all = counts;
  if (own_ && ranks > 1) {
    all = c.device.empty({experts_number_}, DType::i64, Category::activations, "tokens of all experts");
    c.groups.over({Axis::ep}).run(comm::AllGather{counts, all});
  }
  // Without values it is as if every expert had its share, and those of this rank what the fullest rank's have, and is waited for as it
  // is for real.
  const auto read = [&](const Tensor& t, bool here, auto&& share) {
    std::vector<std::int64_t> values(number);
    if (c.device.real()) {
      c.device.read(t, std::as_writable_bytes(std::span(values)));
      return values;
    }
    c.device.read(t, 0);
    for (std::size_t i = 0; i < number; ++i) {
      const std::int64_t e = share(static_cast<std::int64_t>(i));
      values[i] = pairs * (e + 1) / experts_number_ - pairs * e / experts_number_;
      if (here) values[i] = fullest(values[i]);
    }
    return values;
  };
  const std::vector<std::int64_t> mine = read(all, own_, [](std::int64_t e) { return e; });
  if (c.device.real() && mode_.routing == Routing::learned) c.router_load.add(mine);
  if (own_ || ranks == 1) {
    const std::int64_t first = own_ ? c.groups.over({Axis::ep}).rank() * local : 0;
    saved.sizes.offsets.assign(1, 0);
    for (std::int64_t e = first; e < first + local; ++e)
      saved.sizes.offsets.push_back(saved.sizes.offsets.back() + mine[static_cast<std::size_t>(e)]);
    // Only so many of the pairs are of experts here; at least one row, though it be padding.
    saved.pairs = saved.pairs.slice(0, std::max<std::int64_t>(saved.sizes.offsets.back(), 1));
    return;
  }
  Group& peers = c.groups.over({Axis::ep});
  const Tensor theirs =
      c.device.empty({ranks, local}, DType::i64, Category::activations, "rows that come from each rank");
  peers.run(comm::AllToAll{counts.view({ranks, local}), theirs});
  std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks), 0);
  for (std::size_t e = 0; e < number; ++e) sent[e / static_cast<std::size_t>(local)] += mine[e];
  saved.way = way_of(c.device, read(theirs, true, [&](std::int64_t i) { return peers.rank() * local + i % local; }),
                     std::move(sent), saved.sizes);
}

std::int64_t Moe::fullest(std::int64_t rows) const {
  return static_cast<std::int64_t>(std::llround(imbalance_ * static_cast<double>(rows)));
}

// As read_sizes(), where all are known beforehand: what a graph that drops no token waits for, whatever the routing.
void Moe::wait_for_sizes(Context& c, const Tensor& counts) const {
  Tensor rows = counts;
  if (Group& peers = c.groups.over({Axis::ep}); peers.size() > 1 && !own_) {
    rows = c.device.empty(counts.shape(), DType::i64, Category::activations, "rows that come from each rank");
    peers.run(comm::AllToAll{counts, rows});
  }
  if (!c.device.real()) {
    c.device.read(rows, 0);
    return;
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(rows.numel()));
  c.device.read(rows, std::as_writable_bytes(std::span(values)));
}

Tensor Moe::visitors(Context& c, const Tensor& x, Tensor& experts, Saved& saved) const {
  visits_->plan(c, experts, saved.visits);
  RankVisits::Tokens tokens = visits_->to_ranks(c, x, experts, saved.weights, saved.visits);
  experts = std::move(tokens.experts), saved.weights = std::move(tokens.weights);
  return std::move(tokens.x);
}

Tensor Moe::for_tokens(Context& c, const Shape& whole, const Saved& saved, std::string_view what) const {
  if (!visits_) return c.activation(whole, what);
  return RankVisits::of_received(c, whole, c.dtype(), saved.visits, what);
}

Tensor Moe::weights_of_rows(Context& c, Saved& saved) const {
  const Tensor weights = std::exchange(saved.weights, Tensor());
  const Tensor rows = c.device.empty({saved.pairs.numel(), 1}, DType::f32, Category::activations, "weights of rows");
  run(c.device, ops::Dispatch{weights.view({weights.numel(), 1}), saved.pairs, 1, rows});
  return rows;
}

bool Moe::weights_go(const Context& c) const {
  return c.keeps().weights_within_experts || weighs_inputs_;
}

void Moe::charge_sending(Context& c) const {
  if (communication_ != EpCommunication::all_gather) c.device.host_work(HostWork::moe);
}

void Moe::make_token_map(Context& c, bool backward) const {
  if (!visits_ || !c.keeps().reads_token_map || c.plan.capture) return;
  constexpr int kCalls[] = {7, 6}, kWaits[] = {3, 1};
  c.device.host_work(HostWork::call, kCalls[backward]);
  for (int i = 0; i < kWaits[backward]; ++i) c.device.synchronize();
}

Tensor Moe::shared_forward(Context& c, const MicroBatch& batch, Tensor x, Saved& saved) const {
  if (!shared_gate_) return shared_->forward(c, batch, std::move(x), saved.shared);
  saved.gated = true;
  {
    const Tensor logits = shared_gate_->forward(c, x, saved.shared_gate);
    saved.gate = c.device.empty(logits.shape(), DType::f32, Category::activations, "gate of the shared expert");
    run(c.device, ops::Sigmoid{logits, saved.gate});
  }
  saved.shared_output = shared_->forward(c, batch, std::move(x), saved.shared);
  if (const Tensor bias = shared_->bias()) run(c.device, ops::BiasAdd{saved.shared_output, bias, saved.shared_output});
  const Tensor y = c.activation(saved.shared_output.shape(), "gated output of the shared expert");
  run(c.device, ops::ScaleRows{saved.shared_output, saved.gate, y});
  return y;
}

Tensor Moe::shared_backward(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved) const {
  if (!shared_gate_) return shared_->backward(c, batch, std::move(dy), saved.shared);
  const Tensor dgate = c.device.empty(saved.gate.shape(), DType::f32, Category::activations,
                                      "gradient of the shared expert's gate"),
               dlogits = c.activation(saved.gate.shape(), "gradient of the gate's logits"),
               doutput = c.activation(dy.shape(), "gradient of the shared expert's output");
  run(c.device, ops::ScaleRowsGrad{dy, std::exchange(saved.shared_output, Tensor()), saved.gate, doutput, dgate});
  dy.reset();
  run(c.device, ops::SigmoidGrad{dgate, std::exchange(saved.gate, Tensor()), dlogits});
  const Tensor dx = shared_->backward(c, batch, doutput, saved.shared);
  run(c.device, ops::Add{dx, shared_gate_->backward(c, dlogits, saved.shared_gate), dx});
  return dx;
}

Tensor Moe::forward(Context& c, const MicroBatch& batch, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  charge_sending(c);
  Tensor own_weights;
  route_.graph(c, router_captured_, batch, [&] { own_weights = router_.forward(c, batch, x, saved.router); });
  saved.narrowed = down_.has_value();
  Tensor narrow = down_ ? down_->forward(c, x, saved.down) : x;
  saved.weights = communicate(c, tokens_.forward, own_weights);
  Tensor experts = communicate(c, tokens_.forward, saved.router.experts), visiting;
  if (visits_) visiting = visitors(c, communicate_briefly(c, tokens_.forward, narrow), experts, saved);
  make_token_map(c, false);
  plan_dispatch(c, batch, experts, saved);
  experts.reset();
  Tensor rows;
  Shape whole;
  {
    const Tensor tokens = visits_ ? std::exchange(visiting, Tensor()) : communicate_briefly(c, tokens_.forward, narrow);
    whole = tokens.shape();
    permute_.graph(c, preprocess_captured_, batch, [&] {
      rows = c.activation({saved.pairs.numel(), whole[2]}, "dispatched tokens");
      run(c.device, ops::Dispatch{tokens, saved.pairs, active_, rows});
    });
  }
  narrow.reset();
  auto travelling = exchange_.send(c, std::move(rows), experts_.count(), saved.way, Towards::experts);
  ExpertExchange::Travelling weights;
  const bool within = weights_go(c);
  if (within) weights = exchange_.send(c, weights_of_rows(c, saved), experts_.count(), saved.way, Towards::experts);
  Tensor shared;
  if (shared_) shared = shared_forward(c, batch, std::move(x), saved);
  x.reset();
  if (!visits_) c.travel(Context::Way::forward);
  Tensor arrived = travelling.finish();
  Tensor made =
      experts_.forward(c, saved.sizes, std::move(arrived), within ? weights.finish() : Tensor(), saved.experts);
  travelling = exchange_.send(c, std::move(made), experts_.count(), saved.way, Towards::tokens);
  if (!visits_) c.travel(Context::Way::forward);
  Tensor output = travelling.finish();
  Tensor sum = for_tokens(c, whole, saved, "combined outputs of experts");
  if (within) {
    run(c.device, ops::DispatchGrad{output, saved.rows, sum});
  } else {
    run(c.device, ops::Combine{output, saved.rows, saved.weights, sum});
    saved.output = output;
  }
  output.reset();
  if (visits_) {
    std::vector<Tensor> made;
    made.push_back(std::exchange(sum, Tensor()));
    sum = visits_->back(c, std::move(made), {own_tokens(saved, whole[2])}, saved.visits, Context::Way::forward).front();
  }
  Tensor y = communicate(c, sums_.forward, sum);
  if (up_) y = up_->forward(c, y, saved.up);
  if (shared_) run(c.device, ops::Add{y, shared, y});
  return y;
}

Tensor Moe::backward(Context& c, const MicroBatch& batch, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  charge_sending(c);
  Tensor dsum = communicate(c, sums_.backward, up_ ? up_->backward(c, dy, saved.up) : dy);
  if (visits_) dsum = visits_->to_ranks(c, dsum, saved.visits);
  const Shape whole = dsum.shape();
  const bool within = weights_go(c);
  Tensor dweights =
      visits_ ? RankVisits::of_received(c, saved.rows.shape(), DType::f32, saved.visits, "gradient of weights")
              : c.device.empty(saved.rows.shape(), DType::f32, Category::activations, "gradient of weights");
  Tensor doutput;
  if (within) {
    doutput = c.activation({saved.pairs.numel(), whole[2]}, "gradient of experts' outputs");
    run(c.device, ops::Dispatch{dsum, saved.pairs, active_, doutput});
  } else {
    doutput = std::exchange(saved.output, Tensor());
    run(c.device, ops::CombineGrad{dsum, doutput, saved.rows, saved.weights, saved.pairs, doutput, dweights});
  }
  saved.weights.reset();
  saved.pairs.reset();
  if (visits_) dsum.reset();
  auto travelling = exchange_.send(c, std::move(doutput), experts_.count(), saved.way, Towards::experts);
  Tensor dshared;
  if (shared_) dshared = shared_backward(c, batch, std::move(dy), saved);
  dy.reset();
  if (!visits_) c.travel(Context::Way::backward);
  Tensor dweights_of_rows;
  Tensor drows = experts_.backward(c, saved.sizes, travelling.finish(), saved.experts, dweights_of_rows);
  travelling = exchange_.send(c, std::move(drows), experts_.count(), saved.way, Towards::tokens);
  ExpertExchange::Travelling of_weights;
  if (within && c.fiber)
    of_weights = exchange_.send(c, std::move(dweights_of_rows), experts_.count(), saved.way, Towards::tokens);
  if (!visits_) c.travel(Context::Way::backward);
  drows = travelling.finish();
  if (within) {
    if (!c.fiber)
      of_weights = exchange_.send(c, std::move(dweights_of_rows), experts_.count(), saved.way, Towards::tokens);
    const Tensor back = of_weights.finish();
    const Shape pairs{dweights.numel(), 1};
    run(c.device, ops::DispatchGrad{back, saved.rows.view(pairs), dweights.view(pairs)});
  }
  Tensor dx;
  permute_back_.run(c, preprocess_captured_, batch, drows, [&](const Tensor& in) {
    dx = for_tokens(c, whole, saved, "gradient of dispatched tokens");
    run(c.device, ops::DispatchGrad{in, saved.rows, dx});
  });
  make_token_map(c, true);
  drows.reset();
  saved.rows.reset();
  if (visits_) {
    std::vector<Tensor> made;
    made.push_back(std::exchange(dx, Tensor()));
    made.push_back(std::exchange(dweights, Tensor()));
    std::vector<Tensor> sums =
        visits_->back(c, std::move(made), {own_tokens(saved, whole[2]), saved.visits.rows.shape()}, saved.visits,
                      Context::Way::backward);
    dx = std::move(sums[0]), dweights = std::move(sums[1]);
    saved.visits = {};
  }
  Communication tokens(c, tokens_.backward, dx);
  dx.reset();
  dweights = communicate(c, tokens_.backward, dweights);
  const auto arrive = [&] {
    dx = tokens.finish();
    if (down_) dx = down_->backward(c, dx, saved.down);
  };
  if (router_captured_) {
    arrive();
    dx = route_back_.own_input(c, true, dx);
  }
  route_back_.graph(c, router_captured_, batch, [&] {
    const Tensor drouter = router_.backward(c, batch, dweights, saved.router);
    if (!router_captured_) arrive();
    run(c.device, ops::Add{dx, drouter, dx});
  });
  if (shared_) run(c.device, ops::Add{dx, dshared, dx});
  return dx;
}

}  // namespace mbench
