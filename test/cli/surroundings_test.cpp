// The table of faults, where what surrounds a sweep is at fault: disks and folders, limits, launchers, variables, clocks, data.
#include <fmt/format.h>

#include <filesystem>

#include "engine/point/outcome.h"
#include "test/catch.h"
#include "test/cli/faults.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

// A sweep of short points of one rank each, one for each seed.
struct ShortPoints : Room {
  explicit ShortPoints(const std::string& seeds = "1, 2, 3") {
    put("s.json", R"({"model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "warmup": 0, "iterations": 5,
                      "sweep": {"seed": [)" +
                      seeds + "]}}");
  }
};

const std::string kSweep = "$M sweep s.json --launcher local --quiet --out ";

}  // namespace

TEST_CASE("faults: a folder that cannot be written is told before a point runs") {
  const ShortPoints room;
  if (!can_mount(room)) return;
  hold(room,
       {{"unshare -m sh -c 'mkdir -p m && mount -t tmpfs none m && mount -o remount,ro m || exit 9; " + kSweep + "m/o'",
         2, "[m/o] the folder cannot be made: Read-only file system"}});
}

TEST_CASE("faults: a damaged results.json is rebuilt from the points, one of something else is refused") {
  const ShortPoints room("1, 2");
  REQUIRE(room.shell(kOneThread + kSweep + "whole").code == 0);
  const std::string begin = "rm -rf o; cp -r whole o; f=o/results.json; ", resume = "; " + kSweep + "o --resume";
  const std::string first_id = rows_of(room, "whole")[0].id;
  for (const std::string damage :
       {"truncate -s 1000 $f", ": >$f", "head -c 5000 /dev/urandom >$f", "iconv -t UTF-16 whole/results.json >$f",
        "echo NaN >$f", "head -c 2000 /dev/zero | tr '\\0' '[' >$f", "rm $f", "ln -sf nowhere $f"}) {
    INFO(damage);
    hold(room, {{begin + damage + resume, 0, "| ok"}});
    CHECK(rows_of(room, "o").size() == 2);
  }
  for (const std::string& id : {rows_of(room, "whole")[0].id, rows_of(room, "whole")[1].id})
    for (const std::string damage : {"echo rubbish >$p", ": >$p", "echo '{\"id\": 3}' >$p"})
      hold(room, {{begin + "p=o/points/" + id + ".json; rm $f; " + damage + resume, 0, "| ok"}});
  const std::pair<std::string, std::string> others[] = {
      {"echo null >$f", "[o/results.json: $] wrong type"},
      {"echo [] >$f", "[o/results.json: $] wrong type"},
      {"echo {} >$f", "[o/results.json: $] \"schema\" is missing"},
      {"sed -i 's|mbench.results/1|other/7|' $f", "[o/results.json: $.schema] another schema, got \"other/7\""},
      {"sed -i 's|\"cpu\": \"|\"cpu\": \"another |' $f", "was measured with cpu "},
      {"sed -i 's|" + first_id + "|0123456789abcdef|' $f", "holds point 0123456789abcdef, which "},
      {"sed -i 's|\"seq\": 32|\"seq\": \"x\"|' $f", "[o/results.json: $.points[0].seq] wrong type"}};
  for (const auto& [change, says] : others) hold(room, {{begin + change + resume, 2, says}});
}

TEST_CASE("faults: whatever variables a point sets, it is a row") {
  const ShortPoints room("1");
  room.put("large.json", R"({"model": "gpt-bytes-tiny", "seq": 32, "iterations": 2, "warmup": 0, "env": {"A": ")" +
                             std::string(3 << 20, 'x') + "\"}}");
  room.put("long.json", R"({"model": "gpt-bytes-tiny", "seq": 32, "iterations": 2, "warmup": 0, "env": {"A": ")" +
                            std::string(100'000, 'x') + "\"}}");
  const auto with = [&](const std::string& env, const std::string& out) {
    return kSweep + out + " --set 'env={" + env + "}'";
  };
  hold(room,
       {{with(R"("PATH": "/nowhere")", "a"), 3, "| crashed"},
        {"$M sweep s.json --quiet --launcher mpirun --out i --set 'env={\"PATH\": \"\"}'", 3,
         "; the point's env sets PATH"},
        {with(R"("PATH": "")", "j"), 3, "; the point's env sets PATH"},
        {with(R"("OMP_NUM_THREADS": "99999")", "k"), 3, "[OMP_NUM_THREADS] more threads than a process can start"},
        {"OMP_NUM_THREADS=99999; " + kSweep + "l", 0, "| ok"},  // each rank gets threads for its share of the cores
        {"OMP_NUM_THREADS=99999; $M calibrate m.json --on cpu --quick --ranks 1 --launcher local", 3,
         "[OMP_NUM_THREADS] more threads"},
        {with(R"("LD_PRELOAD": "/no/such.so")", "b"), 0, "| ok"},
        {with(R"("OMP_NUM_THREADS": "0")", "c"), 0, "| ok"},
        {with(R"("OMP_NUM_THREADS": "text")", "d"), 0, "| ok"},
        {with(R"("A": "; echo $(id) `id` \\\" > x")", "e"), 0, "| ok"},
        {with(R"("TMPDIR": "/no/such/folder")", "f"), 0, "| ok"},
        {"$M sweep long.json --launcher local --quiet --out g", 0, "| ok"},
        {"$M sweep large.json --launcher local --quiet --out h", 3, "Argument list too long"}});
  for (const std::string out : {"h", "k"}) CHECK(rows_of(room, out).at(0).outcome == Outcome::launch_failed);
}

TEST_CASE("faults: folders of any name, none at all, and streams that are closed") {
  const ShortPoints room("1");
  hold(room, {{kSweep + "\"a b'c\\\"d\"", 0, "| ok"},
              {kSweep + "\"$(printf 'a\\nb')\"", 0, "| ok"},
              {kSweep + "\"$(printf 'a\\377b')\"", 0, "| ok"},
              {kSweep + "c <&-", 0, "| ok"},
              {kSweep + "d >&-; code=$?; [ $code != 0 ]; grep -q '\"ok\"' d/results.json", 0, ""},
              {kSweep + "e 2>&-", 0, "| ok"},
              {"mkdir gone; cp s.json gone; cd gone; rm -r ../gone; " + kSweep + "f", 2, ""}});
}

TEST_CASE("faults: data that is cut while it is read, and training that diverges, are rows") {
  const Room room;
  room.put("words.txt", std::string(100'000, 'w'));
  room.put("s.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "data": "text:words.txt", "warmup": 0,
                         "sweep": {"iterations": [10000000, 2]}})");
  const Run cut =
      room.shell(kOneThread + kSweep +
                 "o & sweep=$!; until [ -s o/points/*.log ] || ls o/points/*.log >/dev/null 2>&1; do sleep 0.05; done; "
                 "sleep 1.5; : >words.txt; wait $sweep");
  INFO(cut.out << cut.err);
  CHECK(cut.code == 3);
  const auto rows = rows_of(room, "o");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].outcome == Outcome::crashed);
  // A sanitizer takes the signal itself and exits; what it prints of it last is not always the same.
  CHECK_THAT(rows[0].reason, Contains(kSanitized ? "exited with code 1, after iteration" : "signal 7"));
  CHECK_FALSE(rows[0].partial_ms.empty());
  CHECK(is_failure(rows[1].outcome));
  CHECK_THAT(rows[1].reason, Contains("the data file is empty"));

  const ShortPoints points("1");
  for (const std::string set : {"learning_rate=1e30", "learning_rate=1e300", "weight_decay=1e300"}) {
    INFO(set);
    const Run wrong = points.shell(kOneThread + "rm -rf o; " + kSweep + "o --set " + set);
    INFO(wrong.out << wrong.err);
    CHECK(wrong.code == 3);
    CHECK(rows_of(points, "o").at(0).outcome == Outcome::wrong);
    CHECK_THAT(rows_of(points, "o").at(0).reason, Contains("loss") && Contains("at iteration"));
  }
}

TEST_CASE("faults: a gnuplot that crashes leaves a sweep without plots") {
  const ShortPoints room("1, 2");
  room.put("bin/gnuplot", "#!/bin/sh\nkill -SEGV $$\n");
  const Run run = room.shell(
      "chmod +x bin/gnuplot; ulimit -c 0; PATH=$PWD/bin:$PATH; $M sweep s.json --set seq=[32,64] --out o "
      "--on sim:1xcpu");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.err, Contains("Plots are missing"));
  CHECK(rows_of(room, "o").size() == 4);
}

#ifdef MBENCH_JUMPING_CLOCK
TEST_CASE("faults: a time of day that jumps by days changes no time that is measured") {
  const Room room;
  room.put("s.json",
           R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "tp": 2, "warmup": 1, "iterations": 20})");
  const Run run = room.shell(kOneThread + "export LD_PRELOAD=" MBENCH_JUMPING_CLOCK
                                          "; $M sweep s.json --launcher mpirun --quiet --timeout 50 --out o");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  const auto rows = rows_of(room, "o");
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].outcome == Outcome::ok);
  for (const double ms : rows[0].iteration_ms.value().samples) {
    CHECK(ms > 0);
    CHECK(ms < 60'000);
  }
}
#endif
