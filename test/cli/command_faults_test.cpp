// The table of faults, of the commands beside sweep and run: search, check, calibrate, and what a sweep writes or shares by an option.
#include <filesystem>

#include "engine/point/outcome.h"
#include "engine/process/process_tree.h"
#include "test/catch.h"
#include "test/cli/faults.h"
#include "test/cli/long_sweep.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

struct SearchRoom : RoomWithResult {
  SearchRoom() {
    put("s.json",
        R"({"model": "gpt2-124m", "seq": 512, "global_batch": 16, "precision": "fp16", "search": ["tp", "pp", "zero", "recompute"]})");
  }
};

const std::string kSearch = "$M search s.json --on sim:4xV100-SXM2-16GB --quiet --out ";

}  // namespace

TEST_CASE("faults: what a search or a check cannot do is refused before it begins") {
  const SearchRoom room;
  room.put("file", "");
  const std::string results = read_text_file(room / "r/results.json");
  hold(room, {{kSearch + "o --rate nan", 2, "--rate: not such a number, got nan, need one from 0 to "},
              {kSearch + "o --rate inf", 2, "--rate: not such a number, got inf"},
              {kSearch + "o --front-within nan", 2, "--front-within: not such a number, got nan, need one from 1 to "},
              {kSearch + "o --why tpp=3", 2, "[--why tpp=3] unknown field"},
              {kSearch + "o --why tp=nan", 2, "[--why tp=nan] wrong type"},
              {kSearch + "o --why tp", 2, "[--why tp] no assignment"},
              {kSearch + "/proc/o", 2, "[--out] cannot be made: "},
              {kSearch + "file", 2, "[--out] cannot be made: Not a directory"},
              {kSearch + "r", 2, "[r] holds the results of a sweep, need another --out"},
              {"$M check --on cpu --ranks 2 --mesh tp=3", 2, "[--mesh] \"tp=3\" has 3 ranks, got a job of 2"},
              {"$M plan quickstart --without x", 2, "[--without] is of a trainer's file, got a spec"},
              {"$M sweep quickstart --var N=1 --dry-run", 2, "[--var] is of a trainer's file"},
              {"$M swep quickstart", 2, "[mbench] no such command, got \"swep\""},
              {"$M check --on cpu --mesh etp=1048576,ep=1048576", 2,
               "[--mesh] more ranks than a job has, got \"etp=1048576,ep=1048576\""},
              {"$M check --on cpu --mesh tp=65536,dp=65536", 2, "[--mesh] more ranks than a job has"}});
  CHECK_FALSE(fs::exists(room / "o"));
  CHECK(read_text_file(room / "r/results.json") == results);
}

TEST_CASE("faults: a search keeps to a folder of its own, in which it replaces what a search left") {
  const SearchRoom room;
  hold(room, {{kSearch + "o", 0, "Best by time"},
              {kSearch + "o --best 2 --no-front", 0, "Best by time"},
              // The lock of a folder is flock's.
              {"flock -x o -c '" + kSearch + "o'", 2, "[o] another search or sweep is running there"},
              // What can only be known at the end does not cost what was found.
              {"rm -r o; " + kSearch + "o --why seq=32", 2, "[--why seq=32] no layout of the space"}});
  CHECK(read_result_file(room / "o/results.json").points.size() > 2);
  CHECK(fs::exists(room / "o/results.md"));
}

TEST_CASE("faults: what a search found goes to standard output where its disk is full") {
  const SearchRoom room;
  if (!can_mount(room)) return;
  for (const std::string free : {"0", "16384", "40960"})
    hold(room, {{"unshare -m sh -c 'mkdir -p m && mount -t tmpfs -o size=96k none m || exit 9; mkdir m/o; cat "
                 "/dev/zero >m/f 2>/dev/null; "
                 "truncate -s -" +
                     free + " m/f; " + kSearch + "m/o >out; code=$?; grep -c \"Best by time\" out; exit $code'",
                 3, "results.json] could not be written: No space left on device"}});
  CHECK_THAT(read_text_file(room / "out"), Contains("Best by time"));
}

TEST_CASE("faults: figures whose file cannot be written at the end go to standard output") {
  const Room room;
  // Their folder goes once the first line is told.
  const auto without_folder = [&](const std::string& command) {
    const Run run = room.shell(
        kOneThread + "mkdir -p f; { " + command + "; echo \"code $?\"; } 2>&1 | { read line; rm -r f; cat; }", 100);
    INFO(command << "\n" << run.out.substr(0, 3000) << run.err);
    CHECK_THAT(run.out, Contains("code 3\n") && Contains("could not be written: No such file or directory"));
    return run.out;
  };
  CHECK_THAT(without_folder("$M check --on cpu --largest 4KiB --result f/x.json"),
             Contains("# Check of 1 rank") && Contains("\"figures\""));
  CHECK_THAT(without_folder("$M calibrate f/m.json --on cpu --ranks 1 --quick --launcher local"),
             Contains("\"measured\""));
  // The metrics of a sweep end nothing, and no point has failed by them.
  const std::string sweep = without_folder("$M sweep tiny.json --set tp=1 --on sim:1xcpu --metrics f/m.prom --out o");
  CHECK_THAT(sweep, Contains("results: o/results.json") && !Contains("Some points failed"));
  CHECK(rows_of(room).size() == 2);
}

TEST_CASE("faults: a calibration that is told to end says so and leaves nothing, whatever it measures") {
  const Room room;
  // At once, where it measures by itself on all cores, and where ranks measure for it.
  const std::string
      alone = "sleep 0.5; ",
      with_ranks =
          "until grep -q 'measuring with 2 ranks' said; do kill -0 $job || exit 9; sleep 0.02; done; sleep 0.3; ";
  for (const auto& [moment, launcher] :
       {std::pair(alone, " --ranks 1 --launcher local"), std::pair(with_ranks, " --ranks 2")})
    for (const std::string signal : {"INT", "TERM"}) {
      INFO(moment << signal);
      const Run run =
          room.shell("export OMP_NUM_THREADS=2 TMPDIR=$PWD/t; mkdir -p t; $M calibrate m.json --on cpu --quick" +
                     std::string(launcher) + " >said 2>&1 & job=$!; " + moment + "kill -" + signal +
                     " $job; wait $job; echo code $?; cat said; ls t; ls");
      INFO(run.out << run.err);
      CHECK_THAT(run.out,
                 Contains("code 3\n") && Contains("[calibrate] interrupted") && !Contains("mbench-calibrate-"));
      CHECK_FALSE(fs::exists(room / "m.json"));
      CHECK(live_descendants(0).empty());
    }
}

TEST_CASE("faults: a rank that is stopped holds a calibration or a check no longer than its --timeout") {
  const LongSweep room;
  for (const std::string command : {"calibrate m.json --quick --timeout 6", "check --largest 64MiB --timeout 6"}) {
    const Run run = room.with_functions(
        kOneThread + "$M " + command +
        " --on cpu --ranks 2 >said 2>&1 & job=$!; "
        "until rank=$(ranks 0); [ \"$rank\" ]; do kill -0 $job || { cat said; exit 9; }; sleep 0.05; done; "
        "kill -STOP $rank; wait $job; echo code $?; cat said");
    INFO(command << "\n" << run.out << run.err);
    CHECK_THAT(run.out,
               Contains("code 3\n") && Contains("killed by the time-out of 6.0 s") && Contains("got it from: "));
    CHECK(live_descendants(0).empty());
  }
  CHECK_THAT(room.shell("$M calibrate --help").out, Contains("--timeout SECONDS"));
}

TEST_CASE(
    "faults: what a killed check or calibration leaves in shared memory is in a folder that the next one removes") {
  const LongSweep room;
  for (const std::string command : {"calibrate m.json --quick", "check --largest 64MiB"}) {
    const Run run =
        room.with_functions(kOneThread + "$M " + command +
                            " --on cpu --ranks 2 >said 2>&1 & sweep=$!; "
                            "until folder=$(session) && [ \"$(find \"$folder\" -name '*segment*' 2>/dev/null | wc "
                            "-l)\" -ge 2 ]; do kill -0 $sweep || { cat said; exit 9; }; sleep 0.05; done; "
                            "kill -9 $sweep $(ranks); wait $sweep; until_no_rank; $M check --on cpu --ranks 2 "
                            "--largest 4KiB --quiet >/dev/null 2>&1; "
                            "[ -e \"$folder\" ] && ls -R \"$folder\" || echo removed");
    INFO(command << "\n" << run.out << run.err);
    CHECK_THAT(run.out, Contains("no rank left\nremoved\n"));
    CHECK(live_descendants(0).empty());
  }
}

TEST_CASE("faults: a check or a calibration that lacks file descriptors ends and says so") {
  const Room room;
  for (const std::string command : {"check --largest 4KiB", "calibrate m.json --quick"})
    hold(room, {{"ulimit -n 24; timeout 30 $M " + command + " --on cpu --ranks 2", 3, "(ulimit -n)"}});
}

TEST_CASE("faults: more ranks than can be started is bad usage of a check or a calibration") {
  const Room room;
  hold(room,
       {{"$M check --ranks 2 --on cpu --launcher local", 2,
         "[local] starts one rank, got 2, need --launcher mpirun or srun"},
        {"$M calibrate m.json --quick --ranks 2 --on cpu --launcher local", 2, "[local] starts one rank, got 2"}});
}

TEST_CASE("faults: the picture of a trend that cannot be written is an error, and the older one stands") {
  const RoomWithResult room;
  if (!can_mount(room)) return;
  if (room.shell("gnuplot --version").code != 0) {
    WARN("not checked: there is no gnuplot on this machine");
    return;
  }
  for (const std::string kind : {"svg", "png", "pdf"})
    hold(room,
         {{"unshare -m sh -c 'mkdir -p m && mount -t tmpfs -o size=64k none m || exit 9; echo older >m/t." + kind +
               "; cat /dev/zero >m/f 2>/dev/null; "
               "$M trend --dir baselines --plot m/t." +
               kind + "; code=$?; [ \"$(cat m/t." + kind +
               ")\" = older ] && [ -z \"$(ls m | grep tmp)\" ] && exit $code'",
           2, "could not be written: No space left on device"}});
}

TEST_CASE("faults: a search on a disk with room for its results alone writes them") {
  const SearchRoom room;
  if (!can_mount(room)) return;
  if (room.shell("gnuplot --version").code != 0) {
    WARN("not checked: there is no gnuplot on this machine");
    return;
  }
  REQUIRE(room.shell(kSearch + "whole >/dev/null").code == 0);
  const auto pages = [&](const std::string& name) { return (fs::file_size(room / ("whole/" + name)) + 4095) / 4096; };
  // Room for both files, as each is written before it takes its name, and not for plots beside them.
  const auto kib = (pages("results.json") + pages("results.md") + 3) * 4;
  hold(room,
       {{"unshare -m sh -c 'mkdir -p m && mount -t tmpfs -o size=" + std::to_string(kib) + "k none m || exit 9; " +
             kSearch + "m/o >/dev/null; code=$?; cp m/o/results.json kept.json; ls m/o/plots; exit $code'",
         0, "could not be written"}});
  CHECK(read_result_file(room / "kept.json").points.size() == rows_of(room, "whole").size());
}

TEST_CASE("faults: a folder of turns that cannot be is refused, and Ctrl-C ends the wait for the other") {
  const Room room;
  room.put("file", "");
  const std::string sweep = "$M sweep tiny.json --set tp=1 --launcher local --on cpu --out o --take-turns ";
  hold(room, {{sweep + "/proc/t,1,2", 2, "[--take-turns] cannot make /proc/t: "},
              {sweep + "file,1,2", 2, "[--take-turns] cannot make "}});
  CHECK_FALSE(fs::exists(room / "o"));
  const Run run =
      room.shell("OMP_NUM_THREADS=1 " + sweep +
                 "t,1,2 >said 2>&1 & job=$!; until [ -e t/1 ]; do kill -0 $job || exit 9; sleep 0.02; done; sleep 0.3; "
                 "kill -INT $job; wait $job; echo code $?; cat said");
  INFO(run.out << run.err);
  CHECK_THAT(run.out, Contains("code 3\n") && Contains("Interrupted: 0 of 2 points are done and kept") &&
                          !Contains("nobody came"));
}

TEST_CASE("faults: Ctrl-C in what is asked for after a search ends it, and what was found is kept") {
  const SearchRoom room;
  const Run run = room.shell(
      "$M search s.json --on sim:4xV100-SXM2-16GB --confirm --threads 1 --set micro_batch=any --set cp=any --out o "
      ">said 2>told & job=$!; "
      "until grep -qs 'Best by' said; do kill -0 $job || exit 9; sleep 0.005; done; kill -INT $job; wait $job; echo "
      "code $?; cat told");
  INFO(run.out << run.err);
  CHECK_THAT(run.out,
             Contains("code 3\n") && Contains("Interrupted: the search is whole, what was asked for after it is not."));
  CHECK_FALSE(rows_of(room).empty());
}
