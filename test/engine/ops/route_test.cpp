// What the cases cannot say of the router: that a balanced choice is even and the same for every layout, that a correction
// changes the choice alone, and what is refused.
#include "engine/ops/route.h"

#include <bit>
#include <map>
#include <set>

#include "test/engine/ops/op_test.h"

using namespace mbench;
using namespace mbench::test;

namespace {

using Experts = std::vector<std::int64_t>;

Experts integers(const Tensor& t) {
  return {t.as<std::int64_t>(), t.as<std::int64_t>() + t.numel()};
}

// Of the local tokens [seq, batch] at `map`.
Experts balanced(OpTest& test, std::int64_t seq, std::int64_t batch, std::int64_t n, std::int64_t k,
                 const ops::HiddenMap& map, ops::RouterRule rule = {}) {
  ops::Route op;
  rule.balanced = true;
  op.logits = test.random({seq, batch, n}, DType::f32, 1), op.rule = rule, op.map = map;
  op.experts = test.empty({seq * batch, k}, DType::i64), op.weights = test.empty({seq * batch, k});
  test.run(op);
  return integers(op.experts);
}

}  // namespace

TEST_CASE("a balanced choice visits all experts equally often, and none twice for a token") {
  OpTest test;
  for (const auto& [n, k] :
       {std::pair<std::int64_t, std::int64_t>{8, 2}, {8, 3}, {256, 8}, {160, 6}, {64, 6}, {5, 5}, {12, 1}}) {
    CAPTURE(n, k);
    const std::int64_t run = n / std::gcd(n, k);
    const Experts experts = balanced(test, 3 * run, 1, n, k, {3 * run + 2, 2, 1});
    for (std::int64_t first : {std::int64_t{0}, std::int64_t{1}, run + 1}) {  // any run of consecutive tokens
      std::map<std::int64_t, int> times;
      for (std::int64_t i = first * k; i < (first + run) * k; ++i) ++times[experts[i]];
      CHECK(static_cast<std::int64_t>(times.size()) == n);
      for (const auto& [expert, count] : times) CHECK(count == k / std::gcd(n, k));
    }
    for (std::int64_t token = 0; token < 3 * run; ++token)
      CHECK(static_cast<std::int64_t>(
                std::set(experts.begin() + token * k, experts.begin() + (token + 1) * k).size()) == k);
  }
}

TEST_CASE("how many balanced tokens visit each part of the experts is what the choice of each says") {
  OpTest test;
  for (const auto& [n, k, parts] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{8, 2, 4},
                                    {8, 4, 4},
                                    {12, 8, 4},
                                    {64, 6, 8},
                                    {128, 8, 8},
                                    {5, 5, 1}})
    for (const std::int64_t tokens : {std::int64_t{1}, n / std::gcd(n, k), 2 * n + 1}) {
      CAPTURE(n, k, parts, tokens);
      const Experts experts = balanced(test, tokens, 1, n, k, {tokens, 0, 0});
      std::vector<std::int64_t> visits(static_cast<std::size_t>(parts), 0);
      for (std::int64_t token = 0; token < tokens; ++token) {
        std::set<std::int64_t> visited;
        for (std::int64_t j = 0; j < k; ++j) visited.insert(experts[token * k + j] / (n / parts));
        for (const std::int64_t part : visited) ++visits[static_cast<std::size_t>(part)];
      }
      CHECK(ops::balanced_visits(tokens, ops::BalancedChoice::of({}, n, k), parts) == visits);
    }
}

TEST_CASE(
    "balanced tokens of node-limited routing visit as many groups, and local ones as few ranks, all experts equally "
    "often") {
  OpTest test;
  struct Case {
    std::int64_t n, k, groups, chosen, ranks;
    bool local;
    std::size_t visited;  // ranks
  };
  for (const Case& c : {Case{64, 8, 8, 2, 8, false, 2},
                        {256, 8, 8, 4, 8, false, 4},
                        {256, 8, 8, 1, 8, false, 1},
                        {128, 8, 1, 1, 8, true, 1},
                        {128, 8, 1, 1, 8, false, 8},
                        {64, 8, 8, 2, 64, true, 8}}) {
    CAPTURE(c.n, c.k, c.groups, c.chosen, c.local);
    ops::RouterRule rule;
    rule.groups = c.groups, rule.chosen_groups = c.chosen, rule.local = c.local;
    const ops::BalancedChoice choice = ops::BalancedChoice::of(rule, c.n, c.k);
    const std::int64_t run = choice.run(), tokens = 2 * run;
    const Experts experts = balanced(test, tokens, 1, c.n, c.k, {tokens, 0, 0}, rule);
    std::map<std::int64_t, int> times;
    std::vector<std::int64_t> visits(static_cast<std::size_t>(c.ranks), 0);
    for (std::int64_t token = 0; token < tokens; ++token) {
      std::set<std::int64_t> groups, ranks, own;
      for (std::int64_t j = 0; j < c.k; ++j) {
        const std::int64_t e = experts[token * c.k + j];
        own.insert(e), groups.insert(e / (c.n / c.groups)), ranks.insert(e / (c.n / c.ranks)), ++times[e];
      }
      CHECK(static_cast<std::int64_t>(own.size()) == c.k);
      CHECK(static_cast<std::int64_t>(groups.size()) == (c.groups > 1 ? c.chosen : 1));
      CHECK(ranks.size() == c.visited);
      for (const std::int64_t rank : ranks) ++visits[static_cast<std::size_t>(rank)];
    }
    CHECK(static_cast<std::int64_t>(times.size()) == c.n);
    for (const auto& [expert, count] : times) CHECK(count == tokens * c.k / c.n);
    CHECK(ops::balanced_visits(tokens, choice, c.ranks) == visits);
  }
}

TEST_CASE("tokens that draw their experts visit a part as often as choices of them do, all counted") {
  struct Case {
    std::int64_t n, k, groups, chosen, parts;
  };
  for (const Case& c : {Case{12, 3, 1, 1, 4},
                        {12, 3, 1, 1, 2},
                        {12, 2, 6, 3, 6},
                        {12, 2, 6, 3, 12},
                        {12, 2, 6, 3, 3},
                        {12, 3, 6, 5, 2},
                        {12, 4, 4, 3, 1}}) {
    CAPTURE(c.n, c.k, c.groups, c.chosen, c.parts);
    ops::RouterRule rule;
    rule.groups = c.groups, rule.chosen_groups = c.chosen;
    double all = 0, visits = 0;  // of part 0
    for (unsigned groups = 0; groups < 1U << c.groups; ++groups) {
      if (std::popcount(groups) != c.chosen) continue;
      for (unsigned experts = 0; experts < 1U << c.n; ++experts) {
        if (std::popcount(experts) != c.k) continue;
        bool allowed = true, visited = false;
        for (std::int64_t e = 0; e < c.n; ++e) {
          if ((experts >> e & 1) == 0) continue;
          allowed = allowed && (groups >> (e / (c.n / c.groups)) & 1) == 1;
          visited = visited || e < c.n / c.parts;
        }
        all += allowed, visits += allowed && visited;
      }
    }
    CHECK(ops::drawn_visits(ops::BalancedChoice::of(rule, c.n, c.k), c.parts) == Approx(visits / all));
  }
}

TEST_CASE("a balanced choice is the token's, however the batch and the sequence are cut") {
  OpTest test;
  const std::int64_t seq = 12, samples = 4, n = 16, k = 2;
  const Experts whole = balanced(test, seq, samples, n, k, {seq, 0, 0});
  for (const std::int64_t seq0 : {0, 4, 8})
    for (const std::int64_t sample0 : {0, 2}) {
      const Experts part = balanced(test, 4, 2, n, k, {seq, seq0, sample0});
      for (std::int64_t s = 0; s < 4; ++s)
        for (std::int64_t b = 0; b < 2; ++b)
          for (std::int64_t j = 0; j < k; ++j)
            CHECK(part[(s * 2 + b) * k + j] == whole[((seq0 + s) * samples + sample0 + b) * k + j]);
    }
  // Two parts of the sequence: positions 1, then 8 to 10.
  const Experts parts = balanced(test, 4, 2, n, k, {seq, 1, 2, 1, 8});
  const std::int64_t positions[] = {1, 8, 9, 10};
  for (std::int64_t s = 0; s < 4; ++s)
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t j = 0; j < k; ++j)
        CHECK(parts[(s * 2 + b) * k + j] == whole[(positions[s] * samples + 2 + b) * k + j]);
}

TEST_CASE("a correction changes which experts are chosen, and not their scores") {
  OpTest test;
  ops::Route op;
  op.logits = test.put({1, 3}, DType::f32, {2, 1, 0});
  op.rule.score = ops::RouterScore::sigmoid;
  op.experts = test.empty({1, 1}, DType::i64), op.weights = test.empty({1, 1});
  test.run(op);
  CHECK(integers(op.experts) == Experts{0});
  op.correction = test.put({3}, DType::f32, {0, 0, 1});
  test.run(op);
  CHECK(integers(op.experts) == Experts{2});
  CHECK(op.weights.as<float>()[0] == 0.5f);
}

TEST_CASE("choices that cannot be are refused") {
  OpTest test;
  ops::Route op;
  op.logits = test.random({2, 12}, DType::f32, 1);
  op.experts = test.empty({2, 4}, DType::i64), op.weights = test.empty({2, 4});
  CHECK_NOTHROW(op.check());
  op.rule.groups = 6, op.rule.chosen_groups = 1;  // two experts for four
  CHECK_THROWS_AS(op.check(), Error);
  op.rule.chosen_groups = 2;
  CHECK_NOTHROW(op.check());
  op.rule.groups = 5;
  CHECK_THROWS_AS(op.check(), Error);
  op.rule.groups = 12, op.rule.chosen_groups = 4, op.rule.group_score = ops::GroupScore::best_two;
  CHECK_THROWS_AS(op.check(), Error);
  op.rule = {};
  op.rule.balanced = true;  // of tokens whose positions are not told
  CHECK_THROWS_AS(op.check(), Error);
  op.logits = test.random({2, 1, 12}, DType::f32, 1), op.map = {5, 3, 0};
  CHECK_NOTHROW(op.check());
  op.map.seq0 = 4;
  CHECK_THROWS_AS(op.check(), Error);
  op.rule = {}, op.logits = test.random({2, 3}, DType::f32, 1);  // four of three
  CHECK_THROWS_AS(op.check(), Error);
}
