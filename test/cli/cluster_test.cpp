// What a row says of where it ran, launchers by their options, and what the program writes about itself.
#include <nlohmann/json.hpp>

#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using Catch::Contains;
using mbench::test::Room;
using mbench::test::Run;
using nlohmann::json;

namespace {

json read(const std::string& path) {
  return json::parse(read_text_file(path));
}

// The name of this host, as the kernel has it.
std::string host_name() {
  std::string name = read_text_file("/proc/sys/kernel/hostname");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

}  // namespace

TEST_CASE("a row knows its hosts and the variables of its ranks, and one that failed does too") {
  const Room room;
  room.put("one.json",
           R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "iterations": 2, "warmup": 0, "tp": 2})");
  Run run = room.shell("NCCL_DEBUG=WARN $M sweep one.json --out out --quiet");
  INFO(run.err);
  REQUIRE(run.code == 0);
  const json file = read(room / "out/results.json");
  const json& row = file.at("points").at(0);
  REQUIRE(row.at("hosts").size() == 1);
  CHECK(row.at("hosts")[0].at("name") == host_name());
  CHECK(row.at("hosts")[0].at("ranks") == json::array({0, 1}));
  CHECK(row.at("hosts")[0].at("cpu") == file.at("environment").at("cpu"));
  CHECK(row.at("hosts")[0].at("revision") == file.at("environment").at("git_revision"));
  CHECK(row.at("variables").at("NCCL_DEBUG") == "WARN");
  CHECK(row.at("variables").contains("PATH"));
  CHECK(file.at("environment").at("host") == host_name());
  run = room.shell("$M report out/results.json --columns hosts,nodes,devices_per_node --format csv");
  CHECK_THAT(run.out, Contains(host_name() + ",1,2"));
  // A rank that dies is named with its host.
  run = room.shell(
      R"($M sweep one.json --out dead --quiet --set 'env={"OPENBLAS_NUM_THREADS":"1"}' --set iterations=100000 --timeout 3)");
  const json dead = read(room / "dead/results.json").at("points").at(0);
  CHECK(dead.at("outcome") == "timeout");
  REQUIRE(dead.at("hosts").size() == 1);
  CHECK(dead.at("hosts")[0].at("name") == host_name());
}

TEST_CASE("a host file is asked before the sweep, and its ranks are placed by it") {
  const Room room;
  room.put("one.json",
           R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "iterations": 2, "warmup": 0, "dp": 2})");
  room.put("hosts.txt", "localhost slots=2\n");
  const Run run =
      room.shell("UCX_TLS=tcp $M sweep one.json --out out --hostfile hosts.txt --launcher-args '--mca btl vader,self'");
  INFO(run.err);
  REQUIRE(run.code == 0);
  const json row = read(room / "out/results.json").at("points").at(0);
  CHECK(row.at("outcome") == "ok");
  CHECK(row.at("variables").at("UCX_TLS") == "tcp");
  const Run dry =
      room.shell("UCX_TLS=tcp $M sweep one.json --hostfile hosts.txt --launcher-args '--mca btl vader,self' --dry-run");
  CHECK_THAT(dry.out, Contains("--hostfile hosts.txt") && Contains("-x UCX_TLS") && Contains("--mca btl vader,self "));
  // As MPICH writes it, which Open MPI does not read.
  room.put("colon.txt", "localhost:2\n");
  const Run colon =
      room.shell("$M sweep one.json --out colon --hostfile colon.txt --launcher-args '--mca btl vader,self'");
  INFO(colon.err);
  CHECK(colon.code == 0);
  room.put("inventory.ini", "[gpus]\nnode1 ansible_host=10.0.0.1\n");
  const Run inventory = room.shell("$M sweep one.json --hostfile inventory.ini");
  CHECK(inventory.code == 2);
  CHECK_THAT(inventory.err, Contains("[inventory.ini] line 1 names no host, got \"[gpus]\""));
  const Run refused = room.shell("$M sweep one.json --hostfile nowhere.txt");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("nowhere.txt"));
}

TEST_CASE("ranks_per_node that cannot be is a row that says so") {
  const Room room;
  room.put(
      "one.json",
      R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "iterations": 1, "warmup": 0, "dp": 2, "ranks_per_node": 1})");
  const Run run = room.shell("$M sweep one.json --out out --quiet");
  CHECK(run.code == 3);
  const json row = read(room / "out/results.json").at("points").at(0);
  CHECK(row.at("outcome") == "launch_failed");
  CHECK_THAT(row.at("reason").get<std::string>(),
             Contains("[ranks_per_node] 2 ranks, 1 on each node, got 1 node, need 2"));
  // What the launcher does otherwise the ranks refuse themselves.
  const Run direct = room.shell(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np 2 $M run one.json");
  CHECK(direct.code == 3);
  CHECK_THAT(direct.err, Contains("has 2 ranks, need 1: the launcher has placed them otherwise"));
  const Run simulated = room.shell("$M sweep one.json --out sim --on sim:2xH100-SXM5-80GB");
  CHECK(simulated.code == 0);
  const Run cut = room.shell("$M sweep one.json --out cut --on sim:2xH100-SXM5-80GB --set ranks_per_node=9");
  CHECK(cut.code == 2);
  CHECK_THAT(cut.err, Contains("[ranks_per_node] got 9 ranks on a node of H100-SXM5-80GB, need 8 at most"));
}

TEST_CASE("a launcher that is none, or of another MPI, is refused before anything runs") {
  const Room room;
  CHECK_THAT(room.shell("$M sweep tiny.json --launcher aprun").err, Contains("no such launcher, got \"aprun\""));
  CHECK_THAT(room.shell("$M sweep tiny.json --launcher srun --hostfile tiny.json").err,
             Contains("[--hostfile] srun has its hosts"));
  room.put("bin/mpirun", "#!/bin/sh\nprintf 'HYDRA build details:\\n    Version: 4.0.2\\n'\n");
  const std::string mine = room.shell("$M --version").out;
  if (mine.find("Open MPI") == std::string::npos) return;  // then that mpirun is the right one
  const Run run = room.shell("chmod +x bin/mpirun; PATH=$PWD/bin:$PATH $M sweep tiny.json --out out");
  CHECK(run.code == 2);
  CHECK_THAT(run.err, Contains("[mpirun] starts programs of another MPI, got mpirun of MPICH 4.0.2") &&
                          Contains("need --launcher "));
  CHECK_FALSE(std::filesystem::exists(room.path / "out"));
}

TEST_CASE("mbench hosts prints the hosts of a job") {
  const Room room;
  const Run run = room.shell(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np 3 $M hosts --on cpu");
  INFO(run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains(host_name() + ": ") && Contains("ranks 0 1 2"));
}

TEST_CASE("specs that come with the program are known by name, from any folder") {
  const Room room;
  CHECK_THAT(room.shell("$M sweep quickstart --dry-run").out, Contains("10 points"));
  CHECK(room.shell("$M plan gpt345m --filter seq=512 --filter strategy=full").code == 0);
  // What the help says to type works from any folder too.
  CHECK_THAT(room.shell("$M --help").out, Contains("First steps:  mbench sweep quickstart"));
  for (const char* command : {"sweep", "search", "check", "plan"})
    CHECK_THAT(room.shell(std::string("$M ") + command + " --help").out, !Contains("configs/"));
  const Run run = room.shell("$M sweep quickstrat --dry-run");
  CHECK(run.code == 2);
  CHECK_THAT(run.err, Contains("[quickstrat]") && Contains("did you mean \"quickstart\"?"));
}

TEST_CASE("manual page and completions name every command") {
  const Room room;
  const Run man = room.shell("$M man"), bash = room.shell("$M completion bash"), zsh = room.shell("$M completion zsh");
  for (const char* command :
       {"sweep", "run", "plan", "search", "report", "compare", "baseline", "trend", "devices", "hosts", "schema"}) {
    CHECK_THAT(man.out, Contains(std::string(".SS mbench ") + command));
    CHECK_THAT(bash.out, Contains(command));
    CHECK_THAT(zsh.out, Contains(command));
  }
  CHECK_THAT(man.out, Contains("\\-\\-hostfile"));
  const Run by_bash = room.shell(
      "command -v bash >/dev/null || exit 0; $M completion bash > c; bash -c 'source c; COMP_WORDS=(mbench sweep "
      "--host); COMP_CWORD=2; _mbench; echo \"${COMPREPLY[@]}\"'");
  if (!by_bash.out.empty()) CHECK(by_bash.out == "--hostfile\n");
}
