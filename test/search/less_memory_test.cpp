// Which change frees memory: what is said against plans of the changed points.
#include "search/less_memory.h"

#include <algorithm>

#include "engine/sim/run/counting.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;

namespace {

Point layout() {
  Point p;
  p.model = {"small", "gpt", 8, 512, 8, 2048, 4000, 512};
  p.seq = 512;
  p.precision = Precision::bf16;
  p.tp = 2, p.dp = 4, p.micro_batch = 4, p.global_batch = 32;
  p.framework.preset = "megatron-core";
  return p;
}

Simulation timed(const Point& p, double ms) {
  Simulation s;
  s.result.point = p;
  s.result.iteration_ms.emplace();
  s.result.iteration_ms->mean = ms;
  return s;
}

}  // namespace

TEST_CASE("each change says what it frees, the most first, and what its step takes more") {
  const Point p = layout();
  const auto said = search::less_memory(
      p, 100.0, [&](const Point& q) { return timed(q, q.recompute == Recompute::full ? 130 : 90); });
  const auto named = [&](const std::string& name) {
    return std::find_if(said.begin(), said.end(), [&](const auto& s) { return s.change == name; });
  };
  REQUIRE(named("recompute full") != said.end());
  CHECK(*named("recompute full")->more_time == Approx(0.3));
  CHECK(*named("half the micro_batch")->more_time == Approx(-0.1));
  Point half = p;
  half.micro_batch = 2;
  const auto most = [](const Point& q) {
    std::size_t all = 0;
    for (const MemoryUse& use : forecast_memory(strategies::make_plan(q), 0).peak_by_stage)
      all = std::max(all, use.total);
    return static_cast<double>(all) / 1048576;
  };
  CHECK(named("half the micro_batch")->freed_mib == Approx(most(p) - most(half)));
  CHECK(named("zero 1") != said.end());
  CHECK(named("sequence_parallel true") != said.end());
  CHECK(named("zero 3") == said.end());  // not in megatron-core
  REQUIRE(named("offload moments") != said.end());
  REQUIRE(named("offload optimizer") != said.end());
  CHECK(named("offload optimizer")->freed_mib == Approx(1.5 * named("offload moments")->freed_mib).epsilon(0.01));
  for (const char* activations : {"offload_activations core_attn+attn_proj", "offload_activations layers:7"})
    CHECK(named(activations) != said.end());
  for (const char* elsewhere : {"offload all", "offload optimizer+gradients"}) CHECK(named(elsewhere) == said.end());
  CHECK(
      std::is_sorted(said.begin(), said.end(), [](const auto& a, const auto& b) { return a.freed_mib > b.freed_mib; }));
}

TEST_CASE("gradients in host memory are a way to memory where the framework has it") {
  Point p = layout();
  p.tp = 1, p.zero = Zero::fsdp, p.framework.preset = "torch-eager";
  const auto said = search::less_memory(p, 100.0, [](const Point& q) { return timed(q, 100); });
  std::vector<std::string> offloads;
  for (const auto& s : said)
    if (s.change.starts_with("offload ")) offloads.push_back(s.change);
  CHECK(offloads == std::vector<std::string>{"offload all+gradients"});
}

TEST_CASE("what is done already is no change, and what does not fit is said to free memory all the same") {
  Point p = layout();
  p.recompute = Recompute::full;
  p.zero = Zero::stage_1;
  p.micro_batch = 1;
  const auto said = search::less_memory(p, std::nullopt, [](const Point&) -> Simulation {
    throw OutOfMemory(ErrorKind::out_of_memory, "rank 0", "full");
  });
  CHECK_FALSE(said.empty());
  for (const auto& s : said) {
    INFO(s.change);
    CHECK_FALSE(s.fits);
    CHECK_FALSE(s.more_time);
    CHECK(s.change.rfind("recompute", 0) == std::string::npos);
    CHECK(s.change != "zero 1");
    CHECK(s.change != "half the micro_batch");
  }
}
