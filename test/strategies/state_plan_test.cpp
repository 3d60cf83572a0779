// Where state lives and how it is cut, as the strategies write it into a Plan.
#include "engine/point/point.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using strategies::make_plan;

namespace {

Point layout(std::int64_t pp, std::int64_t dp) {
  Point p;
  p.model = {"custom", "gpt", 8, 64, 8, 256, 250, 32};
  p.seq = 32;
  p.global_batch = 8;
  p.pp = pp, p.dp = dp;
  return p;
}

constexpr Role kDense[] = {Role::column, Role::row, Role::vocabulary, Role::whole};

}  // namespace

TEST_CASE("sharded state: from the optimizer's to the weights, stage by stage") {
  const auto state = [](Zero zero, bool no_sync = false) {
    Point point = layout(1, 4);
    point.zero = zero;
    point.fsdp_no_sync = no_sync;
    return make_plan(point).state;
  };
  const Placement cut = shard(0);
  CHECK(state(Zero::none) == StatePlan{});
  CHECK(!state(Zero::none).sharded());
  CHECK(state(Zero::stage_1) == StatePlan{replicate, replicate, cut});
  CHECK(state(Zero::stage_2) == StatePlan{replicate, cut, cut});
  CHECK(state(Zero::stage_3) == StatePlan{cut, cut, cut});
  CHECK(state(Zero::fsdp) == state(Zero::stage_3));
  CHECK(state(Zero::oss) == StatePlan{replicate, replicate, cut, StatePlan::Cut::parameters});
  CHECK(state(Zero::oss_sdp) == StatePlan{replicate, cut, cut, StatePlan::Cut::parameters});
  CHECK(state(Zero::fsdp, true) == StatePlan{cut, replicate, cut});
}

TEST_CASE("buckets of gradients are a framework's, and it may drop what others own in a step of one micro batch") {
  Point point = layout(1, 4);
  point.zero = Zero::stage_1;
  point.micro_batch = 1, point.global_batch = 8;
  const auto made = [&](const char* preset, const char* size = nullptr) {
    point.framework = {};
    point.framework.preset = preset;
    if (size) point.framework.options["reduce_bucket_size"] = size;
    return make_plan(point);
  };
  CHECK(made("mbench").gradient_bucket_bytes == std::size_t{25} << 20);
  const std::size_t size = size_of(made("deepspeed").precision.gradients);
  CHECK(made("deepspeed").gradient_bucket_bytes == 500000000 * size);
  CHECK(made("deepspeed", "hidden_squared").gradient_bucket_bytes ==
        static_cast<std::size_t>(point.model.hidden * point.model.hidden) * size);
  CHECK_FALSE(made("deepspeed").state.gradients.sharded());
  point.global_batch = 4;
  CHECK(made("deepspeed").state.gradients.sharded());
  CHECK_FALSE(made("megatron-2022").state.gradients.sharded());
  point.zero = Zero::none;
  CHECK_FALSE(made("deepspeed").state.sharded());
}

TEST_CASE("copies of sharded state: data parallelism has two axes, and only gradients go over the outer one") {
  Point point = layout(1, 8);
  point.zero = Zero::stage_1;
  point.optimizer_instances = 4;
  const Plan plan = make_plan(point);
  CHECK(plan.mesh.size(Axis::dp) == 2);
  CHECK(plan.mesh.size(Axis::dp_replicate) == 4);
  CHECK(plan.mesh.world() == 8);
  CHECK(plan.hidden.value[Axis::dp] == shard(1));
  CHECK(plan.hidden.value[Axis::dp_replicate] == shard(1));
  Point whole = point;
  whole.optimizer_instances = 1;
  CHECK(plan.state == make_plan(whole).state);
  for (const Role role : kDense) {
    const LinearPlan& linear = plan.role(role);
    const Axes axes = plan.mesh.real(reduce_over(linear.weight, linear.consumed.value));
    CHECK(axes == kBatchAxes);
    CHECK((axes & kStateAxes) == Axes{Axis::dp});
    CHECK(linear.input.value[Axis::dp_replicate] == linear.output.value[Axis::dp_replicate]);
  }
}

TEST_CASE("activations in host memory stand in the plan as they are asked for") {
  Point point = layout(2, 2);
  CHECK_FALSE(make_plan(point).offloaded.any());
  point.offload_activations = {0, {OffloadedPart::core_attn, OffloadedPart::mlp_norm}};
  point.min_offloaded_tensor_size = 100;
  CHECK(make_plan(point).offloaded == point.offload_activations);
  CHECK(make_plan(point).min_offloaded_elements == 100);
  point.offload_activations = {2, {}};
  CHECK(make_plan(point).offloaded.layers == 2);
}

TEST_CASE("offload: optimizer state lives with the host, and with all the weights too") {
  Point point = layout(1, 4);
  point.zero = Zero::stage_3;
  const StatePlan on_device = make_plan(point).state;
  CHECK(on_device.optimizer_at == Residence::device);
  CHECK_FALSE(on_device.main_on_device);  // not next to others
  point.offload = Offload::optimizer;
  StatePlan expected = on_device;
  expected.optimizer_at = Residence::host;
  CHECK(make_plan(point).state == expected);
  point.precision = Precision::bf16, point.offload = Offload::moments;
  expected.main_on_device = true;
  CHECK(make_plan(point).state == expected);
  expected.main_on_device = false, point.offload = Offload::all;
  expected.weights_at = Residence::host;
  CHECK(make_plan(point).state == expected);
}
