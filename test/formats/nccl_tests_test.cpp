#include "formats/logs/nccl_tests.h"

#include <fmt/format.h>

#include <sstream>

#include "engine/base/error.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;

namespace {

std::vector<NcclTest> read(const std::string& text, const std::string& collective = "") {
  std::istringstream in(text);
  return read_nccl_tests(in, "a.log", collective);
}

std::string head(int ranks) {
  std::string text =
      "# nThread 1 nGpus 8 minBytes 1024 maxBytes 2048 step: 2(factor) warmup iters: 5 iters: 20\n# Using devices\n";
  for (int i = 0; i < ranks; ++i)
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on host-{} device {:2} [0x{:02x}] NVIDIA H100 80GB HBM3\n", i,
                        100 + i, i / 8, i % 8, i);
  return text +
         "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
         "busbw #wrong\n";
}

}  // namespace

TEST_CASE("nccl-tests: sizes, bus bandwidths and wrong elements, with ranks and hosts") {
  const auto tests = read("0: " + head(16) +
                          "0:        1024           256     float     sum      -1    21.50    0.05    0.09      0    "
                          "21.00    0.05    0.09      0\n"
                          "host-1:77:99 [2] NCCL INFO comm 0xb1 rank 6 nranks 16\n"
                          "\x1b[0m  8589934592    2147483648  float     sum      -1    64288  133.62  250.54      3    "
                          "64110  133.99  251.23    N/A\n# Avg bus bandwidth    : 67.9\n");
  REQUIRE(tests.size() == 1);
  CHECK(tests[0].collective == "all_reduce");  // by sum and the factor 2 (k - 1) / k
  CHECK(tests[0].ranks == 16);
  CHECK(tests[0].hosts[9] == "host-1");
  CHECK(tests[0].devices[9] == "NVIDIA H100 80GB HBM3");
  REQUIRE(tests[0].rows.size() == 2);
  CHECK(tests[0].rows[1].bytes == 8589934592);
  CHECK(tests[0].rows[1].us == 64288);
  CHECK(tests[0].rows[1].bus_gbps == 250.54);
  CHECK(tests[0].rows[1].wrong == 3);
}

TEST_CASE("nccl-tests: which collective it is") {
  const std::string row = "  1024 128 float none -1 11.00 0.09 0.05 0 11.10 0.09 0.05 0\n";
  CHECK(read("$ mpirun ./build/all_gather_perf -b 1G\n" + head(2) + row)[0].collective == "all_gather");
  CHECK(read(head(2) + row + "# Collective test concluded: alltoall_perf\n")[0].collective == "all_to_all");
  CHECK(read(head(2) + row, "sendrecv_perf")[0].collective == "send");
  CHECK_THROWS_WITH(read(head(2) + row), Contains("does not say which collective") && Contains("--collective"));
  CHECK_THROWS_WITH(read(head(2) + row, "all_gathr"), Contains("did you mean \"all_gather\"?"));
  CHECK(read(head(4) + "  1024 256 float sum -1 10.0 0.10 0.075 0 10.0 0.10 0.075 0\n")[0].collective ==
        "reduce_scatter");
  // Old releases have neither operation nor root; several tests are in one log.
  const auto both =
      read("all_gather_perf\n" + head(2) + "  1024 128 float 11.00 0.09 0.05 0e+00 11.10 0.09 0.05 0e+00\n" +
           "all_reduce_perf\n" + head(2) + "  1024 256 float sum 11.00 0.09 0.09 2e-07 11.1 0.09 0.09 1e-07\n");
  REQUIRE(both.size() == 2);
  CHECK(both[1].collective == "all_reduce");
}

TEST_CASE("nccl-tests: cut and foreign lines are no rows") {
  CHECK_THROWS_WITH(read("# nThread 1 minBytes 1\n1024 256 float sum -1 10.0"), Contains("no row of nccl-tests"));
  CHECK_THROWS_WITH(read("Iteration 1 2 3\n 1 2 x 0 0 0 0\n"), Contains("no row of nccl-tests"));
  CHECK(is_nccl_tests(head(2)));
  CHECK_FALSE(is_nccl_tests("iteration 1 | elapsed time per iteration (ms): 5 |"));
}
