// What a layer takes, from a stage that has nothing but a layer, against what one layer more adds to a stage with an end of the model.
#include "search/probes.h"

#include "search/small_model.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::search;

namespace {

Point point_of(const char* preset, std::int64_t seq) {
  Point p;
  p.model = find_preset(preset, "test");
  p.seq = seq;
  p.global_batch = 64;
  p.precision = Precision::bf16;
  p.attention = AttentionKind::flash;
  p.dropout = 0;
  p.dp = 4;
  return p;
}

std::vector<std::pair<const char*, Point>> layouts() {
  std::vector<std::pair<const char*, Point>> all;
  Point p = point_of("llama-bytes-3m", 256);
  all.emplace_back("dense", p);
  p.tp = 2, p.cp = 2, p.sequence_parallel = true, p.recompute = Recompute::selective;
  all.emplace_back("dense over tp and cp", p);
  p.cp_communication = CpCommunication::all_to_all, p.recompute = Recompute::full;
  all.emplace_back("dense, computed again", p);
  p = point_of("llama-bytes-3m", 256);
  p.precision = Precision::fp8, p.framework.preset = "megatron-core";
  all.emplace_back("FP8", p);
  p = point_of("mixtral-bytes-4m", 128);
  p.ep = 2, p.framework.preset = "megatron-core";
  all.emplace_back("experts with Megatron-Core", p);
  p = point_of("deepseek-v2-lite", 4096);
  p.ep = 4, p.tp = 2, p.sequence_parallel = true;
  all.emplace_back("experts and latent attention", p);
  p.recompute = Recompute::full;
  all.emplace_back("experts, computed again", p);
  p = point_of("mamba2-130m", 2048);
  all.emplace_back("state mixers", p);
  p = point_of("qwen3-next-80b-a3b", 1024);
  p.ep = 4;
  all.emplace_back("two mixers, with experts", p);
  return all;
}

}  // namespace

TEST_CASE("a layer between others takes what one layer more adds") {
  for (const char* name : {"H100-SXM5-80GB", "cpu"}) {
    const sim::Machine machine = sim::find_machine(name, "test");
    Probes probes(machine, mbench::search::Host::charged);
    for (const auto& [about, point] : layouts()) {
      const bool eight_bits = point.precision == Precision::fp8;
      if (machine.immediate && eight_bits) continue;
      INFO(name << ": " << about);
      REQUIRE(strategies::can_be(point));
      const Kinds kinds = kinds_of(point);
      for (std::size_t kind = 0; kind < kLayerKinds; ++kind) {
        if (!kinds[kind]) continue;
        INFO("kind " << kind);
        for (const std::int64_t micro_batch : {1, 2}) {
          ProbeKey alone = Probes::work_key(point, kind), apart = alone;
          alone.ends = AskedEnds::none, apart.ends = AskedEnds::apart;
          const auto &one = probes.work(alone, micro_batch), &more = probes.work(apart, micro_batch);
          REQUIRE(one);
          REQUIRE(more);
          for (Busy Work::*way : {&Work::forward, &Work::backward}) {
            const Busy &a = one->work.layer.*way, &b = more->work.layer.*way;
            CHECK(a.device > 0);
            CHECK(a.device == b.device);
            CHECK(a.host == b.host);
            CHECK(a.travelling == b.travelling);
            CHECK(a.joules == Approx(b.joules));  // sums of other terms
          }
          CHECK(one->layer_kept.bytes == more->layer_kept.bytes);
          CHECK(one->layer_kept.blocks == more->layer_kept.blocks);
          CHECK(more->work.first.forward.device > 0);
          CHECK(more->work.last.forward.device > 0);
        }
      }
    }
  }
}
