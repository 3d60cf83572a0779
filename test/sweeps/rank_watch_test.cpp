#include "sweeps/run/rank_watch.h"

#include "sweeps/launch/lost_hosts.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sweeps;
using Catch::Contains;

namespace {

std::string alive(int rank, int turn, const std::string& in = "") {
  return R"({"alive": {"rank": )" + std::to_string(rank) + R"(, "turn": )" + std::to_string(turn) +
         (in.empty() ? "" : R"(, "in": ")" + in + "\"") + "}}";
}

// Two hosts of two ranks, a watch of 5 s, and its clock in steps of 0.1 s as a sweep has it.
struct Watched {
  RankWatch watch{5};
  double clock = 100;
  Watched() {
    watch.on_hosts({{.name = "h1", .ranks = {0, 1}}, {.name = "h2", .ranks = {2, 3}}});
    watch.look(clock);
  }
  void say(std::initializer_list<int> ranks, int turn, const std::string& in = "") {
    for (const int rank : ranks) REQUIRE(watch.take(alive(rank, turn, in)));
  }
  // What it says, at the end of so many seconds.
  std::string pass(double seconds) {
    std::string said;
    for (double t = 0; t < seconds && said.empty(); t += 0.1) said = watch.look(clock += 0.1);
    return said;
  }
};

}  // namespace

TEST_CASE("rank watch: ranks that give signs and come further are left alone, however long a step takes") {
  Watched w;
  for (int i = 0; i < 100; ++i) {
    w.say({0, 1}, 7, "all_reduce of tp");  // wait for the others, which compute
    w.say({2, 3}, 6);
    CHECK(w.pass(1).empty());
  }
  for (int i = 0; i < 100; ++i) {  // a rank that moves is no hang
    w.say({0, 1, 2}, 7, "all_reduce of tp");
    w.say({3}, 8 + i, "send of pp");
    CHECK(w.pass(1).empty());
  }
}

TEST_CASE("rank watch: ranks that never come up are given up after the limit and a minute") {
  const auto pass = [](RankWatch& watch, double& clock, double seconds) {
    std::string said;
    for (double t = 0; t < seconds && said.empty(); t += 0.1) said = watch.look(clock += 0.1);
    return said;
  };
  double clock = 100;
  RankWatch watch{5};
  CHECK(pass(watch, clock, 64).empty());
  CHECK_FALSE(watch.take("mpirun: warning"));
  CHECK_THAT(pass(watch, clock, 2), Contains("no rank came up within 1 min 05 s of the launch"));
  CHECK(watch.lost_hosts().empty());
  // Any word of a rank shows that it came up, a sign within a line that the launcher has changed as well.
  RankWatch speaks{5}, tagged{5}, begun{5};
  speaks.on_rank();
  CHECK_FALSE(tagged.take("[1,0]<stderr>:" + alive(0, 1)));
  begun.on_hosts({{.name = "h1", .ranks = {0}}});
  for (RankWatch* up : {&speaks, &tagged, &begun}) CHECK(pass(*up, clock, 100).empty());
}

TEST_CASE("rank watch: a rank that is stopped is named with its host, and where the others wait") {
  Watched w;
  w.say({0, 1, 2, 3}, 1);
  for (int i = 0; i < 4; ++i) {
    CHECK(w.pass(1).empty());
    w.say({0, 1, 3}, 9, "all_reduce of dp");
  }
  const std::string said = w.pass(2);
  CHECK(said ==
        "no sign of life for 5.0 s of rank 2 on h2: stopped; waiting: rank 0 on h1, rank 1 on h1, rank 3 on h2 in "
        "all_reduce of dp");
  CHECK(w.watch.lost_hosts().empty());
  CHECK(w.watch.silence().at(2) > 5);
  CHECK(w.watch.silence().at(0) < 3);
}

TEST_CASE("rank watch: a host all of whose ranks are silent is named as lost") {
  Watched w;
  w.say({0, 1, 2, 3}, 1);
  for (int i = 0; i < 5; ++i) {
    CHECK(w.pass(0.9).empty());
    w.say({0, 1}, 9, "wait of pp");
  }
  CHECK_THAT(w.pass(2),
             Contains("no sign of life for 5.0 s of ranks 2 and 3 on h2: the host or the link to it is lost") &&
                 Contains("waiting: rank 0 on h1, rank 1 on h1 in wait of pp"));
  CHECK(w.watch.lost_hosts() == std::vector<std::string>{"h2"});
  // When all are silent it is no host of them.
  Watched all;
  all.say({0, 1, 2, 3}, 1);
  CHECK_THAT(all.pass(6), Contains("their launcher, or all of them, are stopped or cut off"));
  CHECK(all.watch.lost_hosts().empty());
}

TEST_CASE("rank watch: all alive and all waiting without end is a hang, told with who waits in what") {
  Watched w;
  std::string said;
  for (int i = 0; i < 12 && said.empty(); ++i) {
    w.say({0, 1}, 9, "all_reduce of dp");
    w.say({2, 3}, 5, "wait of pp");
    said = w.pass(0.5);
  }
  CHECK_THAT(said,
             Contains("no rank came further for 5.0 s, and all are alive") &&
                 Contains("rank 0 on h1, rank 1 on h1 in all_reduce of dp, rank 2 on h2, rank 3 on h2 in wait of pp"));
}

TEST_CASE("rank watch: a rank that never told is owed one once another has, and one that ended is not") {
  Watched w;
  CHECK(w.pass(60).empty());  // nobody tells here
  w.say({0, 1, 2}, 1);
  for (int i = 0; i < 4; ++i) {
    CHECK(w.pass(1).empty());
    w.say({0, 1, 2}, 1);
  }
  CHECK_THAT(w.pass(2), Contains("of rank 3 on h2: stopped"));
  Watched ended;
  ended.say({0, 1, 2, 3}, 1);
  for (const int rank : {1, 2, 3})
    REQUIRE(ended.watch.take(R"({"alive": {"rank": )" + std::to_string(rank) + R"(, "ends": true}})"));
  for (int i = 0; i < 20; ++i) {
    CHECK(ended.pass(1).empty());
    ended.say({0}, 1);
  }
}

TEST_CASE("rank watch: time in which the watch itself was stopped does not count") {
  Watched w;
  w.say({0, 1, 2, 3}, 1);
  CHECK(w.watch.look(w.clock += 3600).empty());
  CHECK(w.pass(3).empty());
  CHECK_THAT(w.pass(3), Contains("no sign of life"));
}

TEST_CASE("rank watch: what is no sign of life is left to the log") {
  RankWatch watch(5);
  for (const char* line :
       {"", "{\"alive\"", "{\"alive\": 3}", "{\"alive\": {}}", "{\"alive\": {\"rank\": \"x\"}}", "mbench: [x] y"})
    CHECK_FALSE(watch.take(line));
}

TEST_CASE("hosts that a launcher's lines name are found as words") {
  const std::vector<std::string> hosts = {"h1", "h2.cluster.local", "h22"};
  CHECK(hosts_named_in({"ssh: connect to host h2 port 22: No route to host"}, hosts) ==
        std::vector<std::string>{"h2.cluster.local"});
  CHECK(hosts_named_in({"Node failure on h22"}, hosts) == std::vector<std::string>{"h22"});
  CHECK(hosts_named_in({"gh1, h1x, h1-b"}, hosts).empty());
}
