// How many rows experts have: known beforehand, or read from the device, for which the host waits. Without values it is as if each expert
// had its share.
#pragma once
#include <functional>
#include <vector>

#include "engine/nn/moe/permutation.h"

namespace mbench::nn {

class ExpertShares {
 public:
  ExpertShares(const Plan& plan, const MoeSpec& spec);

  std::int64_t experts() const { return experts_; }  // of all ranks
  std::int64_t active() const { return active_; }    // of a token
  std::int64_t ranks() const { return ranks_; }      // of ep
  std::int64_t here() const { return experts_ / ranks_; }

  // Rows of an expert where all have the same number, for so many dispatched tokens; 0 where they follow the data.
  std::int64_t capacity(std::int64_t tokens) const;
  // The rows of an expert that has `rows` on average, were this the fullest rank: in simulation.
  std::int64_t fullest(std::int64_t rows) const;

  // In simulation: the standard deviation of an expert's rows from their mean, where the framework balances routing by drawing each
  // token's experts, all with the same probability.
  double deviation(const Context& context, const ExpertRows& rows) const;

  // In simulation: the rows of the fullest rank over the mean, `rows` of a rank, where experts are drawn so. Its GEMMs, the kernels that
  // handle its rows and the exchanges in which it has them take as much longer, and the other ranks of ep wait for it.
  double fullest_drawn(const Context& context, double rows) const;
  // Likewise of tokens that visit a rank once, `visits` of all `tokens` on average.
  double fullest_visited(const Context& context, double tokens, double visits) const;

  // The values of `counts`, one for each expert. Without values entry i is the share that expert_of(i) has of `pairs`. `arrive`: as the
  // fullest rank has it.
  std::vector<std::int64_t> read(Context& context, const Tensor& counts, std::int64_t pairs, bool arrive,
                                 const std::function<std::int64_t(std::int64_t)>& expert_of) const;
  // Waits as read() does, for counts that are known: what a framework that drops no token does, whatever the routing.
  static void wait(Context& context, const Tensor& counts);
  bool waits(const Context& context) const;
  // Notes how uneven `counts` of all experts are, where a router has learned it.
  void note_load(Context& context, const std::vector<std::int64_t>& counts) const;

 private:
  bool draws(const Context& context) const;
  // The largest of all ranks' over the mean. `variance`: of one over the mean's square.
  double largest(const Context& context, double variance) const;

  std::int64_t experts_, active_, ranks_;
  RouterMode mode_;
  bool equal_;        // with balanced routing: experts have as many rows each
  double imbalance_;  // rows of this rank, were it the fullest, over the mean: in simulation
};

// Of the fullest rank's simulation: as many as it gets from itself it also sends there, of as many in all; to others it sends alike.
void send_to_itself(std::vector<std::int64_t>& sent, std::int64_t rank, std::int64_t from_itself);
// Of the experts from `first` on, where `counts` of all experts are known: the first row of each, and the end.
std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& counts, std::int64_t first, std::int64_t here);
// Leaves as many pairs as there are rows.
void cut_to(const ExpertRows& sizes, Permutation::Saved& rows);

}  // namespace mbench::nn
