// A simulated step: the same in every run, refused where it cannot be, and slower where it has to be.
#include "engine/sim/run/simulate.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "engine/sim/run/step_costs.h"
#include "test/catch.h"
#include "test/engine/sim/gpt_345m.h"
#include "test/engine/sim/simulated_run.h"
#include "test/engine/sim/threaded/threaded_run.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;
using Catch::Contains;

namespace {

constexpr const char* kV100 = "V100-SXM2-16GB";

ErrorKind kind_of(const Point& point, const std::string& machine, int devices) {
  try {
    simulated(point, find_machine(machine, "test"), find_framework("mbench", "test"), devices);
  } catch (const Error& e) {
    return e.kind();
  }
  FAIL_CHECK("nothing was refused");
  return ErrorKind::internal;
}

}  // namespace

TEST_CASE("a small step is simulated on every built-in machine, faster on faster ones") {
  const auto ms = [](const std::string& machine, std::int64_t tp = 1) {
    return step_ms(simulated(gpt(tp, 1, 1), machine));
  };
  for (const std::string& machine : machine_names()) {
    if (find_machine(machine, "test").immediate) continue;
    INFO(machine);
    CHECK((ms(machine, 2) > 1 && ms(machine, 2) < 10000));
  }
  for (const auto& [fast, slow] : {std::pair("B300-288GB", "H100-SXM5-80GB"),
                                   {"GB300-NVL72", "GH200-96GB"},
                                   {"H100-SXM5-80GB", "H20-SXM5-96GB"},
                                   {"H100-NVL-94GB", "RTX-4090"},
                                   {"RTX-4090", "RTX-3090"},
                                   {"RTX-5090", "RTX-4090"},
                                   {"A100-SXM4-80GB", "A10G"},
                                   {"L20", "L4"},
                                   {"MI325X", "MI300X"},
                                   {"MI355X", "MI325X"}}) {
    INFO(fast << " and " << slow);
    CHECK(ms(fast) < ms(slow));
  }
}

TEST_CASE("a simulation says that it is one, and knows no losses") {
  const Simulation s = simulated(gpt(4, 2, 1), kV100);
  const PointResult& r = s.result;
  CHECK(r.outcome == Outcome::ok);
  CHECK(r.simulated);
  CHECK(r.device == kV100);
  CHECK(r.world == 8);
  CHECK(r.losses.empty());
  CHECK(r.gradient_norms.empty());
  CHECK_FALSE(r.skipped_steps);
  REQUIRE(r.iteration_ms);
  CHECK(r.iteration_ms->samples.size() == 1);
  CHECK(r.iteration_ms->stddev == 0);
  CHECK(r.mfu.value() > 0);
  CHECK(r.mfu.value() < 1);
  CHECK(r.peak_tflops.value() == Approx(125));
  CHECK_THAT(r.peak_source, Contains(std::string(kV100) + ", dense fp16"));
  REQUIRE(r.peak_memory_by_rank_mib.size() == 8);
  REQUIRE(s.peak_by_stage.size() == 2);
  for (std::size_t rank = 0; rank < 8; ++rank)
    CHECK(r.peak_memory_by_rank_mib[rank] == static_cast<double>(s.peak_by_stage[rank / 4].total) / 1048576);
  CHECK(s.total_reserved == 4 * (s.reserved_by_stage[0] + s.reserved_by_stage[1]));
  CHECK(r.device_memory_mib.value() == r.reserved_memory_mib.value() + 1100);
  CHECK_FALSE(r.library_memory_mib);  // what libraries take there, nobody knows
  CHECK(s.timeline_by_stage.empty());
}

TEST_CASE("a simulation is the same to the last bit in every run") {
  Point interleaved = gpt(2, 4, 2);
  interleaved.schedule = ScheduleKind::interleaved;
  interleaved.virtual_stages = 3;
  interleaved.sequence_parallel = true;
  Point full = gpt(1, 8, 1);
  full.recompute = Recompute::full;
  for (const Point& p : {gpt(8, 1, 1), gpt(2, 4, 1), full, interleaved}) {
    INFO("tp " << p.tp << ", pp " << p.pp << ", dp " << p.dp);
    const Simulation first = simulated(p, kV100);
    for (int i = 0; i < 10; ++i) {
      const Simulation again = simulated(p, kV100);
      CHECK(step_ms(again) == step_ms(first));
      CHECK(again.result.communication_fraction == first.result.communication_fraction);
      CHECK(again.result.bubble_fraction == first.result.bubble_fraction);
      CHECK(again.result.peak_memory_by_rank_mib == first.result.peak_memory_by_rank_mib);
      CHECK(again.reserved_by_stage == first.reserved_by_stage);
    }
  }
}

TEST_CASE("a step that does not fit names the first rank that is full, the same in every run") {
  // Of two stages the last holds the head and its logits in f32 besides: it alone is too small.
  Point p = gpt(4, 2, 1);
  p.schedule = ScheduleKind::gpipe;
  p.framework = keeps(Graph::eager);
  const Simulation fits = simulated(p, kV100);
  REQUIRE(fits.reserved_by_stage[1] > fits.reserved_by_stage[0] + (64 << 20));
  const auto refusal = [&](std::uint64_t limit) -> std::string {
    p.memory_limit = limit;
    try {
      simulated(p, kV100);
    } catch (const OutOfMemory& e) {
      CHECK(e.kind() == ErrorKind::out_of_memory);
      return e.what();
    }
    return "";
  };
  CHECK(refusal(fits.reserved_by_stage[1]).empty());
  for (const auto& [limit, rank] :
       {std::pair{fits.reserved_by_stage[0], "[rank 4] "}, std::pair{std::size_t{64} << 20, "[rank 0] "}}) {
    const std::string first = refusal(limit);
    CHECK_THAT(first, Catch::StartsWith(rank) && Contains("out of memory at") && Contains(format_bytes(limit)));
    for (int i = 0; i < 20; ++i) CHECK(refusal(limit) == first);
  }
}

TEST_CASE("the machine's memory is the limit where the point names none, and never more than that") {
  Point p = gpt(1, 1, 1);
  p.micro_batch = p.global_batch = 16;
  CHECK(kind_of(p, kV100, 1) == ErrorKind::out_of_memory);
  p.memory_limit = std::uint64_t{1} << 40;
  CHECK(kind_of(p, kV100, 1) == ErrorKind::out_of_memory);
  p.memory_limit = 0;
  CHECK(simulated(p, "A100-SXM4-80GB").result.outcome == Outcome::ok);
}

TEST_CASE("what the machine cannot do is refused, not bent") {
  CHECK(kind_of(gpt(4, 2, 1), kV100, 7) == ErrorKind::infeasible);
  Point bf16 = gpt(1, 1, 1);
  bf16.precision = Precision::bf16;
  CHECK(kind_of(bf16, kV100, 8) == ErrorKind::unsupported);
  try {
    simulated(bf16, kV100);
  } catch (const Error& e) {
    CHECK_THAT(e.what(), Contains("V100-SXM2-16GB has no bf16, need one of f32, fp16"));
  }
  CHECK(simulated(bf16, "A100-SXM4-40GB").result.outcome == Outcome::ok);
}

TEST_CASE("without peer-to-peer access tensor parallelism is slower") {
  Point p = gpt(8, 1, 1);
  const double direct = step_ms(simulated(p, kV100));
  p.env = {{"NCCL_P2P_DISABLE", "0"}};
  CHECK(step_ms(simulated(p, kV100)) == direct);
  p.env = {{"NCCL_P2P_DISABLE", "1"}};
  const Simulation through_host = simulated(p, kV100);
  CHECK(step_ms(through_host) > 1.5 * direct);
  CHECK(through_host.result.communication_fraction.value() > 0.5);
}

TEST_CASE("a pipeline and replicas over the network are slower than within a node") {
  for (const Point& p : {gpt(1, 4, 1), gpt(1, 1, 4)}) {
    Machine machine = find_machine(kV100, "test");
    const Framework framework = find_framework("mbench", "test");
    const double inside = step_ms(simulated(p, machine, framework));
    machine.node.devices = 1;
    CHECK(step_ms(simulated(p, machine, framework)) > 1.1 * inside);
  }
}

// Weights are gathered within nodes, and gradients cross them once a step by what a rank owns. Of zero 1 as much crosses either way.
TEST_CASE("where state is sharded within nodes and replicated between them, less crosses a slow network") {
  Machine slow = find_machine("A100-SXM4-80GB", "test");
  slow.network.bandwidth /= 20;
  const Framework framework = find_framework("mbench", "test");
  for (const Zero zero : {Zero::stage_1, Zero::stage_2, Zero::stage_3}) {
    INFO("zero " << name_of(zero));
    Point p = gpt(1, 1, 16);
    p.global_batch = 128;
    p.zero = zero;
    const Simulation one = simulated(p, slow, framework);
    p.optimizer_instances = 2;
    const Simulation two = simulated(p, slow, framework, 16, true);
    const auto dp = [](const Simulation& s) { return (*s.result.time_anatomy_ms)[TimePart::communication_dp]; };
    CHECK(dp(two) > 0);
    if (zero != Zero::stage_1) {
      CHECK(dp(two) < 0.7 * dp(one));
      CHECK(step_ms(two) < step_ms(one));
    }
    CHECK(*two.result.peak_memory_mib > *one.result.peak_memory_mib);
    const auto reported = [&](const std::string& what) {
      const auto& spans = two.timeline_by_stage.at(0).spans();
      return std::any_of(spans.begin(), spans.end(), [&](const auto& s) { return s.name == what; });
    };
    CHECK((reported("reduce_scatter dp") && reported("all_gather dp") && reported("all_reduce dp_replicate")));
    CHECK_FALSE(
        (reported("reduce_scatter dp_replicate") || reported("all_gather dp_replicate") || reported("all_reduce dp")));
    double sum = 0;
    for (const double ms : two.result.time_anatomy_ms->ms) sum += ms;
    CHECK(sum == Approx(step_ms(two)).epsilon(1e-9));
  }
}

TEST_CASE("tf32 speeds up products on machines that have it, and is refused on others") {
  Point p = gpt(1, 1, 1);
  p.precision = Precision::f32;
  const Simulation f32 = simulated(p, "A100-SXM4-80GB");
  p.precision = Precision::tf32;
  p.device = "sim:1xA100-SXM4-80GB";
  const Simulation tf32 = simulated(p, "A100-SXM4-80GB");
  CHECK(step_ms(tf32) < 0.5 * step_ms(f32));
  CHECK(tf32.result.peak_tflops.value() == Approx(156));
  CHECK(tf32.peak_by_stage[0].total == f32.peak_by_stage[0].total);  // stored in f32
  CHECK(kind_of(p, kV100, 1) == ErrorKind::unsupported);
  CHECK(kind_of(p, "cpu", 1) == ErrorKind::unsupported);
}

TEST_CASE("a fused step takes less time than its epilogues as ops of their own, and the same memory") {
  Point p = gpt(1, 1, 1);
  Plan plan = strategies::make_plan(p);
  const Machine machine = find_machine("A100-SXM4-80GB", "test");
  const Simulation fused = simulate_point(p, plan, machine, 1);
  Framework unfused = *plan.framework;
  unfused.keeps.fused_epilogues = false;
  plan.framework = std::make_shared<const Framework>(unfused);
  const Simulation apart = simulate_point(p, plan, machine, 1);
  CHECK(step_ms(fused) < 0.97 * step_ms(apart));
  CHECK(fused.peak_by_stage[0].total == apart.peak_by_stage[0].total);
  // Executed FLOPs of products are the same: a rate is time's alone.
  CHECK(fused.result.hfu.value() * step_ms(fused) == Approx(apart.result.hfu.value() * step_ms(apart)));
}

TEST_CASE("what a framework's libraries hold lies beside a step, replayed or run") {
  const Machine machine = find_machine(kV100, "test");
  const Framework plain = find_framework("mbench", "test");
  Framework with = plain;
  with.memory.always = std::uint64_t{96} << 20;
  Point p = gpt(2, 4, 1);
  for (const bool replay : {true, false}) {
    const auto run = [&](const Framework& framework) {
      const Plan plan = plan_on(framework, p);
      return replay ? simulate_point(p, plan, machine, 8) : run_in_threads(p, plan, machine, 8);
    };
    const Simulation without = run(plain), more = run(with);
    INFO((replay ? "replayed" : "run"));
    CHECK(*more.result.peak_memory_mib == *without.result.peak_memory_mib + 96);
    CHECK(*more.result.last_rank_memory_mib == more.result.peak_memory_by_rank_mib.back());
    const auto workspace = static_cast<std::size_t>(Category::workspace);
    CHECK(more.peak_by_stage[0].by_category[workspace] ==
          without.peak_by_stage[0].by_category[workspace] + with.memory.always);
  }
  p.memory_limit = with.memory.always;
  CHECK_THROWS_AS(simulate_point(p, plan_on(with, p), machine, 8, {}), Error);
}

TEST_CASE("what the libraries of Megatron-Core hold follows from what a step asks of them") {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  Point p = gpt(2, 4, 1);
  p.framework = {.preset = "megatron-core"};
  const auto held = [&] { return library_memory(strategies::make_plan(p)); };
  CHECK(held() == 96 * kMiB);  // PyTorch's two and Transformer Engine's workspace
  p.sequence_parallel = p.tp_comm_overlap = true;
  CHECK(held() == (96 + 3 * 32) * kMiB);
  p.tp_comm_overlap = false;
  p.framework.options["transformer_engine"] = "false";
  CHECK(held() == 64 * kMiB);
  p.model.family = "mixtral", p.model.kv_heads = p.model.heads;
  p.model.experts = 8, p.model.active_experts = 2, p.model.expert_ffn = 512;
  CHECK(held() == 96 * kMiB);  // of the router's products
  p.framework.options = {};
  CHECK(held() == (96 + 4 * 32) * kMiB);
  p.framework.options["grouped_experts"] = "false";
  CHECK(held() == 96 * kMiB);
  CHECK(library_memory(plan_on(find_framework("mbench", "test"), p)) == 0);
}

TEST_CASE("where nothing runs beside collectives over tp, a step takes longer") {
  const Machine machine = find_machine(kV100, "test");
  const Framework free = ideal_framework();
  Framework blocking = free;
  blocking.tensor_collectives_block = true;
  Point p = gpt(4, 1, 1);
  p.sequence_parallel = true;
  for (const bool replay : {true, false}) {
    const auto seconds = [&](const Framework& framework) {
      const Plan plan = plan_on(framework, p);
      return step_ms(replay ? simulate_point(p, plan, machine, 8) : run_in_threads(p, plan, machine, 8));
    };
    CHECK(seconds(blocking) > 1.005 * seconds(free));
    p.tp = 1, p.sequence_parallel = false;
    CHECK(seconds(blocking) == seconds(free));
    p.tp = 4, p.sequence_parallel = true;
  }
}

TEST_CASE("with tp_comm_overlap most of what layers exchange over tp travels beside their products") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  Point p = gpt(4, 1, 1);
  p.model = find_preset("llama-2-7b", "test");
  p.seq = 4096, p.precision = Precision::bf16, p.attention = AttentionKind::flash;
  p.sequence_parallel = true;
  for (const bool replay : {true, false}) {
    const auto anatomy = [&](bool overlap) {
      p.tp_comm_overlap = overlap;
      const Plan plan = plan_on(ideal_framework(), p);
      const auto result = (replay ? simulate_point(p, plan, machine, 8) : run_in_threads(p, plan, machine, 8)).result;
      REQUIRE(result.time_anatomy_ms);
      return std::pair(*result.time_anatomy_ms, result.iteration_ms->mean);
    };
    const auto [plain, plain_ms] = anatomy(false);
    const auto [overlapped, beside_ms] = anatomy(true);
    // What is left is of the embedding, the head and the loss, and the last piece of each output.
    CHECK(overlapped[TimePart::communication_tp] < 0.4 * plain[TimePart::communication_tp]);
    CHECK(beside_ms < plain_ms);
    // Products in parts are no faster.
    CHECK(overlapped[TimePart::gemms] >= plain[TimePart::gemms]);
  }
}

TEST_CASE(
    "where each product gathers its input, layers exchange 14 times over tp instead of 10, and with full recompute 21 "
    "instead of 14") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  Framework framework = ideal_framework();
  framework.tensor_collectives_block = true;  // so that all of it shows
  Point p = gpt(4, 1, 1);
  p.model = find_preset("llama-2-7b", "test");
  p.seq = 4096, p.precision = Precision::bf16, p.attention = AttentionKind::flash, p.sequence_parallel = true;
  const auto of_two_layers = [&] {
    double ms[2];
    for (const int i : {0, 1}) {
      p.model.layers = 2 + 2 * i;
      ms[i] =
          (*simulate_point(p, plan_on(framework, p), machine, 8).result.time_anatomy_ms)[TimePart::communication_tp];
    }
    return ms[1] - ms[0];
  };
  for (const auto& [recompute, block, each] : {std::tuple(Recompute::none, 10, 14), {Recompute::full, 14, 21}}) {
    p.recompute = recompute;
    p.tp_gathers = TpGathers::block;
    const double once = of_two_layers();
    p.tp_gathers = TpGathers::gemm;
    CHECK(of_two_layers() == Approx(once * each / block).epsilon(0.005));
  }
}

TEST_CASE("the parts of a step add up to it, and each is there where the layout has it") {
  const auto anatomy_of = [](const Point& p, const char* machine) {
    const Simulation s = simulated(p, machine);
    REQUIRE(s.result.time_anatomy_ms);
    double sum = 0;
    for (const double ms : s.result.time_anatomy_ms->ms) {
      CHECK(ms >= 0);
      sum += ms;
    }
    CHECK(sum == Approx(s.result.iteration_ms->mean).epsilon(1e-9));
    return *s.result.time_anatomy_ms;
  };
  const TimeAnatomy one = anatomy_of(gpt(1, 1, 1), kV100), tp = anatomy_of(gpt(4, 1, 1), kV100),
                    pp = anatomy_of(gpt(1, 4, 1), kV100), dp = anatomy_of(gpt(1, 1, 4), kV100);
  for (const TimeAnatomy& a : {one, tp, pp, dp}) {
    CHECK(a[TimePart::gemms] > 0);
    CHECK(a[TimePart::attention] > 0);
    CHECK(a[TimePart::elementwise] > 0);
    CHECK(a[TimePart::optimizer] > 0);
  }
  for (const TimePart part : {TimePart::bubble, TimePart::communication_tp, TimePart::communication_dp,
                              TimePart::communication_pp, TimePart::communication_other})
    CHECK(one[part] == 0);
  CHECK(tp[TimePart::communication_tp] > 0);
  CHECK(tp[TimePart::communication_dp] == 0);
  CHECK(dp[TimePart::communication_dp] > 0);
  CHECK(dp[TimePart::communication_tp] == 0);
  CHECK(pp[TimePart::communication_pp] > 0);
  CHECK(pp[TimePart::bubble] > pp[TimePart::communication_pp]);
  CHECK(tp[TimePart::gemms] < one[TimePart::gemms]);
  // A stage of four has a quarter of the layers, and waits for about (4 - 1) / 8 of what it computes.
  CHECK(pp[TimePart::gemms] < one[TimePart::gemms] / 2);

  // A slow host shows as such.
  Point slow = gpt(4, 1, 1);
  slow.framework = {.preset = "mbench", .host = "megatron-2022"};
  const Simulation s = simulated(slow, find_machine(kV100, "test"), find_framework("megatron-2022", "test"), 4);
  CHECK((*s.result.time_anatomy_ms)[TimePart::host] > 10 * tp[TimePart::host] + 1);
}

TEST_CASE("the energy of a simulated step lies between idle and GEMMs alone, by replay as by running every op") {
  for (const Point& p : {gpt(8, 1, 1), gpt(2, 4, 1), gpt(2, 2, 2)}) {
    const Machine machine = find_machine(kV100, "test");
    const Plan plan = strategies::make_plan(p);
    const Simulation replayed = simulate_point(p, plan, machine, 8), all = run_in_threads(p, plan, machine, 8);
    REQUIRE(replayed.result.energy_joules);
    REQUIRE(all.result.energy_joules);
    CHECK(*replayed.result.energy_joules == Approx(*all.result.energy_joules).epsilon(1e-9));
    const double device_seconds = step_ms(replayed) * 1e-3 * static_cast<double>(p.world());
    CHECK(*replayed.result.energy_joules > machine.device.watts->idle * device_seconds);
    CHECK(*replayed.result.energy_joules < machine.device.watts->gemm * device_seconds);
    CHECK(*replayed.result.tokens_per_joule == Approx(16 * 1024 / *replayed.result.energy_joules));
    const Outline outline = outline_point(p, plan, machine, 8);
    CHECK(outline.joules == Approx(*replayed.result.energy_joules).epsilon(1e-9));
  }
}

TEST_CASE("without the power of its devices a simulated step has no energy, and says why") {
  Machine machine = find_machine(kV100, "test");
  machine.device.watts.reset();
  const Point p = gpt(1, 1, 1);
  const Simulation s = simulate_point(p, strategies::make_plan(p), machine, 8);
  CHECK_FALSE(s.result.energy_joules);
  CHECK_FALSE(s.result.tokens_per_joule);
  CHECK(s.result.energy_source == "unknown: the machine's file has no device.watts");
}
