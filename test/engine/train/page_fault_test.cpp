// Allocate once and reuse: after the first iterations a step takes no new pages from the system.
#include <sys/resource.h>

#include "engine/platform/registry.h"
#include "engine/sim/run/counting.h"
#include "engine/train/trainer.h"
#include "strategies/strategies.h"
#include "test/catch.h"
#include "test/graphs.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::platform;
using namespace mbench::sim;
using namespace mbench::train;

namespace {

long minor_faults() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_minflt;
}

}  // namespace

TEST_CASE("later steps fault in next to no pages") {
  for (const Graph graph : {Graph::fused, Graph::eager}) {
    Point p;
    p.model = find_preset("gpt-bytes-3m", "test");
    p.seq = 256;
    p.micro_batch = 2;
    p.global_batch = 4;
    p.framework = keeps(graph);
    const Plan plan = strategies::make_plan(p);
    const auto device = open_device("cpu", 0);
    const auto world = lone_world(0, 1);
    const auto data = open_data(p.data, p.model.vocab, p.seq, p.seed);
    Trainer trainer(plan, *device, *world, data.get());
    trainer.step();
    trainer.step();
    const long before = minor_faults();
    for (int i = 0; i < 4; ++i) trainer.step();
    const long faults = minor_faults() - before;
    // The model moves some 200 MiB a step: 50,000 pages if they were taken anew.
    // A sanitizer's allocator never reuses freed memory at once, which is its point: pages say nothing then.
    if (!test::kSanitized) CHECK(faults < 400);
    CHECK(device->memory().raw_allocations() > 0);
  }
}
