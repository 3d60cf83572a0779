// Every launch of whole training steps of large models, against the limits of every GPU that we compile for.
// The engine runs as it does on a GPU, on memory that nobody follows; the kernels themselves do not run.
#include "engine/platform/registry.h"
#include "engine/sim/run/counting.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"
#include "test/catch.h"
#include "test/graphs.h"
#include "test/simt/kernel_devices.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::train;
using namespace mbench::test;

namespace {

Point point_of(const char* model, std::int64_t tp, std::int64_t pp, std::int64_t seq, std::int64_t micro_batch) {
  Point p;
  p.model = find_preset(model, "test");
  p.model.positions = std::max(p.model.positions, seq);
  p.seq = seq;
  p.micro_batch = p.global_batch = micro_batch;
  p.tp = tp, p.pp = pp;
  p.precision = Precision::bf16;
  p.dropout = 0.1;
  return p;
}

}  // namespace

TEST_CASE("what whole steps of large models launch, every GPU takes") {
  struct Case {
    const char* model;
    std::int64_t tp, pp, seq, micro_batch;
  };
  for (const Case& c :
       {Case{"gpt2-345m", 1, 1, 2048, 64}, Case{"gpt2-345m", 1, 1, 65536, 1}, Case{"bert-345m", 1, 1, 512, 1024},
        Case{"gpt-1.3b", 1, 1, 2048, 256}, Case{"gpt3-175b", 1, 1, 2048, 8}, Case{"gpt3-175b", 8, 8, 32768, 4}})
    for (const bool eager : {true, false})
      for (const Precision precision : {Precision::bf16, Precision::f32}) {
        CAPTURE(c.model, c.seq, c.micro_batch, eager);
        Point p = point_of(c.model, c.tp, c.pp, c.seq, c.micro_batch);
        p.framework = keeps(eager ? Graph::eager : Graph::fused);
        p.precision = precision;
        const Plan plan = strategies::make_plan(p);
        for (const std::int64_t stage : {std::int64_t{0}, c.pp - 1}) {
          const auto device = open_limits_device();
          const auto world = lone_world(static_cast<int>(stage * c.tp), plan.mesh.world());
          Trainer trainer(plan, *device, *world, nullptr);
          trainer.step();
          CHECK(device->launches() > 10 * p.model.layers / c.pp);
          // Partial sums: little beside the tensors of the step.
          CHECK(device->most_scratch() < std::size_t{1} << 30);
        }
      }
}
