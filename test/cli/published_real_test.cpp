// The published solutions to one model that is too large for its GPUs, run for real at a small size: all train alike, and each needs
// less memory than copies of all state do, but for the buckets that a framework makes.
#include <map>

#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;

TEST_CASE("the published ways to hold 1.3B parameters on four GPUs train on four ranks of the CPU") {
  const Room room;
  std::map<std::string, PointResult> rows;  // by precision and zero
  for (const std::string name : {"pai-gpt-1.3b-zero", "pai-gpt-1.3b-sharded"}) {
    const Run run = room.shell("$M sweep " MBENCH_SOURCE_DIR "/configs/published/" + name +
                                   ".json --on cpu --set framework.host=mbench --set model=gpt-bytes-3m --set seq=64 "
                                   "--set dropout=0 --set iterations=4 --set warmup=1 --quiet --out " +
                                   name,
                               100);
    INFO(run.out << run.err);
    REQUIRE(run.code == 0);
    for (const PointResult& row : read_result_file(room / (name + "/results.json")).points)
      rows[std::string(name_of(row.point.precision)) + " " + std::string(name_of(row.point.zero))] = row;
  }
  REQUIRE(rows.size() == 8);
  const PointResult& copies = rows.at("fp16 0");
  for (const auto& [what, row] : rows) {
    INFO(what << ": " << row.reason);
    REQUIRE(row.outcome == Outcome::ok);
    CHECK(row.point.world() == 4);
    REQUIRE(row.losses.size() == 5);
    for (std::size_t i = 0; i < 5; ++i) CHECK(row.losses[i] == Approx(copies.losses[i]).epsilon(2e-3));
    CHECK(row.losses.back() < row.losses.front());
  }
  const auto memory = [&](const std::string& what) { return *rows.at(what).peak_memory_mib; };
  // DeepSpeed's bucket has room for 500,000,000 gradients of any model. Its stage 1 drops gradients as stage 2 does.
  constexpr double kBucket = 1e9 / 1048576;
  CHECK(memory("fp16 1") - kBucket < memory("fp16 0"));
  CHECK(memory("fp16 1") > kBucket);
  CHECK(memory("fp16 2") == memory("fp16 1"));
  CHECK(memory("fp16 3") - kBucket < memory("fp16 0"));
  // A bucket of 25 MiB has all gradients of so small a model, so that to shard them too saves nothing.
  CHECK(memory("fp16 oss") < memory("fp16 0"));
  CHECK(memory("fp16 oss+sdp") < memory("fp16 0"));
  CHECK(memory("fp16 fsdp") < memory("fp16 oss"));
}
