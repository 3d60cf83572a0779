// What goes wrong on GPUs is a row that says what, and the sweep goes on.
#include "test/fake_cuda/tests/sweeps.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;

TEST_CASE("a kernel that fails is named by its op, and other points run") {
  Sweeps sweeps;
  const Run run = sweeps.run("fault", R"({"iterations,seed": [[1, 1], [12, 1], [1, 2]]})", "cuda",
                             "FAKE_CUDA_KERNEL_FAULT=1500", "--launcher local");
  CHECK(run.code == 3);
  const auto points = sweeps.points("fault");
  REQUIRE(points.size() == 3);
  CHECK(points[0].outcome == Outcome::ok);
  CHECK(points[1].outcome == Outcome::crashed);
  CHECK(points[2].outcome == Outcome::ok);
  CHECK_THAT(points[1].reason, Contains("cudaErrorIllegalAddress") && Contains("the op enqueued last is "));
}

TEST_CASE("a GPU that is full is an oom that names the allocation and its category") {
  Sweeps sweeps;
  // It says that it has 2 GiB: the forecast lets the points through, and the second does not fit.
  const Run run = sweeps.run("oom", R"({"micro_batch,global_batch": [[1, 4], [64, 64]]})", "cuda",
                             "FAKE_CUDA_FULL_AT_MIB=44", "--launcher local");
  CHECK(run.code == 0);
  const auto points = sweeps.points("oom");
  REQUIRE(points.size() == 2);
  INFO(points[0].reason << "\n" << points[1].reason);
  CHECK(points[0].outcome == Outcome::ok);
  CHECK(points[1].outcome == Outcome::oom);
  CHECK_THAT(points[1].reason, Contains("activations") || Contains("workspace"));
}

// cuBLASLt's workspace has 32 MiB of the limit, slots of inputs 4.
TEST_CASE("what cannot fit the GPU is known before it starts") {
  Sweeps sweeps;
  const Run run = sweeps.run("limit", R"({"micro_batch,global_batch": [[1, 4], [1024, 1024]]})", "cuda",
                             "FAKE_CUDA_COUNT=1", "--launcher local --set memory_limit=48MiB");
  CHECK(run.code == 0);
  const auto points = sweeps.points("limit");
  REQUIRE(points.size() == 2);
  INFO(points[0].reason << "\n" << points[1].reason);
  CHECK(points[0].outcome == Outcome::ok);
  CHECK(points[0].library_memory_mib.value() > 32);
  CHECK(points[0].library_memory_mib.value() + points[0].reserved_memory_mib.value() <= 48);
  CHECK(points[1].outcome == Outcome::oom);
}

TEST_CASE("workspaces of libraries are bound by the limit too, and the error says what they hold") {
  Sweeps sweeps;
  const Run run = sweeps.run("workspace", R"({"memory_limit": ["37MiB", "16MiB"]})", "cuda", "FAKE_CUDA_COUNT=1",
                             "--launcher local");
  CHECK(run.code == 0);
  const auto points = sweeps.points("workspace");
  REQUIRE(points.size() == 2);
  INFO(points[0].reason << "\n" << points[1].reason);
  CHECK(points[0].outcome == Outcome::oom);
  CHECK_THAT(points[0].reason, Contains("of the limit of 37.00 MiB, 36.0") && Contains(" held outside the arena"));
  CHECK(points[1].outcome == Outcome::oom);
  CHECK_THAT(points[1].reason, Contains("out of memory at workspace of cuBLASLt (library), need 32.00 MiB"));
}

// From its first collectives on, while products are still being measured, and later.
TEST_CASE("a collective that a rank never comes to is a timeout that names it") {
  for (const int from : {9, 60}) {
    Sweeps sweeps;
    const Run run = sweeps.run("hang", R"({"tp": [2], "recompute": ["none"]})", "cuda",
                               fmt::format("FAKE_CUDA_COUNT=2 FAKE_CUDA_ABSENT_RANK=1 FAKE_CUDA_ABSENT_FROM={}", from),
                               "--timeout 20");
    CHECK(run.code == 3);
    const auto points = sweeps.points("hang");
    REQUIRE(points.size() == 1);
    CHECK(points[0].outcome == Outcome::timeout);
    CHECK_THAT(points[0].reason, Contains("all_reduce of ") && Contains(" in group tp") && Contains("after 10 s"));
  }
}

TEST_CASE("a communicator that is never made is a timeout that names it") {
  Sweeps sweeps;
  const Run run =
      sweeps.run("init", R"({"tp": [2]})", "cuda", "FAKE_CUDA_COUNT=2 FAKE_CUDA_INIT_HANGS=1", "--timeout 12");
  CHECK(run.code == 3);
  const auto points = sweeps.points("init");
  REQUIRE(points.size() == 1);
  CHECK(points[0].outcome == Outcome::timeout);
  CHECK_THAT(points[0].reason, Contains("no end of making group "));
}

// A communicator that blocks opens connections within its first call, which does not return then.
TEST_CASE("a rank that never connects is a timeout that names the collective") {
  Sweeps sweeps;
  const Run run =
      sweeps.run("connect", R"({"tp": [2]})", "cuda", "FAKE_CUDA_COUNT=2 FAKE_CUDA_CONNECT_HANGS=1", "--timeout 12");
  CHECK(run.code == 3);
  const auto points = sweeps.points("connect");
  REQUIRE(points.size() == 1);
  INFO(points[0].reason);
  CHECK(points[0].outcome == Outcome::timeout);
  CHECK_THAT(points[0].reason, Contains("no end of all_reduce of ") && Contains(" in group "));
}

TEST_CASE("an error of the network ends the point and names the group") {
  Sweeps sweeps;
  const Run run = sweeps.run("network", R"({"tp": [2]})", "cuda", "FAKE_CUDA_COUNT=2 FAKE_CUDA_FAILING_COLLECTIVE=60",
                             "--timeout 60");
  CHECK(run.code == 3);
  const auto points = sweeps.points("network");
  REQUIRE(points.size() == 1);
  CHECK(points[0].outcome == Outcome::crashed);
  CHECK_THAT(points[0].reason,
             Contains("NCCL failed") && Contains("remote process exited or there was a network error"));
}

TEST_CASE("a GPU that is full when NCCL wants its buffers is an oom") {
  Sweeps sweeps;
  const Run run =
      sweeps.run("buffers", R"({"tp": [2]})", "cuda",
                 "FAKE_CUDA_COUNT=2 FAKE_CUDA_MEMORY_MIB=250 FAKE_CUDA_COMMUNICATOR_MIB=400", "--timeout 60");
  CHECK(run.code == 0);
  const auto points = sweeps.points("buffers");
  REQUIRE(points.size() == 1);
  INFO(points[0].reason);
  CHECK(points[0].outcome == Outcome::oom);
  CHECK_THAT(points[0].reason, Contains("NCCL failed on a GPU that is full"));
}
