// A cluster of three hosts, and what can happen to it in the middle of a step: what the rows say then, that the sweep goes on with what
// there is, and what is left behind. Each host is a set of namespaces (hosts.sh); the sweep runs on h1, its ranks on all three.
#include <cstdlib>
#include <filesystem>

#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/support/shell_room.h"

using namespace mbench;
using Catch::Contains;
using mbench::test::Run;
using nlohmann::json;

namespace {

class Hosts {
 public:
  Hosts() {
    std::filesystem::copy_file(MBENCH_SOURCE_DIR "/test/hosts/hosts.sh", room_ / "hosts.sh");
    // They live until this program ends, and all others that it starts end with what started them.
    REQUIRE(std::system(
                ("export ROOM=" + room_.path.string() + "; bash -c '. $ROOM/hosts.sh; make_hosts' > $ROOM/made 2>&1")
                    .c_str()) == 0);
    put("fault.json", R"({"model": "gpt-bytes-tiny", "seq": 32, "warmup": 0,
      "sweep": {"dp,global_batch,iterations": [[3, 3, 1000000], [2, 2, 3], [3, 3, 2]]}})");
  }
  void put(const std::string& name, std::string_view text) const { room_.put(name, text); }

  // A line of bash that knows hosts.sh. On an idle machine none takes 20 s: the time is for one that others keep busy.
  Run shell(const std::string& line) const {
    const Run run = room_.run_by("/bin/bash", ". \"$ROOM/hosts.sh\"; " + line, 300);
    INFO(line << "\n" << run.out << run.err);
    REQUIRE(run.code != -1);  // it came to its end
    return run;
  }
  // The file that h1 has in its own folder.
  std::string on_h1(const std::string& file) const {
    const Run run = shell("on h1 cat " + file);
    INFO(file << ": " << run.err);
    REQUIRE(run.code == 0);
    return run.out;
  }
  ResultFile results(const std::string& out) const {
    put("home.json", on_h1(out + "/results.json"));
    return read_result_file(room_ / "home.json");
  }
  // A sweep of fault.json on h1, to which `fault` is done in the middle of the first point's steps.
  Run struck(const std::string& out, const std::string& fault, const std::string& options = "") const {
    const Run run =
        shell("on h1 $M sweep $ROOM/fault.json --out " + out + " --hostfile $ROOM/three.txt --metrics " + out +
              ".prom " + options + " & sweep=$!; in_mid_step " + out + ".prom $sweep || exit 98; " + fault +
              "; wait $sweep; code=$?; for host in h1 h2 h3; do nothing_left $host || exit 97; done; exit $code");
    INFO(run.out << run.err);
    REQUIRE(run.code != 98);  // the sweep came to measure: before that nothing is done to it
    return run;
  }

 private:
  test::ShellRoom room_;
};

const Hosts& hosts() {
  static const Hosts made;
  return made;
}

}  // namespace

TEST_CASE("three hosts: a row knows them, and record, trace and logs come home without a file system that they share") {
  hosts().put("one.json",
              R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 3, "dp": 3, "iterations": 5, "warmup": 1})");
  const auto run =
      hosts().shell("on h1 NCCL_DEBUG=WARN $M sweep $ROOM/one.json --out r --hostfile $ROOM/three.txt --trace r.trace");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  CHECK_THAT(run.out, Contains("not alike: ") || Contains("Another CPU"));
  const ResultFile file = hosts().results("r");
  const PointResult& row = file.points.at(0);
  REQUIRE(row.outcome == Outcome::ok);
  REQUIRE(row.hosts.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(row.hosts[i].name == "h" + std::to_string(i + 1));
    CHECK(row.hosts[i].ranks == std::vector<std::int64_t>{static_cast<std::int64_t>(i)});
    CHECK(row.hosts[i].cores > 0);
    CHECK(row.hosts[i].variables.empty());  // NCCL_DEBUG reached all of them
  }
  CHECK(row.hosts[0].cpu == row.hosts[1].cpu);
  CHECK(row.hosts[2].cpu == "Another CPU");
  CHECK(row.variables.at("NCCL_DEBUG") == "WARN");
  CHECK(row.step_ms_by_rank.size() == 3);
  CHECK(row.iteration_ms->samples.size() == 5);
  const json trace = json::parse(hosts().on_h1("r.trace"));
  std::vector<bool> seen(3);
  for (const json& event : trace.at("traceEvents")) seen.at(event.at("pid").get<std::size_t>()) = true;
  CHECK(seen == std::vector<bool>(3, true));
  // A sweep from a host that has no rank: the environment is that of the ranks.
  hosts().put("two.txt", "h1 slots=1\nh2 slots=1\n");
  const auto login = hosts().shell(
      "on h3 $M sweep $ROOM/one.json --set dp=2 --set global_batch=2 --out l --quiet --hostfile $ROOM/two.txt && on h3 "
      "cat l/results.json");
  INFO(login.err);
  REQUIRE(login.code == 0);
  const json file_of_login = json::parse(login.out.substr(login.out.find("\n{") + 1));
  CHECK(file_of_login.at("environment").at("host") == "h1");
  CHECK(file_of_login.at("environment").at("cpu") == row.hosts[0].cpu);
  CHECK(file_of_login.at("points").at(0).at("hosts").size() == 2);
}

TEST_CASE("three hosts: a stopped rank is named with its host within the collective time-out, and the sweep goes on") {
  const auto run = hosts().struck("stopped", "kill -STOP $(rank_on h2)", "--collective-timeout 3");
  INFO(run.out << run.err);
  CHECK(run.code == 3);
  const auto rows = hosts().results("stopped").points;
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].outcome == Outcome::timeout);
  CHECK_THAT(rows[0].reason, Catch::StartsWith("no sign of life for 3.0 s of rank 1 on h2: ") &&
                                 Contains("waiting: ") && Contains("rank 0 on h1") && Contains("rank 2 on h3"));
  CHECK(rows[1].outcome == Outcome::ok);
  CHECK(rows[2].outcome == Outcome::ok);  // h2 is still one of them
  CHECK(rows[2].hosts.size() == 3);
}

TEST_CASE("three hosts: a killed rank is named with its host") {
  const auto run = hosts().struck("killed", "kill -KILL $(rank_on h3)", "--filter iterations=1000000");
  INFO(run.out << run.err);
  CHECK(run.code == 3);
  const auto rows = hosts().results("killed").points;
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].outcome == Outcome::crashed);
  CHECK_THAT(rows[0].reason, Contains("rank 2 on h3 killed by signal 9"));
}

TEST_CASE("three hosts: a killed daemon of the launcher is told with its host") {
  const auto run =
      hosts().struck("daemon", "kill -KILL $(pids h2 orted)", "--filter iterations=1000000 --filter iterations=2");
  INFO(run.out << run.err);
  CHECK(run.code == 3);
  const auto rows = hosts().results("daemon").points;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].outcome == Outcome::crashed);
  CHECK_THAT(rows[0].reason, Catch::StartsWith("a host was lost: the launcher's daemon on h2 has ended"));
  CHECK(rows[1].outcome == Outcome::ok);
}

TEST_CASE("three hosts: a killed launcher is a row, and leaves nothing on any host") {
  const auto run =
      hosts().struck("launcher", "kill -KILL $(pids h1 mpirun)", "--filter iterations=1000000 --filter iterations=2");
  INFO(run.out << run.err);
  CHECK(run.code == 3);
  const auto rows = hosts().results("launcher").points;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].outcome == Outcome::crashed);
  CHECK_THAT(rows[0].reason, Contains("killed by signal 9"));
  CHECK(rows[1].outcome == Outcome::ok);
}

TEST_CASE("three hosts: a link between ranks that goes in the middle of a step is a hang, told with who waits where") {
  const auto run = hosts().struck("link", "link_down data2", "--collective-timeout 3 --filter iterations=1000000");
  hosts().shell("link_up data2");
  INFO(run.out << run.err);
  CHECK(run.code == 3);
  const auto rows = hosts().results("link").points;
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].outcome == Outcome::timeout);
  CHECK_THAT(rows[0].reason,
             Contains("no rank came further for 3.0 s, and all are alive: a link between their hosts is down") &&
                 Contains("rank 1 on h2") && Contains(" in "));
}

TEST_CASE("three hosts: a lost host is named, and the sweep goes on with those that answer") {
  const auto run = hosts().struck("lost", "link_down ctl2; link_down data2", "--collective-timeout 3");
  INFO(run.out << run.err);
  const auto rows = hosts().results("lost").points;
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].outcome == Outcome::timeout);
  CHECK_THAT(rows[0].reason,
             Catch::StartsWith("no sign of life for 3.0 s of rank 1 on h2: the host or the link to it is lost"));
  CHECK_THAT(run.err, Contains("h2 does not answer: the points that follow run on the 2 other hosts"));
  CHECK(rows[1].outcome == Outcome::ok);  // two ranks
  REQUIRE(rows[1].hosts.size() == 2);
  CHECK(rows[1].hosts[0].name == "h1");
  CHECK(rows[1].hosts[1].name == "h3");
  CHECK(rows[2].outcome == Outcome::launch_failed);  // three have no room
  CHECK_THAT(rows[2].reason, Contains("without h2, lost before"));
  // What is left on the lost host ends once it is back.
  const auto back = hosts().shell("link_up ctl2; link_up data2; nothing_left h2");
  INFO(back.out);
  CHECK(back.code == 0);
}
