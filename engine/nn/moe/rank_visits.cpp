#include "engine/nn/moe/rank_visits.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/nn/moe/expert_shares.h"
#include "engine/ops/dispatch.h"
#include "engine/ops/dispatch_plan.h"
#include "engine/ops/expert_ranks.h"
#include "engine/ops/route.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

std::vector<std::int64_t> values_of(Context& c, const Tensor& t) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(t.numel()));
  c.device.read(t, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

void RankVisits::plan(Context& c, const Tensor& experts, RankWay& way) const {
  const auto integers = [&](const Shape& shape, std::string_view what) {
    return c.device.empty(shape, DType::i64, Category::activations, what);
  };
  const comm::Group& peers = c.groups.over({Axis::ep});
  const std::int64_t tokens = experts.shape().rows();
  ops::DispatchPlan plan;
  plan.experts = integers(experts.shape(), "ranks of tokens");
  run(c.device, ops::ExpertRanks{experts, experts_ / ranks_, plan.experts});
  plan.rows = way.rows = integers(experts.shape(), "rows of tokens to ranks");
  plan.pairs = integers({experts.numel()}, "tokens of rows to ranks");
  plan.counts = integers({ranks_}, "tokens of ranks");
  plan.offsets = integers({ranks_ + 1}, "first rows of ranks");
  run(c.device, plan);
  // Without values it is as if routing were balanced, but for what the fullest rank gets, and is waited for as it is for real.
  const std::vector<std::int64_t> visits = ops::balanced_visits(tokens, choice_, ranks_);
  way.send = visits;
  way.receive.assign(visits.size(), fullest(visits[static_cast<std::size_t>(peers.rank())]));
  way.room = std::max<std::int64_t>(1, ranks_ * fullest(*std::max_element(visits.begin(), visits.end())));
  const std::int64_t room = this->room(c, tokens);
  way.room = std::max(way.room, room);
  if (!balanced_ || (c.keeps().reads_expert_rows && !c.plan.capture && room == 0))
    read_counts(c, plan.counts, room, way);
  if (!c.device.real()) send_to_itself(way.send, peers.rank(), way.receive[static_cast<std::size_t>(peers.rank())]);
  way.sent = sum_of(way.send);
  way.sent_room = room > 0 ? tokens * std::min(active_, std::int64_t{ranks_}) : way.sent;
  way.received = sum_of(way.receive);
  way.pairs = plan.pairs.slice(0, way.sent);
  const std::int64_t nodes = ranks_ / peers.ranks_on_node();
  way.node_rows = nodes > 1 && ranks_ % nodes == 0 ? sum_of(ops::balanced_visits(tokens, choice_, nodes)) : way.sent;
  if (c.device.real() || !draws_ || !c.keeps().balance_at_random) return;
  const auto drawn = [&](std::int64_t parts) {
    return static_cast<double>(tokens * parts) * ops::drawn_visits(choice_, parts);
  };
  way.drawn = drawn(ranks_) / static_cast<double>(sum_of(visits));
  if (nodes > 1 && ranks_ % nodes == 0) way.node_rows = std::llround(drawn(nodes) / way.drawn);
}

// A token that comes has a row at least, so that no more come than the experts have room for.
std::int64_t RankVisits::room(const Context& c, std::int64_t tokens) const {
  return std::min(c.expert_room(), ranks_ * tokens);
}

std::int64_t RankVisits::fullest(std::int64_t rows) const {
  return static_cast<std::int64_t>(std::llround(imbalance_ * static_cast<double>(rows)));
}

void RankVisits::read_counts(Context& c, const Tensor& counts, std::int64_t room, RankWay& way) const {
  const Tensor theirs =
      c.device.empty(counts.shape(), DType::i64, Category::activations, "tokens that come from each rank");
  c.groups.over({Axis::ep}).run(comm::AllToAll{counts, theirs});
  if (!c.device.real()) {
    if (room == 0) c.device.read(theirs, 0);  // else a framework's kernels find them on the device
    return;
  }
  std::vector<std::int64_t> receive = values_of(c, theirs);
  if (balanced_) return;
  way.send = values_of(c, counts);
  way.receive = std::move(receive);
  way.room = std::max({std::int64_t{1}, sum_of(way.receive), room});
}

Tensor RankVisits::of_received(Context& c, Shape row, DType dtype, const RankWay& way, std::string_view what) {
  row[0] = way.room;
  return c.device.empty(row, dtype, Category::activations, what).slice(0, std::max<std::int64_t>(1, way.received));
}

namespace {

Tensor of_sent(Context& c, std::int64_t width, DType dtype, const RankWay& way, std::string_view what) {
  return c.device.empty({way.sent_room, width}, dtype, Category::activations, what).slice(0, way.sent);
}

// Where something runs beside them, or a forward and a backward take turns, that goes on while these travel.
void exchange(Context& c, const comm::ForwardedAllToAll& rows, double fullest_rank, Context::Way own) {
  comm::Group& peers = c.groups.over({Axis::ep});
  std::unique_ptr<comm::Pending> travelling;
  {
    const FullestRank fullest(c.device, fullest_rank);
    if (!c.beside && (!c.fiber || c.way != own)) return peers.run(rows);
    travelling = peers.start(rows);
  }
  c.travel(own);
  travelling->wait();
}

}  // namespace

std::vector<Tensor> RankVisits::send(Context& c, const std::vector<Tensor>& tensors, const RankWay& way,
                                     Context::Way own) const {
  std::vector<Tensor> arrived;
  std::vector<comm::Parcel> parcels;
  for (const Tensor& x : tensors) {
    const Shape row{way.sent, x.shape().cols()};
    const Tensor rows = of_sent(c, row[1], x.dtype(), way, "tokens to ranks");
    run(c.device, ops::Dispatch{x, way.pairs, active_, rows, c.keeps().forwarding_kernels});
    arrived.push_back(of_received(c, row, x.dtype(), way, "tokens of other ranks"));
    parcels.push_back({rows, arrived.back().slice(0, way.received)});
  }
  exchange(c, {parcels, way.send, way.receive, way.node_rows}, way.fullest, own);
  return arrived;
}

RankVisits::Tokens RankVisits::to_ranks(Context& c, const Tensor& x, const Tensor& experts, const Tensor& weights,
                                        const RankWay& way) const {
  std::vector<Tensor> arrived = send(c, {x, experts.bytes_as(DType::f32), weights}, way, Context::Way::forward);
  Tokens tokens{arrived[0], arrived[1].bytes_as(DType::i64), arrived[2]};
  tokens.x = tokens.x.view({tokens.x.shape()[0], 1, tokens.x.shape()[1]});
  // A row of no token has no experts.
  if (way.received == 0 && c.device.real()) {
    const std::vector<std::int64_t> none(static_cast<std::size_t>(active_), -1);
    c.device.write(tokens.experts, std::as_bytes(std::span(none)));
  }
  return tokens;
}

Tensor RankVisits::to_ranks(Context& c, const Tensor& x, const RankWay& way) const {
  const Tensor arrived = send(c, {x}, way, Context::Way::backward).front();
  return arrived.view({arrived.shape()[0], 1, arrived.shape()[1]});
}

std::vector<Tensor> RankVisits::back(Context& c, std::vector<Tensor> made, const std::vector<Shape>& whole,
                                     const RankWay& way, Context::Way own) const {
  std::vector<Tensor> sums;
  std::vector<comm::Parcel> parcels;
  for (Tensor& x : made) {
    const std::int64_t width = x.shape().cols();
    const Tensor rows = of_sent(c, width, x.dtype(), way, "tokens back from ranks");
    parcels.push_back({x.view({x.shape().rows(), width}).slice(0, way.received), rows});
    x.reset();
  }
  exchange(c, {parcels, way.receive, way.send, way.node_rows}, way.fullest, own);
  for (std::size_t i = 0; i < parcels.size(); ++i) {
    parcels[i].in.reset();
    sums.push_back(c.device.empty(whole[i], parcels[i].out.dtype(), Category::activations, "sums of ranks' tokens"));
    run(c.device, ops::DispatchGrad{parcels[i].out, way.rows, sums.back(), c.keeps().forwarding_kernels});
    parcels[i].out.reset();
  }
  return sums;
}

}  // namespace mbench::nn
