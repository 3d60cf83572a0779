// Ranks of ep wait for the one to which routing at random gives the most rows: in time, and not in memory.
#include <algorithm>
#include <cmath>

#include "engine/base/expected_largest.h"
#include "engine/framework/framework.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

constexpr std::int64_t kExperts = 32, kActive = 4, kSeq = 16384;

Point experts(EpCommunication how, std::int64_t ep) {
  Point p;
  p.model.family = "mixtral";
  p.model.layers = 2, p.model.hidden = 4096, p.model.heads = p.model.kv_heads = 32;
  p.model.ffn = p.model.expert_ffn = 4096, p.model.vocab = 1000, p.model.positions = p.seq = kSeq;
  p.model.experts = kExperts, p.model.active_experts = kActive;
  p.dp = p.ep = ep, p.global_batch = 2 * ep;
  p.precision = Precision::bf16, p.attention = AttentionKind::flash, p.dropout = 0;
  p.ep_communication = how;
  p.framework = read_framework("megatron-core", "test");
  return p;
}

// `at_random`: as the framework draws experts, in place of equal shares.
PointResult drawn(const Point& p, bool at_random) {
  Plan plan = strategies::make_plan(p);
  Framework framework = *plan.framework;
  REQUIRE(framework.keeps.balance_at_random);
  framework.keeps.balance_at_random = at_random;
  plan.framework = std::make_shared<Framework>(framework);
  return simulate_point(p, plan, find_machine("H100-SXM5-80GB", "test"), 8).result;
}

}  // namespace

TEST_CASE("exchanges of rows that are drawn at random take as long as those of the fullest rank") {
  const Point p = experts(EpCommunication::all_to_all, 8);
  const PointResult even = drawn(p, false), random = drawn(p, true);
  CHECK(random.peak_memory_mib == even.peak_memory_mib);
  CHECK(random.reserved_memory_mib == even.reserved_memory_mib);
  // Of a token's 4 experts of 32 a rank has 4 / 8 on average, and of all tokens the fullest of 8 has 1.42 deviations more.
  const double rows = kSeq * kActive, variance = (1 - 1.0 / 8) * (kExperts - kActive) / (kExperts - 1) / rows;
  const double fullest = 1 + expected_largest(8) * std::sqrt(variance);
  const double took =
      (*random.time_anatomy_ms)[TimePart::communication_ep] / (*even.time_anatomy_ms)[TimePart::communication_ep];
  CHECK(took - 1 == Approx(fullest - 1).epsilon(0.02));  // but for the exchange of counts
  CHECK((*random.time_anatomy_ms)[TimePart::elementwise] > (*even.time_anatomy_ms)[TimePart::elementwise]);
  CHECK((*random.time_anatomy_ms)[TimePart::attention] == (*even.time_anatomy_ms)[TimePart::attention]);
  CHECK(random.iteration_ms->mean > even.iteration_ms->mean);
}

TEST_CASE("a rank that has all experts waits for none") {
  const Point p = experts(EpCommunication::all_to_all, 1);
  CHECK((*drawn(p, true).time_anatomy_ms)[TimePart::elementwise] ==
        (*drawn(p, false).time_anatomy_ms)[TimePart::elementwise]);
}

TEST_CASE("tokens visit fewer ranks where their experts are drawn, and their numbers vary less than those of rows") {
  const Point p = experts(EpCommunication::flex, 8);
  const PointResult even = drawn(p, false), random = drawn(p, true);
  CHECK(random.peak_memory_mib == even.peak_memory_mib);
  // With equal shares a token's 4 experts are on 4 of 8 ranks. At random a rank has none of them in so many cases:
  const double visits = 1 - 28.0 * 27 * 26 * 25 / (32.0 * 31 * 30 * 29), tokens = 8 * kSeq;
  const double fullest =
      visits / (kActive / 8.0) * (1 + expected_largest(8) * std::sqrt((1 - visits) / (visits * tokens)));
  const double took =
      (*random.time_anatomy_ms)[TimePart::communication_ep] / (*even.time_anatomy_ms)[TimePart::communication_ep];
  CHECK(took - 1 == Approx(fullest - 1).epsilon(0.02));  // but for the exchange of counts
}
