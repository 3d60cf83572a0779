#include "engine/nn/moe/row_exchange.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/ops/copy_blocks.h"
#include "engine/ops/dispatch.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// [outer, inner, n] -> [inner, outer, n], of blocks of n elements.
Tensor swapped(Context& c, const Tensor& x, std::int64_t outer, std::int64_t inner) {
  const Tensor y = c.device.empty(x.shape(), x.dtype(), Category::activations, "rows in another order");
  const std::int64_t n = x.numel() / (outer * inner);
  run(c.device,
      ops::CopyBlocks{ops::Matrix(x, inner, n, n, 0, inner * n), ops::Matrix(y, inner, n, outer * n, 0, n), outer});
  return y;
}

// What torch.split, indexing and torch.cat take of the host, in calls for each chunk: 0.083 forward and 0.134 backward of a Linear's
// forward, by their time on a CPU with 16 to 256 chunks (PyTorch 2.15).
constexpr double kCallsOfView = 0.11;

void charge_views(Context& c, std::int64_t ranks, std::int64_t experts) {
  if (c.keeps().views_of_chunks && experts > 1)
    c.device.host_work(HostWork::call,
                       static_cast<int>(std::lround(kCallsOfView * static_cast<double>(ranks * experts))));
}

// The rows that stand in `order`; zeros for -1.
Tensor in_order(Context& c, const Tensor& x, const Tensor& order) {
  Shape shape = x.shape();
  shape[0] = order.numel();
  const Tensor y = c.device.empty(shape, x.dtype(), Category::activations, "rows in another order");
  run(c.device, ops::Dispatch{x, order, 1, y});
  return y;
}

// Where each row goes that has come rank by rank, and within a rank expert by expert: `counts` of them. `offsets`: of the experts' rows.
void write_order(Device& device, const std::vector<std::int64_t>& counts, const std::vector<std::int64_t>& offsets,
                 const ExpertWay& way) {
  const std::size_t experts = offsets.size() - 1, all = static_cast<std::size_t>(way.by_expert.numel());
  std::vector<std::int64_t> by_expert(all, -1), by_rank(all, -1), next(offsets);
  std::int64_t arrived = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (std::int64_t k = 0; k < counts[i]; ++k) {
      const std::int64_t place = next[i % experts]++;
      by_expert[static_cast<std::size_t>(place)] = arrived;
      by_rank[static_cast<std::size_t>(arrived++)] = place;
    }
  device.write(way.by_expert, std::as_bytes(std::span(by_expert)));
  device.write(way.by_rank, std::as_bytes(std::span(by_rank)));
}

}  // namespace

ExpertWay way_of(Device& device, const std::vector<std::int64_t>& counts, std::vector<std::int64_t> sent,
                 ExpertRows& rows) {
  const std::size_t ranks = sent.size(), experts = counts.size() / ranks;
  ExpertWay way;
  way.sent = std::move(sent);
  way.received.assign(ranks, 0);
  std::vector<std::int64_t> of_expert(experts, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    way.received[i / experts] += counts[i];
    of_expert[i % experts] += counts[i];
  }
  rows.offsets.assign(1, 0);
  for (const std::int64_t n : of_expert) rows.offsets.push_back(rows.offsets.back() + n);
  const std::int64_t all = std::max<std::int64_t>(1, rows.offsets.back());
  way.by_expert = device.empty({all}, DType::i64, Category::activations, "order of rows by expert");
  way.by_rank = device.empty({all}, DType::i64, Category::activations, "order of rows by rank");
  if (device.real()) write_order(device, counts, rows.offsets, way);
  return way;
}

RowExchange::InFlight RowExchange::start(Context& c, Tensor rows) const {
  InFlight t;
  t.context_ = &c;
  t.in_ = std::move(rows);
  t.out_ = c.device.empty(t.in_.shape(), t.in_.dtype(), Category::activations, "rows of other ranks");
  t.pending_ = c.groups.over({Axis::ep}).start(comm::AllToAll{t.in_, t.out_});
  return t;
}

RowExchange::InFlight RowExchange::start(Context& c, Tensor rows, const std::vector<std::int64_t>& sent,
                                         const std::vector<std::int64_t>& received) const {
  const auto sum = [](const std::vector<std::int64_t>& n) {
    return std::accumulate(n.begin(), n.end(), std::int64_t{0});
  };
  Shape shape = rows.shape();
  shape[0] = std::max<std::int64_t>(1, sum(received));
  InFlight t;
  t.context_ = &c;
  t.in_ = std::move(rows);
  t.out_ = c.device.empty(shape, t.in_.dtype(), Category::activations, "rows of other ranks");
  t.pending_ = c.groups.over({Axis::ep})
                   .start(comm::AllToAll{t.in_.slice(0, sum(sent)), t.out_.slice(0, sum(received)), sent, received});
  return t;
}

RowExchange::InFlight RowExchange::send(Context& c, Tensor rows, const ExpertWay& way, Towards towards) const {
  InFlight t;
  if (ranks_ == 1) {
    t.out_ = std::move(rows);
    return t;
  }
  const FullestRank fullest(c.device, way.fullest);
  const bool equal = way.sent.empty(), back = towards == Towards::tokens;
  // By rank while they travel, by expert where their experts are.
  charge_views(c, ranks_, experts_);
  if (back) rows = equal ? swapped(c, rows, experts_, ranks_) : in_order(c, rows, way.by_rank);
  if (equal)
    t = start(c, std::move(rows));
  else
    t = start(c, std::move(rows), back ? way.received : way.sent, back ? way.sent : way.received);
  if (back) return t;
  t.fullest_ = way.fullest;
  if (equal)
    t.ranks_ = ranks_, t.experts_ = experts_;
  else
    t.order_ = way.by_expert;
  return t;
}

Tensor RowExchange::InFlight::finish(std::optional<Context::Way> own) {
  if (own && context_) context_->travel(*own);
  if (pending_) pending_->wait();
  pending_.reset();
  in_.reset();
  const Tensor arrived = std::exchange(out_, Tensor());
  if (!order_ && experts_ == 0) return arrived;
  const FullestRank fullest(context_->device, fullest_);
  if (order_) return in_order(*context_, arrived, order_);
  return swapped(*context_, arrived, ranks_, experts_);
}

}  // namespace mbench::nn
