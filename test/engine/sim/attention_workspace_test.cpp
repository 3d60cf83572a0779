// What fused attention takes outside the allocator binds a simulated GPU too.
#include <nlohmann/json.hpp>

#include "engine/point/model_spec.h"
#include "engine/point/point.h"
#include "engine/sim/machine/machine.h"
#include "engine/sim/run/step_costs.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;

namespace {

Point flash_point() {
  Point p;
  p.model = read_model("llama-3-8b", "test");
  p.attention = AttentionKind::flash;
  p.precision = Precision::bf16;
  p.seq = 8192, p.micro_batch = 1;
  return p;
}

}  // namespace

TEST_CASE(
    "the workspace of flash attention's gradient: pieces of 256 MiB or a group of heads, on GPUs and by the engine "
    "alone") {
  const Machine gpu = find_machine("H100-SXM5-80GB", "test");
  Point p = flash_point();
  CHECK(attention_workspace(strategies::make_plan(p), gpu) >> 20 == 512);  // 4 heads that share a key head
  p.seq = 2048, p.micro_batch = p.global_batch = 16;
  CHECK(attention_workspace(strategies::make_plan(p), gpu) ==
        (std::uint64_t{256} << 20) + 8 * 4 * 2048 * 4);  // row sums with them
  p.tp = 4;
  CHECK(attention_workspace(strategies::make_plan(p), gpu) >> 20 == 256);
  p.micro_batch = p.global_batch = 1;
  CHECK(attention_workspace(strategies::make_plan(p), gpu) >> 20 == 64);
  p.micro_batch = p.global_batch = 16,
  p.framework.options["deterministic_attention"] = "false";  // the queries' gradients in f32, and row sums
  CHECK(attention_workspace(strategies::make_plan(p), gpu) == std::uint64_t{16} * 8 * 2048 * (128 + 1) * 4);
  Point other = flash_point();
  other.attention = AttentionKind::core;
  CHECK(attention_workspace(strategies::make_plan(other), gpu) == 0);
  other = flash_point();
  other.framework = {.preset = "megatron-core"};
  CHECK(attention_workspace(strategies::make_plan(other), gpu) == 0);
}
