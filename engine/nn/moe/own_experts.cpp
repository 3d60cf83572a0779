#include "engine/nn/moe/own_experts.h"

#include <algorithm>
#include <utility>

#include "engine/ops/run.h"

namespace mbench::nn {

void OwnExperts::plan(Context& c, const Tensor& experts, const Tensor& rows, std::int64_t tokens, std::int64_t most,
                      bool waits, TokenDispatcher::Saved& saved) const {
  const std::int64_t here = shares_.here(), capacity = shares_.capacity(tokens), room = c.expert_room();
  most = std::max(capacity > 0 ? here * capacity : std::max(experts.numel(), most), room);
  ops::DispatchPlan plan = permutation_.plan(c, experts, rows, here, capacity, most, saved.rows);
  plan.first = c.groups.over({Axis::ep}).rank() * here;
  run(c.device, plan);
  saved.sizes.each = capacity;
  if (capacity == 0)
    read_sizes(c, plan.counts, tokens * shares_.active(), saved);
  else if (waits && shares_.waits(c))
    ExpertShares::wait(c, plan.counts);
  saved.sizes.deviation = shares_.deviation(c, saved.sizes);
  saved.sizes.fullest =
      shares_.fullest_drawn(c, static_cast<double>(tokens * shares_.active()) / static_cast<double>(shares_.ranks()));
  if (room > 0) fit_into_room(c, room, saved);
}

// Rows beyond it are dropped, the last experts' first, as HybridEP drops them.
void OwnExperts::fit_into_room(Context& c, std::int64_t room, TokenDispatcher::Saved& saved) {
  saved.rows.pairs = saved.rows.pairs.slice(0, room);
  for (std::int64_t& offset : saved.sizes.offsets) {
    c.over_budget = c.over_budget || (offset > room && c.device.real());
    offset = std::min(offset, room);
  }
}

void OwnExperts::read_sizes(Context& c, const Tensor& counts, std::int64_t pairs, TokenDispatcher::Saved& saved) const {
  Tensor all = counts;
  if (shares_.ranks() > 1) {
    all = c.device.empty({shares_.experts()}, DType::i64, Category::activations, "tokens of all experts");
    c.groups.over({Axis::ep}).run(comm::AllGather{counts, all});
  }
  const std::vector<std::int64_t> read = shares_.read(c, all, pairs, true, [](std::int64_t expert) { return expert; });
  shares_.note_load(c, read);
  saved.sizes.offsets = offsets_of(read, c.groups.over({Axis::ep}).rank() * shares_.here(), shares_.here());
  // Only so many of the pairs are of experts here.
  if (c.expert_room() == 0) cut_to(saved.sizes, saved.rows);
}

Router::Load OwnExperts::load(Context& c, const Tensor& chosen) const {
  return {permutation_.count(c, chosen, shares_.experts()), chosen.shape().rows(), counted_along_};
}

RowsInFlight OwnExperts::dispatch(Context& c, const Tensor& tokens, TokenDispatcher::Saved& saved) const {
  const FullestRank fullest(c.device, saved.sizes.fullest);
  saved.rows.tokens = tokens.shape();
  RowsInFlight rows{RowExchange::InFlight(permutation_.permute(c, tokens, saved.rows)), {}};
  if (permutation_.weights_go()) rows.weights = RowExchange::InFlight(permutation_.permute_weights(c, saved.rows));
  return rows;
}

void OwnExperts::weights_backward(Context& c, const Tensor& of_rows, TokenDispatcher::Saved& saved) const {
  const FullestRank fullest(c.device, saved.sizes.fullest);
  if (of_rows) permutation_.permute_weights_backward(c, of_rows, saved.dweights, saved.rows);
}

}  // namespace mbench::nn
