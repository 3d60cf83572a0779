// The table of faults, where a file is at fault: specs, points, results, baselines, machines, traces and data that are no such thing,
// have no end, or hold what cannot be counted. What these cases make of the built binary is reading and reporting: no rank is started.
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

TEST_CASE("faults: files that are nested without end, or have no end, are refused by every reader") {
  const RoomWithResult room;
  const auto deep = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  room.put("deep.json", deep(100000));
  room.put("spec.json", R"({"model": "gpt-bytes-tiny", "env": )" + deep(100000) + "}");
  room.put("r/results-deep.json",
           R"({"schema": "mbench.results/1", "spec": )" + deep(90000) + R"(, "environment": {}, "points": []})");
  for (const std::string field : {"name", "sweep", "data", "tables"})
    room.put(field + ".json", R"({"model": "gpt-bytes-tiny", ")" + field + "\": " + deep(100000) + "}");
  room.put("model.json", R"({"model": )" + deep(100000) + "}");
  room.put("source.json", R"({"model": "gpt-bytes-tiny", "published": {"source": )" + deep(100000) + "}}");
  room.put("row.json", R"({"schema": "mbench.results/1", "spec": {}, "environment": {}, "points": [{"losses": )" +
                           deep(100000) + "}]}");
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
        {"cp r/results-deep.json r/results.json; $M sweep tiny.json --set tp=1 --out r --resume" + kSimulated, 2, says},
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
  room.put("label.json",
           R"({"model": "gpt-bytes-tiny", "seq": 32, "sweep": {"env": [{"A": "\u001b[31m\u009b1m"}, {}]}})");
  const std::string escape = "\"$(printf '\\033[31m')\"";
  hold(room, {{"$M sweep tiny.json --out d --timeout " + escape, 2, "\\x1b[31m"},
              {"$M sweep tiny.json --out d --collective-timeout " + escape, 2, "\\x1b[31m"},
              {"$M sweep tiny.json --set tp=1 --dry-run --launcher-args \"--x $(printf '\\033[31m')\" --launcher "
               "mpirun --out d",
               0, "$'\\x1b'"},
              {"$M sweep tiny.json --set tp=1 --dry-run --launcher local --out " + escape, 0, "\\x1b"},
              {"$M sweep label.json --dry-run --launcher local --out d", 0, "\\u001b"},
              {"$M plan label.json", 0, "\\u001b"},
              {"$M run large.json", 2, "[large.json] a number that is too large, got 1e400"},
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

TEST_CASE(
    "faults: the longest steps and pipelines that are accepted are planned and simulated in seconds, within 2 GB") {
  if (kSanitized) {
    WARN(
        "not tried under a sanitizer, which takes terabytes of addresses and several times as long: times and memory "
        "of large plans");
    return;
  }
  const Room room;
  // As many micro batches times stages as sizes allow, and pipelines as long as a bound of their own allows.
  room.put("steps.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2097152})");
  room.put("stages.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "pp": 4, "global_batch": 524288})");
  room.put("long.json",
           R"({"model": {"preset": "gpt-bytes-tiny", "layers": 1024}, "seq": 64, "pp": 1024, "global_batch": 2048})");
  room.put("chunks.json", R"({"model": {"preset": "gpt-bytes-tiny", "layers": 8192}, "seq": 64, "pp": 2,
                              "schedule": "interleaved", "virtual_stages": 4096, "global_batch": 2})");
  // Of processor time, so that a busy machine changes nothing. On idle ones they take 1 to 12 s and up to 1 GB.
  const std::string limits = "ulimit -t 30; ulimit -v 2000000; ";
  const auto sweep = [&](const std::string& name, int ranks) {
    return limits + fmt::format("$M sweep {}.json --on sim:{}xcpu --quiet --out {}", name, ranks, name);
  };
  hold(room, {{limits + "$M plan steps.json", 0, "2097152 micro batches of 1"},
              {limits + "$M plan stages.json", 0, "524288 micro batches of 1"},
              {limits + "$M plan long.json", 0, "= tp 1 x dp 1 x pp 1024"},
              {limits + "$M plan chunks.json", 0, "= tp 1 x dp 1 x pp 2"},
              {sweep("steps", 1), 0, "| ok (simulated)"},
              {sweep("stages", 4), 0, "| ok (simulated)"},
              {sweep("long", 1024), 0, "| ok (simulated)"},
              {sweep("chunks", 2), 0, "| ok (simulated)"}});
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
  hold(room, {{sweep("text:none.txt"), 2, "no such data file"},
              {sweep("text:folder"), 2, "got a directory, need a regular file"},
              {sweep("text:/dev/zero"), 2, "got a pipe or device, need a regular file"},
              {sweep("text:empty.txt"), 2, "the data file is empty"},
              {sweep("text:short.txt"), 2, "too short for one sample, got 22 tokens, need at least 65"},
              {sweep("tokens:odd.bin"), 2, "odd size, got 1001 bytes"},
              {sweep("tokens:tokens.bin"), 2, "is outside the model's vocabulary, got 32639, need less than"}});
  CHECK_FALSE(fs::exists(room / "o"));
}
