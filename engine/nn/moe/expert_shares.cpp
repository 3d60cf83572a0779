#include "engine/nn/moe/expert_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/expected_largest.h"

namespace mbench::nn {

ExpertShares::ExpertShares(const Plan& plan, const MoeSpec& spec)
    : experts_(spec.experts),
      active_(spec.active),
      ranks_(plan.mesh.size(Axis::ep)),
      mode_(plan.router),
      equal_(plan.equal_shares),
      imbalance_(std::min(plan.routing_imbalance, static_cast<double>(ranks_))) {}

std::int64_t ExpertShares::capacity(std::int64_t tokens) const {
  switch (mode_.routing) {
    case Routing::balanced:
      return equal_ ? tokens * active_ / experts_ : 0;
    case Routing::capacity:
      return static_cast<std::int64_t>(
          std::ceil(mode_.factor * static_cast<double>(tokens * active_) / static_cast<double>(experts_)));
    case Routing::learned:
      break;
  }
  return 0;
}

std::int64_t ExpertShares::fullest(std::int64_t rows) const {
  return static_cast<std::int64_t>(std::llround(imbalance_ * static_cast<double>(rows)));
}

// Whether a framework balances routing by drawing the experts of each token.
bool ExpertShares::draws(const Context& c) const {
  return !c.device.real() && c.keeps().balance_at_random && mode_.routing == Routing::balanced && !mode_.local;
}

// An expert is one of a token's with probability active / experts: rows are binomially distributed.
double ExpertShares::deviation(const Context& c, const ExpertRows& rows) const {
  if (!draws(c)) return 0;
  const double mean = rows.each > 0 ? static_cast<double>(rows.each)
                                    : static_cast<double>(rows.offsets.back()) / static_cast<double>(here());
  return std::sqrt(mean * (1 - static_cast<double>(active_) / static_cast<double>(experts_)));
}

// A token's experts are distinct: of how many a rank has, the distribution is hypergeometric. Those of all tokens are drawn apart.
double ExpertShares::fullest_drawn(const Context& c, double rows) const {
  const double others = 1 - 1 / static_cast<double>(ranks_),
               distinct = static_cast<double>(experts_ - active_) /
                          static_cast<double>(std::max<std::int64_t>(1, experts_ - 1));
  return largest(c, others * distinct / rows);
}

double ExpertShares::fullest_visited(const Context& c, double tokens, double visits) const {
  return largest(c, (1 - visits / tokens) / visits);
}

double ExpertShares::largest(const Context& c, double variance) const {
  return draws(c) ? 1 + expected_largest(ranks_) * std::sqrt(variance) : 1;
}

std::vector<std::int64_t> ExpertShares::read(Context& c, const Tensor& counts, std::int64_t pairs, bool arrive,
                                             const std::function<std::int64_t(std::int64_t)>& expert_of) const {
  std::vector<std::int64_t> values(static_cast<std::size_t>(experts_));
  if (c.device.real()) {
    c.device.read(counts, std::as_writable_bytes(std::span(values)));
    return values;
  }
  if (c.expert_room() == 0) c.device.read(counts, 0);  // else a framework's GEMMs find them on the device
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t e = expert_of(static_cast<std::int64_t>(i));
    values[i] = pairs * (e + 1) / experts_ - pairs * e / experts_;
    if (arrive) values[i] = fullest(values[i]);
  }
  return values;
}

void ExpertShares::wait(Context& c, const Tensor& counts) {
  if (!c.device.real()) {
    c.device.read(counts, 0);
    return;
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(counts.numel()));
  c.device.read(counts, std::as_writable_bytes(std::span(values)));
}

bool ExpertShares::waits(const Context& c) const {
  return c.keeps().reads_expert_rows && mode_.routing == Routing::balanced && !c.plan.capture;
}

void ExpertShares::note_load(Context& c, const std::vector<std::int64_t>& counts) const {
  if (c.device.real() && mode_.routing == Routing::learned && !c.rerun) c.router_load.add(counts);
}

void send_to_itself(std::vector<std::int64_t>& sent, std::int64_t rank, std::int64_t from_itself) {
  const auto own = static_cast<std::size_t>(rank);
  if (sent[own] == from_itself) return;
  const std::int64_t all = std::accumulate(sent.begin(), sent.end(), std::int64_t{0}), rest = all - from_itself,
                     others = static_cast<std::int64_t>(sent.size()) - 1;
  check(rest >= 0, "experts", "{} rows of a rank to itself, need at most all {} that it sends", from_itself, all);
  std::int64_t n = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (i == own) continue;
    sent[i] = rest * (n + 1) / others - rest * n / others;
    ++n;
  }
  sent[own] = from_itself;
}

std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& counts, std::int64_t first, std::int64_t here) {
  std::vector<std::int64_t> offsets(1, 0);
  for (std::int64_t e = first; e < first + here; ++e)
    offsets.push_back(offsets.back() + counts[static_cast<std::size_t>(e)]);
  return offsets;
}

void cut_to(const ExpertRows& sizes, Permutation::Saved& rows) {
  // At least one row, though it be padding.
  rows.pairs = rows.pairs.slice(0, std::max<std::int64_t>(sizes.offsets.back(), 1));
}

}  // namespace mbench::nn
