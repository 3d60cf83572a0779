// The table of faults, where programs are killed, stopped or told to end: the sweep, its launcher, its ranks. What was measured is
// kept, rows say what happened, and no rank goes on.
#include "engine/point/outcome.h"
#include "engine/process/process_tree.h"
#include "test/catch.h"
#include "test/cli/faults.h"
#include "test/cli/long_sweep.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::test;
using Catch::Contains;

namespace {

const std::string kShortLong = "2, 10000000";

}  // namespace

TEST_CASE("faults: a sweep that is told to end keeps its rows and leaves no rank") {
  const std::vector<std::string> kills = {"kill -TERM $sweep", "kill -HUP $sweep",
                                          "kill -INT $sweep; kill -INT $sweep"};
  const LongSweep room(kShortLong);
  std::vector<std::string> lines;
  for (const std::string& kill : kills)
    lines.push_back("begin; " + kill + "; wait $sweep; echo code $?; until_no_rank; cat said");
  const std::vector<std::string> printed = room.side_by_side(lines);
  for (std::size_t i = 0; i < kills.size(); ++i) {
    INFO(kills[i] << "\n" << printed[i]);
    CHECK_THAT(printed[i], Contains("code 3\n") && Contains("no rank left"));
    CHECK_THAT(printed[i],
               Contains("Interrupted: 1 of 2 points are done and kept") && Contains(" To go on: mbench sweep s.json"));
    const auto rows = rows_of(room, std::to_string(i) + "/o");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].outcome == Outcome::ok);
    CHECK(rows[1].outcome == Outcome::partial);
    CHECK_FALSE(rows[1].partial_ms.empty());
  }
  CHECK(live_descendants(0).empty());
}

TEST_CASE("faults: Ctrl-C in a simulated sweep leaves in results.json what it says is kept") {
  const Room room;
  std::string seeds;
  for (int i = 0; i < 9000; ++i) seeds += fmt::format("{}{}", i ? "," : "", i);
  room.put("s.json", R"({"model": "gpt2-345m", "sweep": {"seed": [)" + seeds + "]}}");
  const Run run = room.shell(
      "$M sweep s.json --on sim:1xH100-SXM5-80GB --out o >/dev/null 2>said & sweep=$!; "
      "until grep -qs ': ok' said; do sleep 0.01; done; sleep 0.3; kill -INT $sweep; wait $sweep; echo code "
      "$?; grep Interrupted said");
  INFO(run.out << run.err);
  CHECK_THAT(run.out, Contains("code 3\n"));
  const std::size_t kept = rows_of(room).size();
  CHECK(kept > 0);
  CHECK(kept < 9000);
  CHECK_THAT(run.out, Contains(fmt::format("Interrupted: {} of 9000 points are done and kept", kept)));
}
