// State in host memory: how many bytes lie where and how many go over, in closed form; and that it changes no bit.
#include <nlohmann/json.hpp>

#include "engine/point/architecture.h"
#include "engine/sim/run/counting.h"
#include "engine/sim/run/simulate.h"
#include "test/catch.h"
#include "test/engine/train/serial_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::train;
using namespace mbench::test;

namespace {

constexpr int kRanks = 4;

// Sizes that four ranks cut without padding; tables of their own for words and for logits.
Point point_of(Precision precision, Zero zero, Offload offload, std::int64_t micro_batches) {
  const nlohmann::json fields = {{"model",
                                  {{"family", "gpt"},
                                   {"layers", 3},
                                   {"hidden", 256},
                                   {"heads", 4},
                                   {"ffn", 512},
                                   {"vocab", 512},
                                   {"positions", 256},
                                   {"tied_embedding", false}}}};
  Point p = point_from_json(fields, "test");
  p.seq = 256;
  p.precision = precision;
  p.zero = zero;
  p.offload = offload;
  p.dp = kRanks;
  p.global_batch = kRanks * micro_batches;
  return p;
}

struct Counted {
  std::int64_t parameters = 0;
  MemoryUse device, host;  // between steps
  double copied = 0;       // bytes between them in a step
};

Counted count(const Point& p) {
  const Plan plan = strategies::make_plan(p);
  const auto device = open_counting_device(0);
  const auto world = lone_world(1, kRanks);
  Trainer trainer(plan, *device, *world, nullptr);
  trainer.step();
  device->reset_meters();
  trainer.step();
  Counted c{parameter_count(p.model, 1), device->memory().in_use(), {}, device->meter().host_copy_bytes};
  if (const Device* host = device->opened_host()) c.host = host->memory().in_use();
  return c;
}

std::int64_t of(const MemoryUse& use, Category category) {
  return static_cast<std::int64_t>(use.by_category[static_cast<std::size_t>(category)]);
}

std::int64_t block(std::int64_t bytes) {
  return static_cast<std::int64_t>(Arena::rounded(static_cast<std::size_t>(bytes)));
}

constexpr std::int64_t kNorm = static_cast<std::int64_t>(Arena::kRounding);

}  // namespace

TEST_CASE(
    "offload: 12 bytes a parameter of optimizer state lie in host memory, and a step copies gradients and weights") {
  struct Stage {
    Zero zero;
    int weights, gradients, optimizer;  // over how many ranks each is sharded
  };
  constexpr int k = kRanks;
  for (const Stage& stage : {Stage{Zero::none, 1, 1, 1}, Stage{Zero::stage_1, 1, 1, k}, Stage{Zero::stage_2, 1, k, k},
                             Stage{Zero::stage_3, k, k, k}, Stage{Zero::fsdp, k, k, k}})
    for (const Precision precision : {Precision::f32, Precision::bf16, Precision::fp16})
      for (const Offload offload : {Offload::optimizer, Offload::all}) {
        if (offload == Offload::all && stage.weights == 1) continue;
        INFO("zero " << name_of(stage.zero) << ", " << name_of(precision) << ", offload " << name_of(offload));
        constexpr std::int64_t kMicroBatches = 2;
        const Counted c = count(point_of(precision, stage.zero, offload, kMicroBatches));
        REQUIRE(c.parameters % (kRanks * 64) == 0);  // no padding
        const bool all = offload == Offload::all, f32 = precision == Precision::f32;
        const std::int64_t weight = f32 ? 4 : 2, gradient = precision == Precision::fp16 ? 2 : 4;
        const std::int64_t owned = c.parameters / stage.optimizer, chunk = std::min(owned, HostUpdate::kChunk);
        const std::int64_t weights = block(weight * c.parameters / stage.weights);
        CHECK(of(c.device, Category::weights) == (all ? 0 : weights));
        CHECK(of(c.device, Category::gradients) == block(gradient * c.parameters / stage.gradients));
        CHECK(of(c.device, Category::optimizer) == kNorm);
        // Moments and the f32 originals, which are the weights themselves where those are f32 and there too.
        CHECK(of(c.host, Category::optimizer) == (all && f32 ? 2 : 3) * block(4 * owned));
        CHECK(of(c.host, Category::gradients) == 2 * block(gradient * chunk));
        CHECK(of(c.host, Category::weights) == (all ? weights : f32 ? 0 : 2 * block(weight * chunk)));
        CHECK(of(c.host, Category::workspace) + of(c.host, Category::activations) + of(c.host, Category::other) == 0);
        // Weights of the host come for every forward and every backward.
        const std::int64_t brought = all ? 2 * kMicroBatches : 1;
        CHECK(c.copied == static_cast<double>(owned * (gradient + brought * weight)));
      }
}

// The device keeps f32 main weights. The host has a copy of them next to the moments, which it updates and sends back.
TEST_CASE("offload of moments: 8 bytes a parameter leave the device, and f32 weights come back") {
  for (const auto& [zero, sharers] : {std::pair(Zero::none, 1), std::pair(Zero::stage_1, kRanks),
                                      std::pair(Zero::stage_2, kRanks), std::pair(Zero::fsdp, kRanks)})
    for (const Precision precision : {Precision::bf16, Precision::fp16})
      for (const char* framework : {"mbench", "megatron-core"}) {
        INFO("zero " << name_of(zero) << ", " << name_of(precision) << ", " << framework);
        Point p = point_of(precision, zero, Offload::moments, 2);
        p.framework.preset = framework;
        const Counted c = count(p);
        p.offload = Offload::none;
        const Counted none = count(p);
        const std::int64_t owned = c.parameters / sharers, chunk = std::min(owned, HostUpdate::kChunk);
        CHECK(of(none.device, Category::optimizer) - of(c.device, Category::optimizer) == 2 * block(4 * owned));
        for (const Category same : {Category::weights, Category::gradients})
          CHECK(of(none.device, same) == of(c.device, same));
        CHECK(of(c.host, Category::optimizer) == 3 * block(4 * owned));
        CHECK(of(c.host, Category::weights) == 0);
        // Megatron-Core has f32 gradients made for its main weights before any goes over.
        const std::int64_t gradient = precision == Precision::fp16 && p.framework.preset == "mbench" ? 2 : 4;
        CHECK(of(c.host, Category::gradients) == 2 * block(gradient * chunk));
        CHECK(c.copied == static_cast<double>(owned * (gradient + 4)));
      }
}

TEST_CASE("offload changes no bit of a training run on one rank, overflows of fp16 included") {
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::fp16})
    for (const Graph graph : {Graph::fused, Graph::eager}) {
      Point p = point_of(precision, Zero::stage_3, Offload::none, 2);
      p.model.hidden = 64, p.model.ffn = 128, p.model.layers = 2;
      p.seq = 32;
      p.dp = 1, p.global_batch = 2;
      p.framework = keeps(graph);
      p.iterations = 6, p.warmup = 0;
      p.learning_rate = 1e-2;
      const PointResult none = run_serially(p);
      CHECK_FALSE(none.host_memory_mib);
      for (const Offload offload : {Offload::moments, Offload::optimizer, Offload::all}) {
        if (offload == Offload::moments && precision == Precision::f32) continue;
        INFO(name_of(precision) << ", graph " << name_of(graph) << ", offload " << name_of(offload));
        p.offload = offload;
        const PointResult there = run_serially(p);
        REQUIRE(there.outcome == Outcome::ok);
        CHECK(there.skipped_steps == none.skipped_steps);
        if (precision == Precision::fp16 && graph == Graph::eager && offload != Offload::moments) {
          // On the device fp16 gradients are scaled as they are copied to f32; the host reads them as they are.
          for (std::size_t i = 0; i < none.losses.size(); ++i)
            CHECK(there.losses[i] == Approx(none.losses[i]).epsilon(1e-6));
        } else {
          CHECK(there.losses == none.losses);
          CHECK(there.gradient_norms == none.gradient_norms);
        }
        CHECK(*there.peak_memory_mib < *none.peak_memory_mib);
        REQUIRE(there.host_memory_mib);
        double sum = 0;
        for (const double part : there.host_memory_anatomy_mib->mib) sum += part;
        CHECK(sum == Approx(*there.host_memory_mib));
        CHECK((*there.time_anatomy_ms)[TimePart::optimizer] > 0);
        CHECK((*there.time_anatomy_ms)[TimePart::copies] > 0);
      }
    }
}

// Gradients go over once they are reduced, in their type on the device, and are summed there in f32. So they take nothing of the device
// between steps.
TEST_CASE("offload of gradients: they lie in host memory, 4 bytes a parameter, and go there each micro batch") {
  constexpr std::int64_t kMicroBatches = 2;
  for (const Zero zero : {Zero::stage_2, Zero::stage_3, Zero::fsdp})
    for (const Precision precision : {Precision::f32, Precision::bf16, Precision::fp16})
      for (const Offload offload : {Offload::optimizer_and_gradients, Offload::all_and_gradients}) {
        const bool all = offloads_weights(offload), sharded = zero != Zero::stage_2, f32 = precision == Precision::f32;
        if (all && !sharded) continue;
        INFO("zero " << name_of(zero) << ", " << name_of(precision) << ", offload " << name_of(offload));
        const Counted c = count(point_of(precision, zero, offload, kMicroBatches));
        const std::int64_t owned = c.parameters / kRanks, weight = f32 ? 4 : 2,
                           gradient = precision == Precision::fp16 ? 2 : 4;
        CHECK(of(c.device, Category::gradients) == 0);
        CHECK(of(c.device, Category::optimizer) == kNorm);
        // And room for a bucket's part that has come.
        const std::int64_t landing = of(c.host, Category::gradients) - block(4 * owned);
        CHECK(landing > gradient * owned / 8);
        CHECK(landing <= block(gradient * (sharded ? owned / 2 : owned)));  // one bucket of all, or one of each unit
        CHECK(of(c.host, Category::optimizer) == (all && f32 ? 2 : 3) * block(4 * owned) + kNorm);
        const std::int64_t brought = all ? 2 * kMicroBatches : 1;
        CHECK(c.copied == static_cast<double>(owned * (kMicroBatches * gradient + brought * weight) + 4));
      }
}

// Each micro batch's are summed before they are added, where on the device they are added one by one.
TEST_CASE("offload of gradients trains as on the device") {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    Point p = point_of(precision, Zero::stage_3, Offload::optimizer, 2);
    p.model.hidden = 64, p.model.ffn = 128, p.model.layers = 2;
    p.seq = 32;
    p.dp = 1, p.global_batch = 2;
    p.iterations = 3, p.warmup = 0;
    p.learning_rate = 1e-2;
    const PointResult on_device = run_serially(p);
    for (const Offload offload : {Offload::optimizer_and_gradients, Offload::all_and_gradients}) {
      INFO(name_of(precision) << ", offload " << name_of(offload));
      p.offload = offload;
      const PointResult there = run_serially(p);
      REQUIRE(there.losses.size() == on_device.losses.size());
      for (std::size_t i = 0; i < there.losses.size(); ++i) {
        CHECK(there.losses[i] == Approx(on_device.losses[i]).epsilon(1e-5));
        CHECK(there.gradient_norms[i] == Approx(on_device.gradient_norms[i]).epsilon(1e-4));
      }
      CHECK(*there.peak_memory_mib < *on_device.peak_memory_mib);
    }
  }
}

TEST_CASE("a larger model fits a limit on the device's memory when its state lives with the host") {
  const auto layers_that_fit = [](Offload offload) {
    std::int64_t layers = 0;
    for (;; ++layers) {
      Point p = point_of(Precision::bf16, Zero::stage_3, offload, 1);
      p.model.layers = layers + 1;
      try {
        forecast_memory(strategies::make_plan(p), std::size_t{64} << 20);
      } catch (const OutOfMemory&) {
        return layers;
      }
    }
  };
  const std::int64_t none = layers_that_fit(Offload::none), moments = layers_that_fit(Offload::moments),
                     optimizer = layers_that_fit(Offload::optimizer), all = layers_that_fit(Offload::all),
                     gradients = layers_that_fit(Offload::all_and_gradients);
  CHECK(none < moments);
  CHECK(moments < optimizer);
  CHECK(optimizer < all);
  CHECK(all < gradients);
}

TEST_CASE("simulated: host memory has a limit, slower parts take longer, and a machine must know its host's memory") {
  Point p = point_of(Precision::bf16, Zero::stage_3, Offload::all, 2);
  Machine machine = find_machine("A100-SXM4-80GB", "test");
  const auto simulate = [&] { return simulate_point(p, strategies::make_plan(p), machine, kRanks); };
  const Simulation all = simulate();
  REQUIRE(all.host_peak_by_stage.size() == 1);
  CHECK(*all.result.host_memory_mib == static_cast<double>(all.host_peak_by_stage[0].total) / 1048576);
  CHECK((*all.result.time_anatomy_ms)[TimePart::copies] > 0);
  p.offload = Offload::none;
  CHECK(simulate().result.iteration_ms->mean < all.result.iteration_ms->mean);
  CHECK_FALSE(simulate().result.host_memory_mib);
  p.offload = Offload::all;
  for (double MachineHost::*figure :
       {&MachineHost::memory_bandwidth, &MachineHost::adam_efficiency, &MachineHost::copy_bandwidth}) {
    const double before = machine.host.*figure;
    machine.host.*figure /= 8;
    CHECK(simulate().result.iteration_ms->mean > all.result.iteration_ms->mean);
    machine.host.*figure = before;
  }
  machine.host.memory_bytes = kRanks * (all.host_reserved_by_stage[0] - 1);
  CHECK_THROWS_AS(simulate(), OutOfMemory);
  machine.host.memory_bytes = kRanks * all.host_reserved_by_stage[0];
  CHECK(simulate().result.outcome == Outcome::ok);
  machine.host.copy_bandwidth = 0;
  CHECK_THROWS_WITH(simulate(), Catch::Contains("need them or offload none"));
}
