#include "engine/nn/moe/flex.h"

#include <algorithm>
#include <utility>

namespace mbench::nn {

Flex::Flex(const Plan& plan, const MoeSpec& spec) : own_(plan, spec), visits_(plan, spec), ways_(plan, spec) {}

void Flex::make_token_map(Context& c, Pass pass) const {
  if (!c.keeps().reads_token_map || c.plan.capture) return;
  const bool forward = pass == Pass::forward;
  c.device.host_work(HostWork::call, forward ? 7 : 6);
  for (int i = 0; i < (forward ? 3 : 1); ++i) c.device.synchronize();
}

Shape Flex::own_tokens(const Saved& saved, std::int64_t width) {
  Shape shape = saved.visits.rows.shape();
  shape[-1] = width;
  return shape;
}

std::unique_ptr<TokenDispatcher::Saved> Flex::preprocess(Context& c, const MicroBatch&, const Tokens& own,
                                                         Router::Load* load) const {
  auto saved = std::make_unique<Saved>();
  RankWay& visits = saved->visits;
  Tensor& weights = saved->rows.weights = communicate(c, ways_.tokens.forward, own.weights);
  Tensor experts = communicate(c, ways_.tokens.forward, own.experts);
  {
    const Tensor x = communicate_briefly(c, ways_.tokens.forward, own.x);
    visits_.plan(c, experts, visits);
    const double all = static_cast<double>(experts.shape().rows() * own_.shares().ranks());
    visits.fullest =
        visits.drawn * own_.shares().fullest_visited(c, all, visits.drawn * static_cast<double>(visits.received));
    RankVisits::Tokens arrived = visits_.to_ranks(c, x, experts, weights, visits);
    experts = std::move(arrived.experts), weights = std::move(arrived.weights), saved->visitors = std::move(arrived.x);
  }
  make_token_map(c, Pass::forward);
  const ExpertShares& shares = own_.shares();
  const std::int64_t tokens = visits.rows.shape().rows() * shares.ranks();
  // Without values experts have their share, however few tokens come.
  const std::int64_t share = (tokens * shares.active() + shares.experts() - 1) / shares.experts();
  std::int64_t most = shares.fullest(share) * shares.here();
  if (c.expert_room() > 0) most = std::max(most, visits.room * shares.active());
  const Tensor rows = RankVisits::of_received(c, experts.shape(), DType::i64, visits, "rows of tokens");
  own_.plan(c, experts, rows, tokens, most, false, *saved);
  if (load) *load = own_.load(c, own.experts);
  return saved;
}

RowsInFlight Flex::dispatch(Context& c, const MicroBatch&, Tensor x, TokenDispatcher::Saved& kept) const {
  auto& saved = static_cast<Saved&>(kept);
  RowsInFlight rows = own_.dispatch(c, std::exchange(saved.visitors, Tensor()), saved);
  x.reset();
  return rows;
}

Tensor Flex::combine(Context& c, Tensor made, TokenDispatcher::Saved& kept) const {
  auto& saved = static_cast<Saved&>(kept);
  const Shape& tokens = saved.rows.tokens;
  std::vector<Tensor> sums;
  sums.push_back(RankVisits::of_received(c, tokens, c.dtype(), saved.visits, "combined outputs of experts"));
  {
    const FullestRank fullest(c.device, saved.sizes.fullest);
    own_.permutation().unpermute(c, std::move(made), sums[0], saved.rows);
  }
  sums = visits_.back(c, std::move(sums), {own_tokens(saved, tokens[-1])}, saved.visits, Context::Way::forward);
  return communicate(c, ways_.sums.forward, sums[0]);
}

RowsInFlight Flex::combine_backward(Context& c, Tensor dsum, TokenDispatcher::Saved& kept) const {
  auto& saved = static_cast<Saved&>(kept);
  dsum = communicate(c, ways_.sums.backward, dsum);
  dsum = visits_.to_ranks(c, dsum, saved.visits);
  saved.rows.tokens = dsum.shape();
  saved.dweights = RankVisits::of_received(c, saved.rows.rows.shape(), DType::f32, saved.visits, "gradient of weights");
  const FullestRank fullest(c.device, saved.sizes.fullest);
  return {RowExchange::InFlight(own_.permutation().unpermute_backward(c, dsum, saved.dweights, saved.rows)), {}};
}

TokenDispatcher::Gradients Flex::dispatch_backward(Context& c, const MicroBatch&, Tensor drows, Tensor dweights_of_rows,
                                                   TokenDispatcher::Saved& kept) const {
  auto& saved = static_cast<Saved&>(kept);
  const Shape& tokens = saved.rows.tokens;
  own_.weights_backward(c, dweights_of_rows, saved);
  std::vector<Tensor> made;
  made.push_back(RankVisits::of_received(c, tokens, c.dtype(), saved.visits, "gradient of dispatched tokens"));
  {
    const FullestRank fullest(c.device, saved.sizes.fullest);
    own_.permutation().permute_backward(c, drows, made[0], saved.rows);
  }
  make_token_map(c, Pass::backward);
  drows.reset();
  saved.rows.rows.reset();
  made.push_back(std::exchange(saved.dweights, Tensor()));
  std::vector<Tensor> sums =
      visits_.back(c, std::move(made), {own_tokens(saved, tokens[-1]), saved.visits.rows.shape()}, saved.visits,
                   Context::Way::backward);
  saved.visits = {};
  Gradients gradients{std::make_unique<Communication>(c, ways_.tokens.backward, sums[0]), {}};
  sums[0].reset();
  gradients.weights = communicate(c, ways_.tokens.backward, sums[1]);
  return gradients;
}

}  // namespace mbench::nn
