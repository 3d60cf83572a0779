// The table of faults: what can go wrong around the program, done to the built binary, each line with the exit code and the
// words that it must end with. What is done to a sweep's own rows stands in test/sweeps/.
#include <algorithm>

#include "engine/spec/result.h"
#include "test/catch.h"
#include "test/cli/faults.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

const std::string kSimulated = " --on sim:1xcpu --quiet";

// A room with a simulated result of the tiny sweep, and a folder of baselines made of it.
struct RoomWithResult : Room {
  RoomWithResult() {
    const Run run =
        shell("$M sweep tiny.json --set tp=1 --out r" + kSimulated + " && $M baseline add r --dir baselines");
    REQUIRE(run.code == 0);
  }
};

}  // namespace

TEST_CASE("faults: files that are nested without end, or have no end, are refused by every reader") {
  const RoomWithResult room;
  const auto deep = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  room.put("deep.json", deep(100000));
  room.put("spec.json", R"({"model": "gpt-bytes-tiny", "env": )" + deep(100000) + "}");
  room.put("r/results-deep.json", R"({"schema": "mbench.results/1", "spec": )" + deep(90000) +
                                      R"(, "environment": {}, "points": []})");
  for (const std::string field : {"name", "sweep", "data", "tables"})
    room.put(field + ".json", R"({"model": "gpt-bytes-tiny", ")" + field + "\": " + deep(100000) + "}");
  room.put("model.json", R"({"model": )" + deep(100000) + "}");
  room.put("source.json", R"({"model": "gpt-bytes-tiny", "published": {"source": )" + deep(100000) + "}}");
  room.put("row.json", R"({"schema": "mbench.results/1", "spec": {}, "environment": {}, "points": [{"losses": )" + deep(100000) + "}]}");
  const std::string stored = R"(find baselines -name '*.json' | head -1)";
  const std::string says = "nested more than 100 deep";
  hold(room,
       {{"$M plan deep.json", 2, says},
        {"$M sweep spec.json --out d", 2, says},
        {"$M sweep tiny.json --out d --set env=" + deep(200), 2, says},
        {"$M run deep.json", 2, says},
        {"$M report deep.json", 2, says},
        {"$M report r/results-deep.json", 2, says},
        {"$M report --trace deep.json --plots p", 2, says},
        {"$M compare r/results-deep.json --baseline r", 2, says},
        {"$M compare r --baseline deep.json", 2, says},
        {"$M compare r --baseline r --confirm deep.json", 2, says},
        {"$M baseline add deep.json --dir b", 2, says},
        {"$M sweep name.json --out d", 2, says},
        {"$M sweep sweep.json --out d", 2, says},
        {"$M sweep model.json --out d", 2, says},
        {"$M sweep data.json --out d", 2, says},
        {"$M sweep tables.json --out d", 2, says},
        {"$M sweep source.json --out d", 2, says},
        {"$M sweep row.json --out d", 2, says},
        {"$M report row.json", 2, says},
        {"$M search deep.json --on sim:8xH100-SXM5-80GB", 2, says},
        {"$M search spec.json --on sim:8xH100-SXM5-80GB", 2, says},
        {"$M check deep.json --ranks 1 --on cpu", 2, says},
        {"$M check --ranks 1 --on cpu --expect ./deep.json", 2, says},
        {"$M report --trace deep.json --format html", 2, says},
        {"$M plan tiny.json --on sim:1x./deep.json", 2, says},
        {"$M plan tiny.json --set framework=./deep.json" + std::string(" --on sim:1xcpu"), 2, says},
        {"cp deep.json \"$(" + stored + ")\"; $M baseline list", 2, says},
        {"$M baseline show", 2, says},
        {"$M trend", 2, says},
        {"cp r/results-deep.json r/results.json; $M sweep tiny.json --set tp=1 --out r --resume" + kSimulated,
         2, says},
        {"$M run /dev/zero", 2, "[/dev/zero] more than 512.00 MiB, need a smaller file"},
        {"$M report /dev/zero", 2, "[/dev/zero] more than 512.00 MiB"},
        {"$M sweep /dev/urandom --out d", 2, "[/dev/urandom] more than 512.00 MiB"},
        {"$M plan tiny.json --on sim:1x/dev/zero", 2, "[/dev/zero] more than 512.00 MiB"},
        {"$M report --trace /dev/zero --plots p", 2, "[/dev/zero] more than 512.00 MiB"}});
  CHECK_FALSE(fs::exists(room / "d"));
}

TEST_CASE("faults: input that is no point, no result or no text") {
  const RoomWithResult room;
  room.put("large.json", R"({"model": "gpt-bytes-tiny", "seq": 1e400})");
  room.put("nul.json", R"({"model": "gpt-bytes-tiny", "sex\u0000q": 1})");
  room.put("escape.json", R"({"model": "gpt-\u001b[31m"})");
  std::string keys = R"({"model": "gpt-bytes-tiny")";
  for (int i = 0; i < 20000; ++i) keys += ", \"k" + std::to_string(i) + "\": 1";
  room.put("keys.json", keys + "}");
  room.put("name.json", R"({"model": ")" + std::string(10 << 20, 'x') + "\"}");
  room.put("env.json", R"({"model": "gpt-bytes-tiny", "env": {"A": "x\u0000y"}})");
  room.put("directory/x", "");
  fs::create_symlink("loop", room / "loop");
  hold(room, {{"$M run large.json", 2, "[large.json] not JSON that can be held"},
              {"$M run r", 2, "[r]"},
              {"$M run nul.json", 2, "a text with a U+0000, got \"sex\\u0000q\", need one without"},
              {"$M sweep nul.json --out d", 2, "need one without"},
              {"$M run directory", 2, "[directory] cannot be read: Is a directory"},
              {"$M sweep env.json --out d", 2, "[env.json: $.env] a text with a U+0000, got \"x\\u0000y\""},
              {"$M sweep tiny.json --out d --set 'env={\"A\": \"x\\u0000y\"}'", 2, "a text with a U+0000"},
              {"$M sweep escape.json --out d", 2, "got \"gpt-\\x1b[31m\""},
              {"$M sweep keys.json --out d", 2, "an object of more than 10000 keys"},
              {"$M sweep name.json --out d", 2, "bytes ..."},
              {"$M run name.json", 2, "bytes ..."},
              {"$M compare loop --baseline loop", 2, "loop"},
              {"$M report loop", 2, "[loop] cannot be read"},
              {"$M baseline list --dir loop", 2, "[loop] cannot be read"}});
}

TEST_CASE("faults: sizes beyond what a program can count or end are rows, and the other points stand") {
  const Room room;
  room.put("huge.json",
           R"({"model": {"preset": "gpt-bytes-tiny", "hidden": 1048576, "heads": 65536, "ffn": 4194304},
    "sweep": {"seq,micro_batch": [[16777216, 1048576]]}})");
  room.put("mixed.json", R"({"model": "gpt-bytes-tiny", "seq": 64,
    "sweep": {"pp,global_batch": [[1, 4], [2, 16777216], [2, 4]]}})");
  hold(room, {{"$M plan huge.json", 0, "cannot run: "},
              {"$M sweep huge.json --dry-run --on sim:1xcpu", 0, "infeasible"},
              {"$M plan mixed.json", 0, "[sizes] micro batches times stages, got 16777216 x 2"},
              {"$M sweep mixed.json --out m --on sim:2xcpu", 0, "[3/3] pp=2 global_batch=4: ok"}});
  const auto rows = read_result_file(room / "m/results.json").points;
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].outcome == Outcome::ok);
  CHECK(rows[1].outcome == Outcome::infeasible);
}

TEST_CASE("faults: ten that add to one folder of baselines at once keep ten entries of each point") {
  const RoomWithResult room;
  const Run run = room.shell(
      "for i in 0 1 2 3 4 5 6 7 8 9; do sed -e 's|\"git_revision\": [^,]*|\"git_revision\": \"rev'$i'\"|' "
      "-e 's|\"started\": \"[0-9]*|\"started\": \"203'$i'|' r/results.json >$i.json; done; "
      "for i in 0 1 2 3 4 5 6 7 8 9; do ($M baseline add $i.json --dir b >/dev/null; echo code $?) & done; wait; "
      "grep -rc '\"revision\": \"rev[0-9]\"' b");
  INFO(run.out << run.err);
  std::size_t files = 0;
  for (std::size_t at = 0; (at = run.out.find(".json:", at)) != std::string::npos; ++at) {
    CHECK(run.out.substr(at, 9) == ".json:10\n");
    ++files;
  }
  CHECK(files == 2);
  CHECK_THAT(run.out, !Contains("code 1") && !Contains("code 2") && !Contains("code 3"));
}

TEST_CASE("faults: limits of a login node are named, and nothing waits for ever") {
  if (kSanitized) return;  // takes terabytes of addresses
  const Room room;
  room.put(
      "large.json",
      R"({"model": "gpt-bytes-tiny", "seq": 256, "micro_batch": 512, "global_batch": 512, "iterations": 1,
    "warmup": 0})");
  const std::string limited = "export OMP_NUM_THREADS=2; ulimit ";
  const std::string sweep =
      "; $M sweep tiny.json --set tp=1 --launcher local --set strategy=full --quiet --out ";
  hold(room,
       {{limited + "-v 8000000" + sweep + "a", 0, "| ok"},
        {limited + "-v 26000000" + sweep + "b", 0, "| ok"},
        {limited + "-d 200000" + sweep + "d", 3, "[limits] the limit on data (ulimit -d) leaves no room"},
        {limited + "-v 1600000; $M run large.json --result x.json; cat x.json", 0, "launch_failed"},
        {"cat x.json", 0, "the limit on address space (ulimit -v) leaves "},
        {limited + "-d 700000; $M run large.json --result y.json; cat y.json", 0,
         "the limit on data (ulimit -d) leaves "}});
  // So little that the loader itself ends a program with CUDA's libraries, in words of its own.
  if (room.shell("$M --version").out.find("cuda      not built in") != std::string::npos)
    hold(room, {{limited + "-v 300000" + sweep + "c", 3,
                 "[limits] the limit on address space (ulimit -v) leaves no room"},
                {limited + "-v 300000; $M --version", 3, "(ulimit -v)"}});
  for (const std::string out : {"a", "b"})
    CHECK(read_result_file(room / (out + "/results.json")).points.at(0).outcome == Outcome::ok);
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
  const Run trace = room.shell(
      kOneThread +
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

TEST_CASE("faults: data that ranks could not read is refused before they are started") {
  const Room room;
  fs::create_directories(room / "folder");
  room.put("empty.txt", "");
  room.put("short.txt", "too short for a sample");
  room.put("odd.bin", std::string(1001, '\1'));
  room.put("tokens.bin", std::string(4000, '\x7f'));  // token 32639, of a vocabulary of 256
  const auto sweep = [](const std::string& data) {
    return "$M sweep tiny.json --launcher local --set tp=1 --out o --set data=" + data;
  };
  hold(room,
       {{sweep("text:none.txt"), 2, "no such data file"},
        {sweep("text:folder"), 2, "got a directory, need a regular file"},
        {sweep("text:/dev/zero"), 2, "got a pipe or device, need a regular file"},
        {sweep("text:empty.txt"), 2, "the data file is empty"},
        {sweep("text:short.txt"), 2, "too short for one sample, got 22 tokens, need at least 65"},
        {sweep("tokens:odd.bin"), 2, "odd size, got 1001 bytes"},
        {sweep("tokens:tokens.bin"), 2, "is outside the model's vocabulary, got 32639, need less than"}});
  CHECK_FALSE(fs::exists(room / "o"));
}

TEST_CASE("faults: ranks that others keep from their cores are named beside the row") {
  const Room room;
  hold(room,
       {{"taskset -c 0 sh -c 'while :; do :; done' & busy=$!; taskset -c 0 $M sweep tiny.json --set tp=1 "
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
  CHECK_THAT(run.out, Contains("straggler: rank 1 on "));
  const auto rows = read_result_file(room / "o/results.json").points;
  REQUIRE(rows.size() == 1);
  const PointResult& row = rows.front();
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
  struct Exchange {
    const char* about;
    const char* fields;
  };
  const Exchange exchanges[] = {
      {"all-to-all of experts", R"("model": "mixtral-bytes-4m", "dp": 2, "ep": 2)"},
      {"gather of sharded weights", R"("model": "gpt-bytes-tiny", "dp": 2, "zero": 3)"},
      {"keys and values passed round", R"("model": "gpt-bytes-tiny", "cp": 2, "attention": "flash")"}};
  for (const Exchange& e : exchanges) {
    INFO(e.about);
    const Room room;
    room.put("s.json", std::string(R"({"seq": 64, "global_batch": 2, "dropout": 0, "warmup": 0, )") + e.fields +
                           R"(, "sweep": {"iterations": [10000000, 1]}})");
    // Of the ranks that were started in this folder.
    room.put("rank.sh", R"SH(for p in /proc/[0-9]*; do
  [ "$(readlink $p/cwd)" = "$PWD" ] || continue
  tr '\0' '\n' 2>/dev/null <$p/environ | grep -qx -e OMPI_COMM_WORLD_RANK=$1 -e PMI_RANK=$1 && echo ${p#/proc/}
done
)SH");
    const Run run = room.shell(
        kOneThread +
        "$M sweep s.json --out o & sweep=$!; until r1=$(sh rank.sh 1); [ -n \"$r1\" ]; do sleep 0.1; done; sleep 2; "
        "r0=$(sh rank.sh 0); kill -STOP $r0; sleep 0.5; kill -9 $r1; sleep 0.2; kill -CONT $r0; wait $sweep; echo \"code $?\"");
    INFO(run.out << run.err);
    CHECK_THAT(run.out, Contains("code 3"));
    const auto rows = read_result_file(room / "o/results.json").points;
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].outcome == Outcome::crashed);
    CHECK_THAT(rows[0].reason, Contains("rank 1 on ") && Contains("killed by signal 9"));
    CHECK(rows[1].outcome == Outcome::ok);
    CHECK(live_descendants(0).empty());
  }
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
