// What a framework on PyTorch reserves: a replay of recorded micro batches against the allocator fed by a run of every op, and a
// simulation's rows.
#include <algorithm>
#include <unordered_map>

#include "engine/point/fields.h"
#include "engine/sim/play/replay_memory.h"
#include "engine/sim/run/counting.h"
#include "engine/train/trainer.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"
#include "test/engine/sim/threaded/threaded_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::nn;
using namespace mbench::sim;
using namespace mbench::train;
using namespace mbench::test;
using Catch::Contains;

namespace {

constexpr double kMib = 1048576;

Point small(std::int64_t pp, std::int64_t micro_batches, std::string_view framework = "megatron-core") {
  Point p;
  p.model = {"small", "gpt", 8, 512, 8, 2048, 4000, 512};
  p.seq = 512;
  p.precision = Precision::bf16;
  p.pp = pp, p.micro_batch = 2, p.global_batch = 2 * micro_batches;
  p.framework = FrameworkSpec{.preset = std::string(framework)};
  return p;
}

// What every op hands out, taken from a caching allocator at once; states of the optimizer when the first step has gone back.
class Watched final : public AllocationObserver {
 public:
  Watched(const sim::CachingSettings& settings, const Plan& plan) : allocator(settings, 0), plan_(plan) {}

  void allocated(const std::byte* block, std::size_t size, Category category, std::string_view what) override {
    const auto& states = plan_.optimizer.states;
    if (category == Category::optimizer &&
        std::any_of(states.begin(), states.end(), [&](const OptimizerState& s) { return s.name == what; }))
      states_.push_back(size);
    else
      held_[block] = {allocator.take(size, category, what), size, category};
  }
  void released(const std::byte* block) override {
    const auto [at, size, category] = held_.at(block);
    allocator.give(at, size, category);
    held_.erase(block);
  }
  // Of each state a block for each weight tensor, in proportion.
  void make_states(const ParameterStore& store) {
    std::vector<double> own;
    double all = 0;
    for (const auto& p : store.all())
      if (const Tensor gradient = store.own_gradient(*p))
        own.push_back(static_cast<double>(gradient.numel())), all += own.back();
    for (const std::size_t size : std::exchange(states_, {})) {
      std::size_t left = size;
      for (const double elements : own) {
        const auto part = static_cast<std::size_t>(elements / all * static_cast<double>(size));
        left -= part;
        allocator.take(part, Category::optimizer, "a state");
      }
      if (left > 0) allocator.take(left, Category::optimizer, "a state");
    }
  }
  sim::CachingAllocator allocator;

 private:
  const Plan& plan_;
  std::vector<std::size_t> states_;
  std::unordered_map<const std::byte*, std::tuple<std::size_t, std::size_t, Category>> held_;
};

}  // namespace

TEST_CASE("what PyTorch's allocator reserves by a replay is what it reserves where every op is run") {
  for (const char* settings : {"", "expandable_segments:True", "max_split_size_mb:21", "roundup_power2_divisions:8"})
    for (const std::int64_t pp : {1, 2, 4})
      for (const std::int64_t micro_batches : {1, 2, 9})
        for (const bool whole : {false, true}) {
          INFO(settings << ", pp " << pp << ", " << micro_batches << " micro batches, recompute " << whole);
          Point p = small(pp, micro_batches);
          if (whole) p.recompute = Recompute::full;
          const Plan plan = strategies::make_plan(p);
          const sim::CachingSettings caching = sim::changed_by(sim::CachingSettings{}, settings, "test");
          const auto recording = sim::record(plan, 8, nullptr, nullptr);
          const auto replayed = sim::replay_memory(plan, recording, 0, caching);
          for (std::size_t stage = 0; stage < replayed.size(); ++stage) {
            const auto device = open_counting_device(0);
            Watched watched(caching, plan);
            device->memory().observe(&watched);
            const auto world = lone_world(static_cast<int>(stage), static_cast<int>(pp));
            Trainer trainer(plan, *device, *world, nullptr);
            std::size_t before = 0;
            for (int step = 0; step < 6 && (step < 2 || watched.allocator.reserved() != before); ++step) {
              before = watched.allocator.reserved();
              trainer.step([&](const Action* a) {
                if (!a) watched.make_states(trainer.parameters());
              });
            }
            CHECK(replayed[stage].reserved == watched.allocator.reserved());
            CHECK(replayed[stage].peak.total == watched.allocator.peak().total);
            CHECK(replayed[stage].peak.by_category == watched.allocator.peak().by_category);
            device->memory().observe(nullptr);
          }
        }
}

TEST_CASE(
    "a framework on PyTorch hands out the same to the byte and reserves more than an allocator without fragments") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  for (const char* name : {"megatron-core", "torchtitan"}) {
    const Point p = small(2, 8, name);
    Framework framework = find_framework(name, "test");
    REQUIRE(framework.memory.caching);
    const Simulation caching = simulate_point(p, plan_on(framework, p), machine, 2);
    framework.memory.caching = false;
    const Simulation own = simulate_point(p, plan_on(framework, p), machine, 2);
    INFO(name);
    CHECK(caching.result.peak_memory_mib == own.result.peak_memory_mib);
    CHECK(*caching.result.reserved_memory_mib >= *caching.result.peak_memory_mib);
    CHECK(caching.reserved_by_stage != own.reserved_by_stage);
    CHECK(caching.result.iteration_ms->mean == own.result.iteration_ms->mean);
  }
}

TEST_CASE("graphs of parts have memory of their own, in a replay of recordings as where every op is run") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  for (const std::int64_t pp : {1, 2}) {
    INFO("pp " << pp);
    Point p = small(pp, 4);
    const Simulation without = simulate_point(p, strategies::make_plan(p), machine, 2);
    p.capture = CapturedParts{CapturedPart::attention, CapturedPart::mlp};
    const Plan plan = strategies::make_plan(p);
    const Simulation replayed = simulate_point(p, plan, machine, 2);
    const Simulation run = run_in_threads(p, plan, machine, 2);
    for (std::size_t s = 0; s < replayed.reserved_by_stage.size(); ++s) {
      INFO("stage " << s);
      CHECK(replayed.peak_by_stage[s].total == run.peak_by_stage[s].total);
      CHECK(replayed.reserved_by_stage[s] > without.reserved_by_stage[s]);
      CHECK(run.reserved_by_stage[s] > without.reserved_by_stage[s]);
    }
  }
}

TEST_CASE("what a framework gathers on a stream of its own is not there for what it computes") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  for (const auto& [name, zero] : {std::pair("torchtitan", Zero::fsdp), std::pair("deepspeed", Zero::stage_3)}) {
    INFO(name);
    Point p = small(1, 8, name);
    p.dp = 8, p.zero = zero, p.micro_batch = 1;
    Framework framework = find_framework(name, "test");
    REQUIRE(framework.memory.own_streams[static_cast<std::size_t>(MemoryStream::gathers)]);
    const Simulation apart = simulate_point(p, plan_on(framework, p), machine, 8);
    framework.memory.own_streams = {};
    const Simulation one = simulate_point(p, plan_on(framework, p), machine, 8);
    CHECK(apart.result.peak_memory_mib == one.result.peak_memory_mib);
    // In pools of their own blocks may fit better, or worse.
    CHECK(*apart.result.reserved_memory_mib != *one.result.reserved_memory_mib);
    if (zero == Zero::fsdp) CHECK(*apart.result.reserved_memory_mib > *one.result.reserved_memory_mib);
    CHECK(apart.result.iteration_ms->mean == one.result.iteration_ms->mean);
  }
}

TEST_CASE("weights that DeepSpeed records on the compute stream come back a layer late") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  Point p = small(1, 8, "deepspeed");
  p.dp = 8, p.zero = Zero::stage_3, p.micro_batch = 1;
  Framework framework = find_framework("deepspeed", "test");
  REQUIRE(framework.memory.recorded[static_cast<std::size_t>(MemoryStream::gathers)]);
  const Simulation recorded = simulate_point(p, plan_on(framework, p), machine, 8);
  framework.memory.recorded = {};
  const Simulation at_once = simulate_point(p, plan_on(framework, p), machine, 8);
  CHECK(recorded.result.peak_memory_mib == at_once.result.peak_memory_mib);
  // A layer of 512 wide has 12 * 512 * 512 weights of 16 bits in its matrices.
  CHECK(*recorded.result.reserved_memory_mib - *at_once.result.reserved_memory_mib >= 6);
  CHECK(recorded.result.iteration_ms->mean == at_once.result.iteration_ms->mean);
}

TEST_CASE("PYTORCH_CUDA_ALLOC_CONF in the environment of a point decides what is reserved") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  const auto reserved = [&](const std::map<std::string, std::string>& env) {
    Point p = small(2, 8);
    p.env = env;
    return *simulate_point(p, strategies::make_plan(p), machine, 2).result.reserved_memory_mib;
  };
  CHECK(reserved({{"PYTORCH_CUDA_ALLOC_CONF", "large_segment_size_mb:512"}}) > reserved({}));
  CHECK_THROWS_WITH(reserved({{"PYTORCH_CUDA_ALLOC_CONF", "expandable:True"}}),
                    Contains("env.PYTORCH_CUDA_ALLOC_CONF") && Contains("unknown key"));
}

TEST_CASE(
    "a device that reserved memory fills is out of memory, and one that is nearly full returns segments each step") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  bool retried = false;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    INFO(name_of(recompute));
    Point p = small(1, 2);
    p.recompute = recompute;
    const Plan plan = strategies::make_plan(p);
    const PointResult free = simulate_point(p, plan, machine, 1).result;
    CHECK(free.reason.empty());
    std::uint64_t fits = 0;
    for (auto limit = static_cast<std::uint64_t>(*free.reserved_memory_mib * kMib); limit > 0;
         limit -= std::uint64_t{2} << 20) {
      p.memory_limit = limit;
      try {
        const PointResult r = simulate_point(p, plan, machine, 1).result;
        fits = limit;
        const bool retries = r.reason.find("returns cached segments") != std::string::npos;
        retried = retried || retries;
        // The driver's calls, and a device that has nothing to do meanwhile.
        CHECK((r.iteration_ms->mean > free.iteration_ms->mean) == retries);
        CHECK(((*r.time_anatomy_ms)[TimePart::host] > (*free.time_anatomy_ms)[TimePart::host]) == retries);
        CHECK(*r.reserved_memory_mib * kMib <= static_cast<double>(limit));
      } catch (const OutOfMemory& e) {
        CHECK_THAT(e.what(), Contains("allocated by PyTorch") && Contains("reserved but unallocated"));
        break;
      }
    }
    // Less than what is handed out cannot be enough.
    CHECK(static_cast<double>(fits) >= *free.peak_memory_mib * kMib);
  }
  CHECK(retried);
}
