#include "engine/nn/moe/all_to_all.h"

#include <utility>

#include "engine/ops/run.h"

namespace mbench::nn {

using Towards = RowExchange::Towards;

AllToAll::AllToAll(const Plan& plan, const MoeSpec& spec)
    : shares_(plan, spec),
      permutation_(plan, spec),
      ways_(plan, spec),
      counted_along_(sequence_axes(plan.role(spec.expert.fc1.role).consumed.value, plan.mesh)),
      exchange_(shares_.ranks(), shares_.here()),
      captured_(plan.captured.has(CapturedPart::moe_preprocess)) {
  plan_.joined = permute_.joined = true;
}

std::unique_ptr<TokenDispatcher::Saved> AllToAll::preprocess(Context& c, const MicroBatch& batch, const Tokens& own,
                                                             Router::Load* load) const {
  auto saved = std::make_unique<Saved>();
  saved->rows.weights = communicate(c, ways_.tokens.forward, own.weights);
  const Tensor experts = communicate(c, ways_.tokens.forward, own.experts);
  const std::int64_t tokens = experts.shape().rows(), capacity = shares_.capacity(tokens);
  const Tensor rows = c.device.empty(experts.shape(), DType::i64, Category::activations, "rows of tokens");
  const ops::DispatchPlan plan =
      permutation_.plan(c, experts, rows, shares_.experts(), capacity,
                        capacity > 0 ? shares_.experts() * capacity : experts.numel(), saved->rows);
  plan_.graph(c, captured_, batch, [&] { run(c.device, plan); });
  saved->sizes.each = capacity * shares_.ranks();
  if (capacity == 0)
    read_sizes(c, plan.counts, tokens * shares_.active(), *saved);
  else if (shares_.waits(c))
    ExpertShares::wait(c, shares_.ranks() > 1 ? exchanged(c, plan.counts, plan.counts.shape()) : plan.counts);
  // The host has waited for how many rows each rank gets, and the device has nothing to do until it is asked to send them.
  c.device.host_work(HostWork::all_to_all);
  saved->sizes.deviation = shares_.deviation(c, saved->sizes);
  saved->sizes.fullest = saved->way.fullest = shares_.fullest_drawn(c, static_cast<double>(tokens * shares_.active()));
  if (load) *load = {plan.counts, tokens, counted_along_};
  return saved;
}

Tensor AllToAll::exchanged(Context& c, const Tensor& counts, const Shape& shape) const {
  const Tensor theirs = c.device.empty(shape, DType::i64, Category::activations, "rows that come from each rank");
  c.groups.over({Axis::ep}).run(comm::AllToAll{counts.view(shape), theirs});
  return theirs;
}

void AllToAll::read_sizes(Context& c, const Tensor& counts, std::int64_t pairs, Saved& saved) const {
  const std::int64_t ranks = shares_.ranks(), here = shares_.here();
  const std::vector<std::int64_t> mine =
      shares_.read(c, counts, pairs, false, [](std::int64_t expert) { return expert; });
  shares_.note_load(c, mine);
  if (ranks == 1) {
    saved.sizes.offsets = offsets_of(mine, 0, here);
    return cut_to(saved.sizes, saved.rows);
  }
  const std::int64_t rank = c.groups.over({Axis::ep}).rank();
  const Tensor theirs = exchanged(c, counts, {ranks, here});
  std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks), 0);
  for (std::size_t e = 0; e < mine.size(); ++e) sent[e / static_cast<std::size_t>(here)] += mine[e];
  saved.way =
      way_of(c.device, shares_.read(c, theirs, pairs, true, [&](std::int64_t i) { return rank * here + i % here; }),
             std::move(sent), saved.sizes);
  if (!c.device.real()) send_to_itself(saved.way.sent, rank, saved.way.received[static_cast<std::size_t>(rank)]);
}

RowsInFlight AllToAll::dispatch(Context& c, const MicroBatch& batch, Tensor x, TokenDispatcher::Saved& kept) const {
  auto& saved = static_cast<Saved&>(kept);
  Tensor rows;
  {
    const Tensor tokens = communicate_briefly(c, ways_.tokens.forward, x);
    saved.rows.tokens = tokens.shape();
    permute_.graph(c, captured_, batch, [&] { rows = permutation_.permute(c, tokens, saved.rows); });
  }
  x.reset();
  RowsInFlight sent{exchange_.send(c, std::move(rows), saved.way, Towards::experts), {}, Context::Way::forward};
  if (permutation_.weights_go())
    sent.weights = exchange_.send(c, permutation_.permute_weights(c, saved.rows), saved.way, Towards::experts);
  return sent;
}

Tensor AllToAll::combine(Context& c, Tensor made, TokenDispatcher::Saved& kept) const {
  auto& saved = static_cast<Saved&>(kept);
  Tensor back = exchange_.send(c, std::move(made), saved.way, Towards::tokens).finish(Context::Way::forward);
  const Tensor sum = c.activation(saved.rows.tokens, "combined outputs of experts");
  permutation_.unpermute(c, std::move(back), sum, saved.rows);
  return communicate(c, ways_.sums.forward, sum);
}

RowsInFlight AllToAll::combine_backward(Context& c, Tensor dsum, TokenDispatcher::Saved& kept) const {
  auto& saved = static_cast<Saved&>(kept);
  c.device.host_work(HostWork::all_to_all);
  RowsInFlight sent{{}, {}, Context::Way::backward, communicate(c, ways_.sums.backward, dsum)};
  dsum.reset();
  saved.rows.tokens = sent.source.shape();
  saved.dweights = c.device.empty(saved.rows.rows.shape(), DType::f32, Category::activations, "gradient of weights");
  Tensor made = permutation_.unpermute_backward(c, sent.source, saved.dweights, saved.rows);
  sent.x = exchange_.send(c, std::move(made), saved.way, Towards::experts);
  return sent;
}

TokenDispatcher::Gradients AllToAll::dispatch_backward(Context& c, const MicroBatch& batch, Tensor drows,
                                                       Tensor dweights_of_rows, TokenDispatcher::Saved& kept) const {
  auto& saved = static_cast<Saved&>(kept);
  const bool within = permutation_.weights_go();
  const auto send_weights = [&] { return exchange_.send(c, std::move(dweights_of_rows), saved.way, Towards::tokens); };
  RowExchange::InFlight rows = exchange_.send(c, std::move(drows), saved.way, Towards::tokens), weights;
  // While another micro batch or the shared expert goes on, both travel.
  const bool beside = c.fiber || c.beside;
  if (within && beside) weights = send_weights();
  Tensor back = rows.finish(Context::Way::backward);
  if (within) {
    if (!beside) weights = send_weights();
    permutation_.permute_weights_backward(c, weights.finish(), saved.dweights, saved.rows);
  }
  Tensor dx;
  permute_back_.run(c, captured_, batch, back, [&](const Tensor& in) {
    dx = c.activation(saved.rows.tokens, "gradient of dispatched tokens");
    permutation_.permute_backward(c, in, dx, saved.rows);
  });
  back.reset();
  saved.rows.rows.reset();
  Gradients made{std::make_unique<Communication>(c, ways_.tokens.backward, dx), {}};
  dx.reset();
  made.weights = communicate(c, ways_.tokens.backward, std::exchange(saved.dweights, Tensor()));
  return made;
}

}  // namespace mbench::nn
