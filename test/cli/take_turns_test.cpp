// Two sweeps of one machine that take turns, from the command line.
#include <filesystem>

#include "engine/base/json_reader.h"
#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;

namespace {

struct TurnsRoom : Room {
  TurnsRoom() {
    put("turns.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "iterations": 24, "warmup": 2,
                        "env": {"OMP_NUM_THREADS": "1"}, "sweep": {"tp": [1, 2]}})");
  }
};

// Both sides at once; the exit code is that of the worse.
std::string both(const std::string& first, const std::string& second) {
  return "$M sweep turns.json --out old --quiet " + first +
         " >old.md 2>old.err & old=$!; $M sweep turns.json --out new --quiet " + second +
         " >new.md 2>new.err; code=$?; wait $old && exit $code";
}

}  // namespace

TEST_CASE("two sweeps that take turns finish, their rows say so") {
  const TurnsRoom room;
  const Run run = room.shell(both("--take-turns t,1,3", "--take-turns t,2,3"));
  INFO(read_text_file(room / "old.err") << read_text_file(room / "new.err"));
  REQUIRE(run.code == 0);
  for (const char* side : {"old", "new"}) {
    const ResultFile file = read_result_file(room / (std::string(side) + "/results.json"));
    REQUIRE(file.points.size() == 2);
    for (const PointResult& r : file.points) {
      CHECK(r.outcome == Outcome::ok);
      CHECK(r.turn_steps == 3);
      CHECK(r.turn_cpu_ms.size() == 24);
      // tp 2 adds in another order than tp 1: f32 rounds the two apart by an ulp or a few.
      const std::vector<double>& first = file.points.front().losses;
      REQUIRE(r.losses.size() == first.size());
      for (std::size_t i = 0; i < first.size(); ++i) CHECK(r.losses[i] == Approx(first[i]).epsilon(1e-5));
    }
  }
  CHECK(room.shell("$M compare new --baseline old --metric memory,loss --threshold memory=0%").code == 0);
}

TEST_CASE("a side goes on alone when the other is gone") {
  const TurnsRoom room;
  // The first has half as many points; then the second has every turn.
  const Run run = room.shell(both("--filter tp=1 --take-turns t,1,3", "--take-turns t,2,3"));
  INFO(read_text_file(room / "old.err") << read_text_file(room / "new.err"));
  REQUIRE(run.code == 0);
  CHECK(read_result_file(room / "new/results.json").points.size() == 2);
}

TEST_CASE("turns that cannot be taken are refused, and say why") {
  const TurnsRoom room;
  const Run three = room.shell("$M sweep turns.json --out o --take-turns t,3,1");
  CHECK(three.code == 2);
  CHECK_THAT(three.err, Contains("[--take-turns]") && Contains("t,3,1") && Contains("FOLDER,N,K"));
  const Run soak = room.shell("$M sweep turns.json --out o --take-turns t,1,1 --soak 5s");
  CHECK(soak.code == 2);
  CHECK_THAT(soak.err, Contains("[--take-turns]") && Contains("--soak"));
  const Run simulated = room.shell("$M sweep turns.json --out o --on sim:2xcpu --take-turns t,1,1");
  CHECK(simulated.code != 0);
  CHECK_THAT(simulated.err, Contains("[--take-turns]") && Contains("CPUs of one machine"));
}
