#include "engine/point/hosts.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/point/result.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;

namespace {

Host host_of(const std::string& name, const std::string& cpu = "AMD EPYC",
             std::map<std::string, std::string> variables = {}) {
  Host h;
  h.name = name;
  h.cpu = cpu;
  h.cores = 64;
  h.memory_bytes = 1024;
  h.mpi = "Open MPI v4.1.4";
  h.revision = "abc";
  h.variables = std::move(variables);
  return h;
}

}  // namespace

TEST_CASE("ranks of one host become one host") {
  Host a = host_of("h1"), b = host_of("h1");
  a.gpus = {"H200 at 1"}, b.gpus = {"H200 at 1", "H200 at 2"};
  const std::vector<Host> hosts = merge_hosts({a, host_of("h2"), b});
  REQUIRE(hosts.size() == 2);
  CHECK(hosts[0].ranks == std::vector<std::int64_t>{0, 2});
  CHECK(hosts[0].gpus == std::vector<std::string>{"H200 at 1", "H200 at 2"});
  CHECK(hosts[1].ranks == std::vector<std::int64_t>{1});
  CHECK(ranks_per_node(hosts) == 2);
  CHECK(rank_text(1, hosts) == "rank 1 on h2");
  CHECK(rank_text(7, hosts) == "rank 7");
  CHECK(merge_hosts({}).empty());
}

TEST_CASE("a host keeps the variables in which it differs from the first") {
  const std::vector<Host> hosts = merge_hosts({host_of("h1", "A", {{"NCCL_DEBUG", "INFO"}, {"PATH", "/bin"}}),
                                               host_of("h2", "A", {{"PATH", "/bin"}, {"UCX_TLS", "tcp"}})});
  CHECK(hosts[0].variables.empty());
  CHECK(hosts[1].variables == std::map<std::string, std::string>{{"NCCL_DEBUG", ""}, {"UCX_TLS", "tcp"}});
}

TEST_CASE("hosts that are not alike are told, each kind with its hosts") {
  CHECK(differences_of(merge_hosts({host_of("h1"), host_of("h2")})).empty());
  Host old = host_of("h3");
  old.revision = "older";
  const auto lines = differences_of(merge_hosts({host_of("h1"), host_of("h2", "Xeon"), old}));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "the CPU is AMD EPYC (h1, h3) and Xeon (h2)");
  CHECK(lines[1] == "the program's revision is abc (h1, h2) and older (h3)");
}

TEST_CASE("hosts go through a result file unchanged, and a damaged one is refused with its place") {
  PointResult r;
  r.point.model = find_preset("gpt-bytes-tiny", "test");
  r.id = point_id(r.point);
  Host gpu = host_of("h2", "A", {{"NCCL_DEBUG", "WARN"}});
  gpu.gpus = {"H200 at 1"};
  gpu.driver = "550";
  gpu.ranks = {2, 3};
  r.hosts = {host_of("h1"), gpu};
  r.variables = {{"NCCL_DEBUG", "INFO"}};
  const PointResult back = result_from_json(nlohmann::json(result_to_json(r)), "$");
  CHECK(back.hosts == r.hosts);
  CHECK(back.variables == r.variables);
  nlohmann::json damaged(result_to_json(r));
  damaged["hosts"][1].erase("name");
  try {
    result_from_json(damaged, "r.json: $");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK_THAT(e.what(), Contains("r.json: $.hosts[1]") && Contains("\"name\" is missing"));
  }
  damaged["hosts"] = 3;
  CHECK_THROWS_AS(result_from_json(damaged, "$"), Error);
}
