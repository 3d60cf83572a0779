// The table of faults: what can go wrong around the program, done to the built binary, each line with the exit code and the
// words that it must end with. What is done to a sweep's own rows stands in test/sweeps/.
#include "test/cli/faults.h"

#include <algorithm>

#include "engine/point/result.h"
#include "test/catch.h"
#include "test/cli/long_sweep.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("faults: limits of a login node are named, and nothing waits for ever") {
  if (kSanitized) {
    WARN("not tried under a sanitizer, which takes terabytes of addresses: limits on them");
    return;
  }
  const Room room;
  room.put("large.json",
           R"({"model": "gpt-bytes-tiny", "seq": 256, "micro_batch": 512, "global_batch": 512, "iterations": 1,
    "warmup": 0})");
  room.put("point.json", R"({"model": "gpt-bytes-tiny", "seq": 64})");
  const std::string limited = "export OMP_NUM_THREADS=2; ulimit ";
  const std::string sweep = "; $M sweep tiny.json --set tp=1 --launcher local --set strategy=full --quiet --out ";
  hold(room, {{limited + "-v 8000000" + sweep + "a", 0, "| ok"},
              {limited + "-v 26000000" + sweep + "b", 0, "| ok"},
              {limited + "-d 200000" + sweep + "d", 3, "[limits] the limit on data (ulimit -d) leaves no room"},
              {limited + "-v 1600000; $M run large.json --result x.json; cat x.json", 0, "launch_failed"},
              {"cat x.json", 0, "the limit on address space (ulimit -v) leaves "},
              {limited + "-d 700000; $M run large.json --result y.json; cat y.json", 0,
               "the limit on data (ulimit -d) leaves "}});
  // So little that the loader itself ends a program with CUDA's libraries, in words of its own.
  if (room.shell("$M --version").out.find("cuda      not built in") != std::string::npos)
    hold(room,
         {{limited + "-v 300000" + sweep + "c", 3, "[limits] the limit on address space (ulimit -v) leaves no room"},
          {limited + "-v 300000; $M --version", 3, "(ulimit -v)"}});
  for (const std::string out : {"a", "b"})
    CHECK(read_result_file(room / (out + "/results.json")).points.at(0).outcome == Outcome::ok);
  // Under 4 MiB for a file some ranks end as MPI starts, and the others would wait until the time-out. (Blocks of 512 bytes.)
  hold(room,
       {{"ulimit -f 2000; $M sweep tiny.json --quiet --out f", 3, "the limit on the size of files (ulimit -f) leaves "},
        {"ulimit -f 2000; $M run point.json", 3,
         "mbench: [limits] the limit on the size of files (ulimit -f) leaves "}});
  for (const PointResult& row : rows_of(room, "f")) {
    CHECK(row.outcome == Outcome::launch_failed);
    CHECK_THAT(row.reason,
               Contains("(ulimit -f) leaves no room for the memory that ranks share, got 1000.00 KiB, need 8.00 MiB"));
  }
}

TEST_CASE("faults: paths that cannot be written are refused before anything is trained") {
  const Room room;
  room.put("long.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "iterations": 10000000})");
  room.put("simulated.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "device": "sim:1xcpu"})");
  const std::string no = "cannot be written: No such file or directory";
  hold(room, {{"$M run long.json --result nope/x.json", 2, "[nope/x.json] " + no},
              {"$M run long.json --trace nope/x.json", 2, "[nope/x.json] " + no},
              {"$M run simulated.json --trace nope/x.json", 2, "[nope/x.json] " + no},
              {"$M run simulated.json --result .", 2, "[.] not a plain file"},
              {"$M sweep long.json --trace nope/x.json --out o", 2, "[nope/x.json] " + no},
              {"$M sweep tiny.json --trace nope/x.json --out o" + kSimulated, 2, no}});
  CHECK_FALSE(fs::exists(room / "o"));
}

TEST_CASE("faults: what was measured goes to standard output where its file cannot be written at the end") {
  const Room room;
  room.put("point.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "iterations": 30, "warmup": 0})");
  fs::create_directories(room / "f");
  // The folder goes once the first step is told.
  const std::string run = kOneThread + "$M run point.json --result f/x.json | { read line; rm -r f; cat; }";
  const Run gone = room.shell(run);
  INFO(gone.out.substr(0, 3000) << gone.err);
  CHECK_THAT(gone.out, Contains("\"outcome\": \"ok\"") && Contains("\"samples\""));
  CHECK_THAT(gone.err, Contains("[f/x.json] could not be written: No such file or directory"));
  fs::create_directories(room / "f");
  // A trace that cannot be written leaves the record where it belongs.
  const Run trace =
      room.shell(kOneThread +
                 "{ $M run point.json --result x.json --trace f/t.json; echo \"code $?\"; } | { read line; rm -r f; "
                 "cat; }");
  INFO(trace.out.substr(0, 3000) << trace.err);
  CHECK_THAT(trace.out, Contains("code 3"));
  CHECK_THAT(trace.err, Contains("[f/t.json] could not be written"));
  CHECK_THAT(read_text_file(room / "x.json"), Contains("\"outcome\": \"ok\""));
}

TEST_CASE("faults: a sweep whose folder is moved away keeps its rows and makes it again") {
  const Room room;
  const Run run = room.shell(
      "$M sweep tiny.json --set tp=1 --set iterations=30 --launcher local --set "
      "'env={\"OMP_NUM_THREADS\":1}' --out o & "
      "sweep=$!; until grep -q '\"ok\"' o/results.json 2>/dev/null || ! kill -0 $sweep; do sleep 0.02; done; "
      "mv o elsewhere; wait $sweep");
  INFO(run.out << run.err);
  CHECK_THAT(run.err, Contains("the folder was removed while the sweep ran: made again"));
  CHECK(read_result_file(room / "o/results.json").points.size() == 2);
}

TEST_CASE("faults: a standard output that is full is an error, one whose reader has gone is none") {
  const RoomWithResult room;
  room.put("simulated.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "device": "sim:1xcpu"})");
  const std::string says = "[standard output] could not be written: No space left on device";
  hold(room, {{"$M report r > /dev/full", 3, says},
              {"$M report r --format html > /dev/full", 3, "[standard output] could not be written"},
              {"$M compare r --baseline r > /dev/full", 3, says},
              {"$M baseline list > /dev/full", 3, says},
              {"$M trend > /dev/full", 3, "[standard output] could not be written"},
              {"$M run simulated.json > /dev/full", 3, says},
              {"$M sweep tiny.json --dry-run --on sim:1xcpu > /dev/full", 3, says},
              {"$M sweep tiny.json --set tp=1 --out o" + kSimulated + " > /dev/full", 3,
               "[standard output] could not be written"},
              {"$M plan tiny.json > /dev/full", 3, "[standard output] could not be written"},
              {"$M --help > /dev/full", 3, says},
              {"$M report r | true", 0, ""}});
  CHECK(read_result_file(room / "o/results.json").points.size() == 2);
}

TEST_CASE("faults: ranks that others keep from their cores are named beside the row") {
  const Room room;
  hold(room, {{"taskset -c 0 sh -c 'while :; do :; done' & busy=$!; taskset -c 0 $M sweep tiny.json --set tp=1 "
               "--launcher local --set strategy=full --set iterations=20 --out o; code=$?; kill $busy; exit $code",
               0, "starved: rank 0 had a core for "}});
  const auto rows = read_result_file(room / "o/results.json").points;
  REQUIRE(rows.size() == 1);
  const PointResult& row = rows.front();
  REQUIRE(row.cpu_share_by_rank.size() == 1);
  for (const double share : row.cpu_share_by_rank) {
    CHECK(share > 0);
    CHECK(share < 1.05);
  }
}

#ifdef MBENCH_SLOW_RANK
TEST_CASE("faults: a rank that is slow by itself is named, and not the one that waits for it") {
  const Room room;
  room.put("s.json", fmt::format(R"({{"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "tp": 2, "warmup": 2,
                                      "iterations": 40, "env": {{"LD_PRELOAD": "{}", "SLOW_RANK": "1", "SLOW_FOR_MS": "1"}}}})",
                                 MBENCH_SLOW_RANK));
  // Where others keep both ranks from their cores, one run may leave a doubt.
  Run run;
  for (int i = 0; i < 3 && run.out.find("straggler: rank 1 on ") == std::string::npos; ++i)
    run = room.shell(kOneThread + "rm -rf o; $M sweep s.json --on cpu --out o", 60);
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  const auto rows = read_result_file(room / "o/results.json").points;
  REQUIRE(rows.size() == 1);
  const PointResult& row = rows.front();
  // A rank that has hardly a core is no slower for being halted while it has none.
  REQUIRE(row.cpu_share_by_rank.size() == 2);
  if (row.cpu_share_by_rank[0] < 0.5) {
    WARN("not checked: others keep the ranks from their cores, which had them for " << 100 * row.cpu_share_by_rank[0]
                                                                                    << " % of the time");
    return;
  }
  CHECK_THAT(run.out, Contains("straggler: rank 1 on "));
  REQUIRE(row.step_ms_by_rank.size() == 2);
  REQUIRE(row.compute_ms_by_rank.size() == 2);
  // Both have long steps; one has computed in them.
  CHECK(row.step_ms_by_rank[0] > 0.7 * row.step_ms_by_rank[1]);
  CHECK(row.compute_ms_by_rank[1].median > 1.3 * row.compute_ms_by_rank[0].median);
  const Run table = room.shell("$M report o/results.json --table ranks");
  INFO(table.out << table.err);
  CHECK_THAT(table.out, Contains("| yes "));
}
#endif

// A rank that waits in a collective for a stopped one is killed there: what the other then meets is its end.
TEST_CASE("faults: a rank that dies within an exchange ends its point as a row, and the sweep goes on") {
  const std::vector<std::string> exchanges = {
      R"("model": "mixtral-bytes-4m", "dp": 2, "ep": 2)",                       // all-to-all of experts
      R"("model": "gpt-bytes-tiny", "dp": 2, "zero": 3)",                       // gather of sharded weights
      R"("model": "gpt-bytes-tiny", "cp": 2, "attention": "flash", "tp": 1)"};  // keys and values passed round
  const LongSweep room;
  std::vector<std::string> lines;
  for (const std::string& fields : exchanges)
    lines.push_back(
        "cat >s.json <<'END'\n"
        R"({"seq": 64, "global_batch": 2, "dropout": 0, "warmup": 0, )" +
        fields +
        R"(, "env": {"OMP_NUM_THREADS": 1, "OMPI_MCA_mpi_yield_when_idle": 1}, "sweep": {"iterations": [10000000, 1]}})"
        "\nEND\n"
        "begin; r0=$(ranks 0); r1=$(ranks 1); kill -STOP $r0; sleep 0.5; kill -9 $r1; sleep 0.2; kill -CONT $r0; "
        "wait $sweep; echo \"code $?\"; cat said");
  const std::vector<std::string> printed = room.side_by_side(lines);
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    INFO(exchanges[i] << "\n" << printed[i]);
    CHECK_THAT(printed[i], Contains("code 3"));
    const auto rows = rows_of(room, std::to_string(i) + "/o");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].outcome == Outcome::crashed);
    CHECK_THAT(rows[0].reason, Contains("rank 1 on ") && Contains("killed by signal 9"));
    CHECK(rows[1].outcome == Outcome::ok);
  }
  CHECK(live_descendants(0).empty());
}

TEST_CASE("faults: Ctrl-C held down ends a sweep, and the drawing of its plots, with exit code 3") {
  const Room room;
  const std::string hold_down =
      "i=0; while [ $i -lt 40 ]; do kill -INT $sweep 2>/dev/null; sleep 0.01; i=$((i+1)); done; "
      "wait $sweep; echo \"code $?\"";
  const Run measured = room.shell(
      "$M sweep tiny.json --set tp=1 --set iterations=1000000 --launcher local --out o & sweep=$!; "
      "until ls o/points/*.log >/dev/null 2>&1; do sleep 0.05; done; " +
      hold_down);
  INFO(measured.out << measured.err);
  CHECK_THAT(measured.out, Contains("code 3"));
  CHECK_THAT(measured.err, Contains("Interrupted: 0 of 2 points are done and kept"));
  // A gnuplot that draws for ever.
  room.put("bin/gnuplot", "#!/bin/sh\ntouch drawing\nexec sleep 100\n");
  const Run drawn = room.shell(
      "chmod +x bin/gnuplot; PATH=$PWD/bin:$PATH; "
      "$M sweep tiny.json --set tp=1 --set seq=[32,64] --out p" +
      kSimulated + " & sweep=$!; until [ -e drawing ]; do sleep 0.05; done; " + hold_down);
  INFO(drawn.out << drawn.err);
  CHECK_THAT(drawn.out, Contains("code 3"));
  CHECK_THAT(drawn.err, Contains("Plots are missing: interrupted."));
  CHECK(read_result_file(room / "p/results.json").points.size() == 4);
  CHECK(live_descendants(0).empty());
}
