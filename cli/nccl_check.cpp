#include "cli/nccl_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <numeric>

#include "engine/base/error.h"
#include "formats/logs/nccl_tests.h"
#include "health/expected.h"

namespace mbench::cli {
namespace {

constexpr std::size_t kBeginning = std::size_t{4} << 20;  // NCCL_DEBUG=INFO prints much before the first row

std::vector<Host> hosts_of(const formats::NcclTest& test) {
  std::vector<Host> hosts;
  for (std::size_t rank = 0; rank < test.hosts.size(); ++rank) {
    const auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == test.hosts[rank]; });
    Host& host = known == hosts.end() ? hosts.emplace_back() : *known;
    host.name = test.hosts[rank];
    host.ranks.push_back(static_cast<int>(rank));
  }
  return hosts;
}

}  // namespace

bool is_nccl_log(const std::string& path) {
  if (path == "-") return false;
  std::ifstream in(path, std::ios::binary);
  std::string begin(kBeginning, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  return formats::is_nccl_tests(begin);
}

health::Health health_of_nccl_log(const std::string& path, const std::string& collective, const std::string& machine) {
  const std::string name = path == "-" ? "standard input" : path;
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  if (path != "-" && !file) fail(ErrorKind::bad_input, path, "cannot be read");
  const std::vector<formats::NcclTest> tests =
      formats::read_nccl_tests(path == "-" ? std::cin : file, name, collective);
  health::Health health;
  health.device = "cuda";
  health.hosts = hosts_of(tests.front());
  health.devices = tests.front().devices;
  for (const formats::NcclTest& test : tests) {
    if (test.hosts != tests.front().hosts)
      fail(ErrorKind::bad_input, name, "tests of different ranks are in it, need a log of those of one job");
    std::vector<int> ranks(static_cast<std::size_t>(test.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::int64_t largest = 0;
    for (const formats::NcclTestRow& row : test.rows) largest = std::max(largest, row.bytes);
    for (const formats::NcclTestRow& row : test.rows) {
      health::Figure figure{test.collective, "all", "GB/s", row.bytes, true, row.bytes == largest, {}};
      figure.of.push_back({ranks, row.bus_gbps, row.us * 1e-6, row.wrong});
      health.figures.push_back(std::move(figure));
    }
  }
  if (!machine.empty()) health::expect(health, machine, "--on");
  return health;
}

}  // namespace mbench::cli
