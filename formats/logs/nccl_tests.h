// What nccl-tests prints: of each collective and size its time and bus bandwidth. Counted as mbench check counts them.
#pragma once
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace mbench::formats {

struct NcclTestRow {
  std::int64_t bytes = 0, wrong = 0;
  double us = 0, bus_gbps = 0;  // out of place
};

struct NcclTest {
  std::string collective;                   // "all_reduce", as mbench check calls it; empty: the log does not say
  std::vector<std::string> hosts, devices;  // of each rank, as far as they are listed
  std::vector<NcclTestRow> rows;
  std::int64_t ranks = 0;
};

// Whether the text, the beginning of a log, comes from nccl-tests.
bool is_nccl_tests(std::string_view text);
// Every test of the log, line by line. `collective`: of tests that do not name theirs ("all_gather_perf" or "all_gather"). Throws
// bad_input for a log without a row, and for a test whose collective is not known.
std::vector<NcclTest> read_nccl_tests(std::istream& in, const std::string& file, const std::string& collective);

}  // namespace mbench::formats
