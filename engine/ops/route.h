// The router of an MoE: which experts a token visits and how much each counts. Also the losses that keep the experts
// evenly busy, and the gradient of all of it to the router's logits.
//
// Scores are softmax or sigmoid of the logits. The k largest of score + correction are chosen, in falling order; of two
// equal ones the lower expert comes first (NaN is lowest). With groups, experts lie in equal groups of consecutive
// experts, and only experts of the best groups may be chosen (node-limited routing). The weights are the chosen scores
// times `scale`, divided by their sum + 1e-20 if `renormalise`. Softmax over all, renormalised, is Mixtral's softmax
// over the chosen.
//
// Balanced, for benchmarks: the choice depends only on the token's position, whatever the layout. The token with the
// global index g = sample * seq + position has expert (g * k + j) * stride mod experts in slot j. So every run of
// experts / gcd(experts, k) tokens with consecutive g visits all experts equally often. With groups a token visits
// `chosen_groups` consecutive groups, and the next token the groups after them. Within a group the same rule chooses
// experts, counting that group's visits. Weights and gradients are still the router's.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/ops/arguments.h"

namespace mbench::ops {

enum class RouterScore { softmax, sigmoid };
enum class GroupScore {
  best,     // the largest of the group (DeepSeek-V2)
  best_two  // the sum of the two largest (DeepSeek-V3)
};

struct RouterRule {
  RouterScore score = RouterScore::softmax;
  bool renormalise = false;
  float scale = 1;
  // How experts are chosen; no concern of the gradient.
  std::int64_t groups = 1, chosen_groups = 1;
  GroupScore group_score = GroupScore::best;
  bool balanced = false;  // whatever the scores and corrections are
  bool local = false;     // balanced: a token's experts are consecutive
};

// The distance between a balanced token's experts: about experts / k, and coprime to experts, so that it visits them
// all.
inline std::int64_t balanced_stride(std::int64_t experts, std::int64_t k) {
  std::int64_t stride = std::max<std::int64_t>(1, experts / k);
  while (std::gcd(stride, experts) != 1) ++stride;
  return stride;
}

// The choice of experts for balanced tokens.
struct BalancedChoice {
  std::int64_t experts = 1, k = 1;
  std::int64_t groups = 1, chosen = 1;  // 1 and 1 where tokens may visit all groups
  std::int64_t each = 1, stride = 1;    // experts of a group that a token visits; between them

  static BalancedChoice of(const RouterRule& rule, std::int64_t experts, std::int64_t k);
  // The expert in slot j of the token with the global index g.
  constexpr std::int64_t expert(std::int64_t g, std::int64_t j) const {
    const std::int64_t size = experts / groups, visit = g % (experts * groups) * chosen + j % chosen;
    return visit % groups * size + (visit / groups % size * each + j / chosen) % size * stride % size;
  }
  // The number of tokens after which the choice repeats. By then all experts were chosen equally often, if chosen
  // groups divide k.
  std::int64_t run() const;
};

// How many of `tokens` consecutive balanced tokens visit each part of the experts, from a token that begins a run.
// There are `parts` equal parts of consecutive experts. A token counts once for a part, however many experts it has
// there.
std::vector<std::int64_t> balanced_visits(std::int64_t tokens, const BalancedChoice& choice, std::int64_t parts);
// The share of tokens that visit a part where each draws its groups, and of their experts its own, all with the same probability.
double drawn_visits(const BalancedChoice& choice, std::int64_t parts);

// What a GPU's thread block has room for.
inline constexpr std::int64_t kMostExperts = 8192;

inline void need_choice(std::string_view op, const Tensor& logits, const Tensor& experts) {
  need_float(op, "logits", logits);
  need_dtype(op, "experts", experts, DType::i64);
  const std::int64_t k = experts.shape().cols(), number = logits.shape().cols();
  check(experts.shape().rows() == logits.shape().rows(), op, "shape of experts, got {} for logits {}, need [tokens, k]",
        experts.shape(), logits.shape());
  check(k >= 1 && k <= number && number <= kMostExperts, op,
        "experts of a token, got {} of {}, need 1 to {} of at most {}", k, number, number, kMostExperts);
}

struct Route {
  static constexpr std::string_view name = "route";
  Tensor logits;      // [..., experts]; balanced: local [seq, batch, experts]
  Tensor correction;  // optional [experts] f32: added to the scores, only for the choice
  RouterRule rule;
  HiddenMap map;   // of a balanced choice: where the local tokens lie
  Tensor experts;  // [tokens, k] i64
  Tensor weights;  // [tokens, k] f32

  std::int64_t number() const { return logits.shape().cols(); }
  void check() const {
    need_choice(name, logits, experts);
    need_shape(name, "weights", weights, experts.shape());
    need_dtype(name, "weights", weights, DType::f32);
    if (correction) need_shape(name, "correction", correction, {number()});
    if (correction) need_dtype(name, "correction", correction, DType::f32);
    if (rule.balanced) {
      mbench::check(logits.shape().rank() == 3, name, "logits, got {}, need [seq, batch, experts]", logits.shape());
      const std::int64_t rows = logits.shape()[0], turn = map.turn == 0 ? rows : map.turn;
      mbench::check(turn <= rows && map.seq0 + turn <= map.seq && map.seq1 + rows - turn <= map.seq, name,
                    "positions, got {} from {} on and {} from {} on, need at most the {} of a sequence", turn, map.seq0,
                    rows - turn, map.seq1, map.seq);
    }
    const std::int64_t least = rule.group_score == GroupScore::best_two && rule.groups > 1 ? 2 : 1;
    mbench::check(rule.groups >= 1 && number() % rule.groups == 0 && number() / rule.groups >= least, name,
                  "groups, got {} of {} experts, need equal ones of at least {}", rule.groups, number(), least);
    const std::int64_t open = number() / rule.groups * rule.chosen_groups;
    mbench::check(rule.chosen_groups >= 1 && rule.chosen_groups <= rule.groups && experts.shape().cols() <= open, name,
                  "chosen groups, got {} of {}, need as many as have {} experts", rule.chosen_groups, rule.groups,
                  experts.shape().cols());
  }
  Cost cost() const {
    return {6.0 * static_cast<double>(logits.numel()), bytes_of(logits) + bytes_of(experts) + bytes_of(weights)};
  }
};

// What is added to the loss:
//   `balance * experts * sum over e of f[e] P[e]` (Shazeer et al. 2017, Switch, GShard),
//   `z * mean of logsumexp(logits)^2` (ST-MoE).
// P[e] is the mean over `tokens` tokens of e's probability: the softmax, or the sigmoid over the sum of the token's
// sigmoids. f[e] = counts[e] / (tokens * k) is the share of pairs that chose e, a constant. Where several ranks have a
// part of the tokens, counts and `tokens` are of all of them; their losses are parts of a sum.
struct RouterLosses {
  float balance = 0, z = 0;  // coefficients; 0 leaves a term out
  std::int64_t tokens = 1;
};

struct RouterLoss {
  static constexpr std::string_view name = "router_loss";
  Tensor logits;  // [..., experts]
  Tensor counts;  // [experts] i64, as DispatchPlan makes them
  std::int64_t k = 1;
  RouterScore score = RouterScore::softmax;
  RouterLosses losses;
  Tensor sum;  // [1] f32: both terms are added to it

  // Factors of two sums: over tokens and e of counts[e] * probability, and over tokens of logsumexp^2.
  double balance_factor() const {
    const auto tokens = static_cast<double>(losses.tokens);
    return losses.balance * static_cast<double>(logits.shape().cols()) / (tokens * tokens * static_cast<double>(k));
  }
  double z_factor() const { return losses.z / static_cast<double>(losses.tokens); }
  void check() const {
    need_float(name, "logits", logits);
    need_shape(name, "counts", counts, {logits.shape().cols()});
    need_dtype(name, "counts", counts, DType::i64);
    need_shape(name, "sum", sum, {1});
    need_dtype(name, "sum", sum, DType::f32);
    mbench::check(k > 0 && losses.tokens > 0, name, "tokens and experts of each, got {} and {}, need at least 1",
                  losses.tokens, k);
  }
  Cost cost() const { return {8.0 * static_cast<double>(logits.numel()), bytes_of(logits) + bytes_of(counts)}; }
};

struct RouteGrad {
  static constexpr std::string_view name = "route_grad";
  Tensor dweights;  // [tokens, k] f32
  Tensor logits;    // [..., experts]
  Tensor experts;   // [tokens, k] i64, as Route chose them: no expert twice for a token
  RouterRule rule;
  RouterLosses losses;  // the coefficients times whatever the loss is scaled by
  Tensor counts;        // [experts] i64, needed if losses.balance is not 0
  Tensor dlogits;       // like logits; may be logits itself

  float balance_factor() const {  // times counts[e]: the gradient of a token's probability of e
    const auto tokens = static_cast<double>(losses.tokens);
    const auto k = static_cast<double>(experts.shape().cols());
    return static_cast<float>(losses.balance * static_cast<double>(logits.shape().cols()) / (tokens * tokens * k));
  }
  float z_factor() const { return static_cast<float>(2.0 * losses.z / static_cast<double>(losses.tokens)); }
  void check() const {
    need_choice(name, logits, experts);
    need_shape(name, "dweights", dweights, experts.shape());
    need_dtype(name, "dweights", dweights, DType::f32);
    need_same(name, "dlogits", dlogits, logits);
    mbench::check(losses.tokens > 0, name, "tokens, got {}, need at least 1", losses.tokens);
    if (losses.balance == 0) return;
    need_shape(name, "counts", counts, {logits.shape().cols()});
    need_dtype(name, "counts", counts, DType::i64);
  }
  Cost cost() const {
    return {12.0 * static_cast<double>(logits.numel()),
            2 * bytes_of(logits) + bytes_of(dweights) + bytes_of(experts) + bytes_of(counts)};
  }
};

}  // namespace mbench::ops
