// Kept activations in host memory: how many bytes lie there and go over, in closed form; that they change no bit; what they free.
#include <nlohmann/json.hpp>

#include "engine/sim/run/counting.h"
#include "engine/sim/run/simulate.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"
#include "test/engine/train/serial_run.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::train;
using namespace mbench::test;
using nlohmann::json;

namespace {

constexpr std::int64_t kLayers = 4, kSeq = 64, kHidden = 64, kHeads = 4, kMicroBatches = 3;

Point point_of(const json& changes) {
  json fields = {{"model",
                  {{"family", "gpt"},
                   {"layers", kLayers},
                   {"hidden", kHidden},
                   {"heads", kHeads},
                   {"ffn", 256},
                   {"vocab", 128},
                   {"positions", kSeq}}},
                 {"seq", kSeq},
                 {"global_batch", kMicroBatches},
                 {"precision", "bf16"},
                 {"attention", "flash"}};
  fields.merge_patch(changes);
  return point_from_json(fields, "test");
}

const json kExperts = {{"family", "mixtral"}, {"layers", kLayers}, {"hidden", kHidden}, {"heads", kHeads},
                       {"kv_heads", kHeads},  {"ffn", 96},         {"experts", 4},      {"active_experts", 2},
                       {"vocab", 128},        {"positions", kSeq}};

struct Counted {
  std::int64_t device = 0, host = 0;  // at the peak of a step
  double copied = 0;                  // bytes in a step, both ways
};

Counted count(const Point& p) {
  const Plan plan = strategies::make_plan(p);
  const auto device = open_counting_device(0);
  const auto world = lone_world(0, 1);
  Trainer trainer(plan, *device, *world, nullptr);
  trainer.step();
  device->reset_meters();
  device->memory().reset_peak();
  trainer.step();
  Counted c{static_cast<std::int64_t>(device->memory().peak().total), 0, device->meter().host_copy_bytes};
  if (const Device* host = device->opened_host()) {
    c.host = static_cast<std::int64_t>(host->memory().peak().total);
    CHECK(host->memory().in_use().total == 0);
  }
  return c;
}

std::int64_t block(std::int64_t bytes) {
  return static_cast<std::int64_t>(Arena::rounded(static_cast<std::size_t>(bytes)));
}

}  // namespace

TEST_CASE("activations of each part: its bytes lie on the host, once for every layer but the one before the head") {
  struct Part {
    const char* name;
    json model;                         // null: GPT
    std::vector<std::int64_t> tensors;  // bytes that the part keeps of a layer
  };
  constexpr std::int64_t hidden = 2 * kSeq * kHidden, statistics = 4 * kSeq, rows = 2 * kSeq;
  for (const Part& part :
       {Part{"attn_norm", nullptr, {hidden, statistics, statistics}},
        Part{"mlp_norm", nullptr, {hidden, statistics, statistics}}, Part{"qkv_linear", nullptr, {hidden}},
        Part{"core_attn", nullptr, {3 * hidden, 4 * kSeq * kHeads}}, Part{"attn_proj", nullptr, {hidden}},
        Part{"expert_fc1", kExperts, {2 * rows * kHidden}}, Part{"moe_act", kExperts, {2 * rows * 2 * 96}}}) {
    INFO(part.name);
    json fields = {{"offload_activations", part.name}};
    if (!part.model.is_null()) fields["model"] = part.model;
    const Counted c = count(point_of(fields));
    std::int64_t kept = 0, bytes = 0;
    for (const std::int64_t tensor : part.tensors) kept += block(tensor), bytes += tensor;
    CHECK(c.host == (kLayers - 1) * kept);
    CHECK(c.copied == 2.0 * kMicroBatches * static_cast<double>((kLayers - 1) * bytes));
  }
}

TEST_CASE("activations of whole layers: as many lie on the host as are asked for, and small tensors where they were") {
  const auto of = [](const json& offloaded, std::int64_t least = 0) {
    return count(point_of({{"offload_activations", offloaded}, {"min_offloaded_tensor_size", least}}));
  };
  const Counted none = of("none"), one = of("layers:1"), two = of("layers:2"), all = of("layers:4");
  CHECK(none.host == 0);
  CHECK(none.copied == 0);
  CHECK(one.host > 8 * block(2 * kSeq * kHidden));
  CHECK(two.host == 2 * one.host);
  CHECK(all.host == 3 * one.host);
  CHECK(all.copied == 3 * one.copied);
  // The peak is with the head's logits or where the last layer's backward begins: neither has the layers that are on the host, but one
  // that comes.
  CHECK(all.device < none.device - one.host);
  CHECK(of("layers:4", kSeq + 1).host < all.host);
  CHECK(of("layers:4", kSeq * kHidden).host > all.host / 2);
  CHECK(of("layers:4", 1 << 24).host == 0);
}

TEST_CASE("activations on the host change no bit of a training run") {
  const json mixtral = kExperts;
  const char* parts = "attn_norm+qkv_linear+core_attn+attn_proj+mlp_norm";
  const std::string with_experts = std::string(parts) + "+expert_fc1+moe_act";
  for (const json& kind : {json{{"precision", "f32"}, {"attention", "core"}}, json{{"precision", "bf16"}},
                           json{{"precision", "fp16"}, {"graph", "eager"}, {"attention", "core"}},
                           json{{"precision", "fp8"}, {"fp8_recipe", "delayed"}},
                           json{{"framework", "megatron-core"}, {"recompute", "core_attention+norm"}},
                           json{{"model", mixtral}, {"router", "learned"}},
                           json{{"model", mixtral}, {"recompute", "moe_act+norm"}, {"framework", "megatron-core"}}}) {
    json fields = kind;
    fields["dropout"] = 0.1, fields["iterations"] = 3, fields["warmup"] = 0, fields["learning_rate"] = 1e-2;
    const PointResult none = run_serially(point_of(fields));
    REQUIRE(none.outcome == Outcome::ok);
    const bool norm = kind.value("recompute", "").find("norm") != std::string::npos;
    const std::string some = norm ? "attn_norm+core_attn+attn_proj+mlp_norm" : parts;
    for (const std::string& offloaded : {std::string("layers:2"), std::string("layers:4"),
                                         !kind.contains("model") ? some
                                         : norm                  ? some + "+expert_fc1+moe_act"
                                                                 : with_experts}) {
      INFO(kind.dump() << ", " << offloaded);
      fields["offload_activations"] = offloaded;
      const PointResult there = run_serially(point_of(fields));
      REQUIRE(there.outcome == Outcome::ok);
      CHECK(there.losses == none.losses);
      CHECK(there.gradient_norms == none.gradient_norms);
      CHECK(*there.peak_memory_mib < *none.peak_memory_mib);
      REQUIRE(there.host_memory_mib);
      CHECK(*there.host_memory_mib > 0);
      CHECK((*there.time_anatomy_ms)[TimePart::copies] > 0);
    }
  }
}

TEST_CASE("simulated copies of activations overlap with compute, and are waited for where they take longer") {
  const auto simulated_ms = [](const std::string& offloaded, double gbps) {
    Point p = point_of({{"model", "llama-2-7b"}, {"seq", 2048}, {"global_batch", 4}});
    p.model.layers = 8;
    p.offload_activations = read_offloaded_activations(offloaded, "test");
    Machine machine = find_machine("H100-SXM5-80GB", "test");
    machine.host.copy_bandwidth = gbps * 1e9;
    return simulated(p, machine, find_framework("mbench", "test")).result;
  };
  const PointResult none = simulated_ms("none", 55), parts = simulated_ms("core_attn+attn_proj", 55),
                    layers = simulated_ms("layers:8", 55), slow = simulated_ms("layers:8", 5);
  // A layer's activations of 2,048 tokens take 6 ms at 55 GB/s, its forward half of that; a part of them takes less than it.
  CHECK(parts.iteration_ms->mean < 1.02 * none.iteration_ms->mean);
  CHECK(layers.iteration_ms->mean > 1.02 * none.iteration_ms->mean);
  CHECK((*layers.time_anatomy_ms)[TimePart::copies] > (*none.time_anatomy_ms)[TimePart::copies]);
  CHECK(*layers.peak_memory_mib < *parts.peak_memory_mib);
  CHECK(*parts.peak_memory_mib < *none.peak_memory_mib);
  // At 5 GB/s copies are all that a micro batch takes: each way in turn.
  const double seconds = 4 * 2 * *slow.host_memory_mib * 1048576 / 5e9;
  CHECK(slow.iteration_ms->mean > 1e3 * seconds);
  CHECK(slow.iteration_ms->mean < 1e3 * seconds + none.iteration_ms->mean);
}
