// Offloading, from the command line.
#include "engine/point/result_file.h"
#include "engine/process/process_tree.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::test;
using Catch::Contains;

namespace {

const std::string kOffloadSpec =
    R"({"model": "gpt-bytes-3m", "seq": 64, "dp": 2, "global_batch": 2, "zero": 3, "precision": "bf16",
  "iterations": 2, "warmup": 1, )";

}  // namespace

TEST_CASE("a rank that dies within a copy to the host ends its point as a row, and nothing is left running") {
  const Room room;
#ifdef MBENCH_DIES_IN_COPY
  const std::string env = R"({"LD_PRELOAD": ")" MBENCH_DIES_IN_COPY R"(", "DIES_ON_RANK": "1", "DIES_IN_COPY": ")";
  room.put("spec.json", kOffloadSpec + R"("offload": "all", "sweep": {"env": [)" + env + R"(400"}, {}]}})");
  const Run run = room.shell("$M sweep spec.json --out o --quiet", 100);
  INFO(run.out << run.err);
  CHECK(run.code == 3);
  const auto rows = read_result_file(room / "o/results.json").points;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].outcome == Outcome::crashed);
  CHECK_THAT(rows[0].reason, Contains("killed by signal 9") && Contains("half of a piece has been copied"));
  CHECK(rows[1].outcome == Outcome::ok);
  CHECK(rows[1].host_memory_mib);
  CHECK(live_descendants(0).empty());
#endif
}

TEST_CASE("plan, sweep and tables tell what lies in host memory") {
  const Room room;
  room.put("spec.json", kOffloadSpec + R"("sweep": {"offload": ["none", "optimizer", "all", "moments"]}})");
  const Run plan = room.shell("$M plan spec.json --on sim:2xA100-SXM4-80GB");
  INFO(plan.out << plan.err);
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Contains("offload      optimizer state in host memory, updated there") &&
                           Contains("offload      weights and optimizer state in host memory") &&
                           Contains("offload      moments and a copy of the f32 weights in host memory") &&
                           Contains("peak of host memory, MiB a rank"));
  const Run swept = room.shell("$M sweep spec.json --out o --quiet --on sim:2xA100-SXM4-80GB");
  INFO(swept.out << swept.err);
  CHECK(swept.code == 0);
  const auto rows = read_result_file(room / "o/results.json").points;
  REQUIRE(rows.size() == 4);
  CHECK_FALSE(rows[0].host_memory_mib);
  // Of 3,487,232 parameters a rank has half: f32 weights and two moments; with `all` the weights in bf16 too. The rest of the host's
  // memory is pieces on their way.
  const double half_mib = 3487232.0 / 2 / (1 << 20);
  for (const int i : {1, 2, 3}) CHECK((*rows[i].host_memory_anatomy_mib)[Category::optimizer] >= 12 * half_mib);
  CHECK((*rows[2].host_memory_anatomy_mib)[Category::weights] >= 2 * half_mib);
  CHECK(*rows[1].peak_memory_mib < *rows[0].peak_memory_mib);
  CHECK(*rows[2].peak_memory_mib < *rows[1].peak_memory_mib);
  CHECK(*rows[3].peak_memory_mib - *rows[1].peak_memory_mib == Approx(4 * half_mib).epsilon(0.01));
}
