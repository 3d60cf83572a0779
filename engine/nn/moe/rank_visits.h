// Tokens go once to each rank of ep that has any of their experts. That rank sums what its experts make of a token and
// sends it back, to be summed here. This is Megatron-Core's dispatcher `flex`, the exchange of DeepEP and HybridEP.
// With a token go its experts and their weights; the receiver sees which of them it has.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/nn/moe/router.h"
#include "engine/nn/runtime/context.h"

namespace mbench::nn {

// Where a micro batch's tokens go.
struct RankWay {
  Tensor rows;   // [..., k] i64, like the tokens' experts: the row sent for the slot; -1 where an earlier slot has it
  Tensor pairs;  // [sent] i64: each row's token and slot
  std::vector<std::int64_t> send, receive;  // rows to and from each rank
  std::int64_t sent = 0, received = 0;      // of all of them
  std::int64_t sent_room = 0;  // the size of tensors of sent rows: with ExpertRoom the most that there can be
  // The most rows that come to any rank, at least one, or with ExpertRoom the most that there is room for: the size of tensors of them.
  std::int64_t room = 1;
  std::int64_t node_rows = 0;  // rows sent, one for each node that a token visits
  // In simulation, where a token's experts are drawn and some share a rank: the rows that come on average, over those of equal shares. An
  // exchange takes so many times as long, and tensors have the rows of equal shares. `fullest`: of the rank that all wait for.
  double drawn = 1, fullest = 1;
};

class RankVisits {
 public:
  RankVisits(const Plan& plan, const MoeSpec& spec)
      : ranks_(plan.mesh.size(Axis::ep)),
        experts_(spec.experts),
        active_(spec.active),
        imbalance_(std::min(plan.routing_imbalance, static_cast<double>(ranks_))),
        choice_(ops::BalancedChoice::of(router_rule(spec.routing, plan.router), spec.experts, spec.active)),
        balanced_(plan.router.routing == Routing::balanced && plan.equal_shares),
        draws_(plan.router.routing == Routing::balanced && !plan.router.local) {}

  // `experts`: [..., k] i64 of the tokens that this rank dispatches. With balanced routing it is known beforehand how
  // many go where. Otherwise the host reads it, and so it does where the graph always does.
  void plan(Context& context, const Tensor& experts, RankWay& way) const;

  struct Tokens {
    Tensor x;        // [received, 1, hidden]
    Tensor experts;  // [received, k] i64, of all experts
    Tensor weights;  // [received, k] f32
  };
  // `x`: [..., hidden], `weights`: [..., k] f32 of the same tokens.
  Tokens to_ranks(Context& context, const Tensor& x, const Tensor& experts, const Tensor& weights,
                  const RankWay& way) const;
  Tensor to_ranks(Context& context, const Tensor& x, const RankWay& way) const;  // only x, in backward

  // Sends back `made`, one for each token that visits this rank. Returns sums over all ranks, like `whole`. Tensors
  // travel together. `own`: whether in forward or in backward.
  std::vector<Tensor> back(Context& context, std::vector<Tensor> made, const std::vector<Shape>& whole,
                           const RankWay& way, Context::Way own) const;

  // [received, ...] of `row` elements: as much memory on every rank, where routing is balanced.
  static Tensor of_received(Context& context, Shape row, DType dtype, const RankWay& way, std::string_view what);

 private:
  // The rows of a rank that has `rows` on average, were it the fullest.
  std::int64_t fullest(std::int64_t rows) const;
  void read_counts(Context& context, const Tensor& counts, std::int64_t room, RankWay& way) const;
  // The rows that tensors have room for, of `tokens` tokens of each rank; 0: as many as come.
  std::int64_t room(const Context& context, std::int64_t tokens) const;
  // The tensors' rows for each rank, at the other ranks: one exchange.
  std::vector<Tensor> send(Context& context, const std::vector<Tensor>& tensors, const RankWay& way,
                           Context::Way own) const;

  int ranks_;
  std::int64_t experts_, active_;
  double imbalance_;  // of the fullest rank, in simulation
  ops::BalancedChoice choice_;
  bool balanced_;
  bool draws_;  // a framework that balances by drawing each token's experts does so
};

}  // namespace mbench::nn
