// The built binary, started as a person starts it: help, exit codes, messages, a sweep from spec to tables.
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>

#include "engine/base/json_reader.h"
#include "engine/point/result_file.h"
#include "engine/process/process_tree.h"
#include "engine/sim/machine/machine.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::sim;
using namespace mbench::test;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("every command has help, and the version is told") {
  const Room room;
  const Run version = room.shell("$M --version");
  CHECK(version.code == 0);
  CHECK_THAT(version.out, Catch::StartsWith("mbench " MBENCH_VERSION "\nrevision  ") && Contains("\ncompiler  ") &&
                              Contains("\nmpi       ") && Contains("\ncuda      ") && Contains("\nblas      "));
  const Run help = room.shell("$M --help");
  CHECK(help.code == 0);
  CHECK_THAT(help.out, Contains("Exit codes: 0 done; 1 regression found"));
  for (const std::string command : {"sweep", "run", "plan", "report", "compare", "baseline", "trend", "devices"}) {
    INFO(command);
    CHECK_THAT(help.out, Contains("\n  " + command + " "));
    CHECK(room.shell("$M " + command + " --help").code == 0);
  }
  const Run sweep = room.shell("$M sweep --help");
  for (const std::string option :
       {"--on", "--out", "--set", "--filter", "--resume", "--dry-run", "--launcher", "--timeout", "--quiet"})
    CHECK_THAT(sweep.out, Contains("\n  " + option + " "));
}

TEST_CASE("bad usage and bad input exit with 2 and say what was wrong") {
  const Room room;
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    const Run run = room.shell("$M " + arguments);
    INFO(arguments << "\n" << run.out << run.err);
    CHECK(run.code == 2);
    CHECK_THAT(run.err, Contains(message));
    CHECK_FALSE(fs::exists(room / "out"));
  };
  room.put("cut.json", R"({"model": "gpt-bytes-tiny", )");
  room.put("typo.json", R"({"model": "gpt-bytes-tiny", "sweep": {"tp": [1, "two"]}})");
  refused("", "subcommand is required");
  refused("swep tiny.json", "");
  refused("sweep", "SPEC is required");
  refused("sweep tiny.json --frobnicate", "--frobnicate");
  refused("sweep none.json", "[none.json] cannot be read: No such file");
  refused("sweep cut.json", "[cut.json] cut short: the file ends at byte 28");
  refused("sweep typo.json", "[typo.json: $.sweep.tp[1]] wrong type, got \"two\", need a whole number");
  refused("sweep tiny.json --set tpp=2", "[--set tpp=2] unknown field, got \"tpp\", need one of");
  refused("sweep tiny.json --filter tp=8", "none of the 4 points is left");
  // Which of the two is missing depends on where this was built; where nothing is, the sweep would run.
  const std::string devices = room.shell("$M devices").out;
  for (const char* peak : {"GFLOP/s on an f32 GEMM", "GFLOP/s on a bf16 GEMM", "GFLOP/s on a fp16 GEMM"})
    CHECK_THAT(devices, Contains(peak));
  CHECK_THAT(devices, Contains("\n          bf16 GEMMs: "));
  if (devices.find("cuda      none: this binary") != std::string::npos)
    refused("sweep tiny.json --on cuda", "[--on] this binary has no CUDA device, got cuda, need cpu");
  else if (devices.find("cuda      none: ") != std::string::npos)
    refused("sweep tiny.json --on cuda", "[--on] no GPU here: ");
  refused("sweep tiny.json --on sim:8xv100", "[--on] several machines are meant, got \"v100\"");
  refused("sweep tiny.json --on sim:v100", "[--on] no simulated machine, got \"sim:v100\", need sim:<N>x<MACHINE>");
  refused("sweep tiny.json --on gpu", "[--on] no such device, got \"gpu\"");
  refused("sweep tiny.json --launcher mpirum", "did you mean \"mpirun\"?");
  refused("sweep tiny.json --timeout 0", "--timeout");
  refused("sweep tiny.json --timeout nan", "--timeout: not such a time, got nan, need seconds from 0.001 to");
  refused("run tiny.json --collective-timeout nan", "--collective-timeout: not such a time, got nan");
  refused("sweep tiny.json --resume", "[--resume] which sweep is not said, need --out DIR");
  refused("sweep tiny.json --resume --out nowhere", "[nowhere] nothing to resume");
  room.put("twice.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "seq": 32})");
  room.put("folder/empty", "");
  refused("run none.json", "[none.json] cannot be read");
  refused("run twice.json", "[twice.json: $] the key \"seq\" stands twice");
  refused("run folder", "[folder]");
  refused("report folder", "[folder/results.json] cannot be read");
  refused("report none.json", "[none.json] cannot be read");
}

TEST_CASE("a dry run lists the points and writes nothing") {
  const Room room;
  const Run run = room.shell("$M sweep tiny.json --dry-run --set tp=[1,3]");
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("4 points on cpu") && Contains("2 infeasible") && Contains("tp=1 strategy=full") &&
                          Contains(" run out/tiny-") && Contains("tp 3 does not divide the 4 heads, need tp 2 or 4"));
  CHECK_FALSE(fs::exists(room / "out"));
}

TEST_CASE("a sweep runs from its spec to its tables, and resumes to nothing") {
  const Room room;
  const Run run = room.shell("$M sweep tiny.json --out o");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  const ResultFile file = read_result_file(room / "o/results.json");
  REQUIRE(file.points.size() == 4);
  for (const PointResult& r : file.points) {
    CHECK(r.outcome == Outcome::ok);
    CHECK(r.iteration_ms.value().samples.size() == 3);
    CHECK(r.peak_memory_by_rank_mib.size() == static_cast<std::size_t>(r.world));
    CHECK(r.losses.back() == Approx(file.points[0].losses.back()).epsilon(1e-4));
  }
  CHECK(read_text_file(room / "o/results.md").starts_with(run.out));  // plots may follow
  CHECK_THAT(run.err, Contains("[4/4] tp=2 strategy=full: ok, "));
  const Run again = room.shell("$M sweep tiny.json --out o --resume");
  CHECK(again.code == 0);
  CHECK_THAT(again.err, Contains("4 of them are done already") && Contains("nothing to run"));
  const Run refused = room.shell("$M sweep tiny.json --out o");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("need --resume to go on with it or another --out"));
}

TEST_CASE("an oom and an infeasible layout are outcomes, a hang is a failure") {
  const Room room;
  const Run limits = room.shell("$M sweep tiny.json --out a --set tp=[1,3] --set memory_limit=1MiB --quiet");
  CHECK(limits.code == 0);
  CHECK(limits.err.empty());
  const ResultFile file = read_result_file(room / "a/results.json");
  REQUIRE(file.points.size() == 4);
  CHECK(file.points[0].outcome == Outcome::oom);
  CHECK(file.points[2].outcome == Outcome::infeasible);

  const Run slow =
      room.shell("$M sweep tiny.json --out b --set tp=2 --set strategy=full --set iterations=1000000 --timeout 2");
  CHECK(slow.code == 3);
  const ResultFile hung = read_result_file(room / "b/results.json");
  REQUIRE(hung.points.size() == 1);
  CHECK(hung.points[0].outcome == Outcome::timeout);
  CHECK_THAT(hung.points[0].reason, Contains("killed by the time-out of 2.0 s"));
  CHECK(live_descendants(0).empty());
}

TEST_CASE("Ctrl-C keeps what is done and tells how to go on") {
  const Room room;
  // The second point would take hours; once the first has its row, the sweep is told to stop.
  const Run run = room.shell(
      "$M sweep tiny.json --set tp=2 --set strategy=full --set iterations=[3,1000000] --out o & sweep=$!; "
      "until grep -q '\"ok\"' o/results.json 2>/dev/null; do sleep 0.1; done; sleep 1; kill -INT $sweep; "
      "wait $sweep");
  INFO(run.out << run.err);
  CHECK(run.code == 3);
  CHECK_THAT(
      run.err,
      Contains("Interrupted: 1 of 2 points are done and kept") &&
          Contains(" To go on: mbench sweep tiny.json --on cpu --out o --resume --set tp=2 --set strategy=full"));
  CHECK(read_result_file(room / "o/results.json").points.at(0).outcome == Outcome::ok);
  CHECK(live_descendants(0).empty());
}

TEST_CASE("published figures: a sweep and a report print them beside ours, several reports sum them up") {
  const Room room;
  room.put("p.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "iterations": 2, "warmup": 0,
    "sweep": {"offload": ["none", "all"]}, "published": {"source": "nobody", "machine": "cpu", "rows": [
      {"where": {"offload": "none"}, "peak_memory_mib": 4}, {"where": {"offload": "all"}, "peak_memory_mib": 3}]}})");
  const Run swept = room.shell("$M sweep p.json --out a --launcher local --quiet");
  CHECK(swept.code == 0);
  CHECK_THAT(swept.out, Contains("| Peak memory (MiB): published |") && Contains("Published: nobody."));
  CHECK_THAT(swept.out, Contains("1 of 2 published figures compared") && Contains("| infeasible ["));
  const Run both = room.shell("$M report a/results.json a/results.json");
  CHECK(both.code == 0);
  CHECK_THAT(both.out,
             Contains("# All 2 files against what was published") && Contains("2 of 4 published figures compared"));
  CHECK_THAT(room.shell("$M report a/results.json").out, !Contains("# All "));
  room.put("bad.json", R"({"model": "gpt-bytes-tiny", "published": {"source": "nobody", "machine": "cpu",
    "rows": [{"where": {"tp": 2}, "mfu": 1}]}})");
  const Run refused = room.shell("$M sweep bad.json --out b");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("bad.json: $.published.rows[0].where] picks none of the 1 points"));
  CHECK_FALSE(fs::exists(room / "b"));
}

TEST_CASE("a sweep whose points do not meet the gates of its spec says so and ends with 1") {
  const Room room;
  room.put("gated.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "sweep": {"tp": [1, 2]},
                             "gates": [{"iteration_ms": {"at_most": 1e6}}, {"where": {"tp": 2}, "world": {"at_least": 4}}]})");
  const Run failed = room.shell("$M sweep gated.json --on sim:8xH100-SXM5-80GB --out o --quiet");
  CHECK(failed.code == 1);
  CHECK_THAT(failed.err, Contains("gates: 1 of 3 failed: world 2 is less than 4 (tp 2)"));
  CHECK_THAT(failed.out, Contains("## Gates") && Contains("FAILED"));
  const Run met = room.shell("$M sweep gated.json --on sim:8xH100-SXM5-80GB --out m --quiet --filter tp=1");
  CHECK(met.code == 0);
  CHECK_THAT(met.err, Contains("gates: the only one is met"));
  // A search looks for layouts of the same model, to which no gate is put.
  room.put(
      "job.json",
      R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 2, "tp": "any", "gates": {"iteration_ms": {"at_most": 1e-9}}})");
  const Run search = room.shell("$M search job.json --on sim:2xH100-SXM5-80GB --out s");
  INFO(search.err);
  CHECK(search.code == 0);
  CHECK_THAT(search.out, !Contains("Gates"));
}

TEST_CASE("sweeps of one name that begin in the same second have folders of their own") {
  const Room room;
  const Run run = room.shell(
      "for i in 1 2 3 4; do $M sweep tiny.json --on sim:2xA100-SXM4-40GB --quiet >/dev/null & done; wait; ls out | wc "
      "-l");
  INFO(run.err);
  CHECK(run.out.find("4") != std::string::npos);
  CHECK(run.err.empty());
  CHECK(room.shell("cat out/*/results.md | grep -c 'Baseline (simulated)'").out == "8\n");
}

TEST_CASE("calibrate writes over no file but a machine's") {
  const Room room;
  const std::string spec = read_text_file(room / "tiny.json");
  room.put("notes.txt", "mine");
  for (const std::string file : {"tiny.json", "notes.txt"}) {
    const Run run = room.shell("$M calibrate " + file + " --quick");
    INFO(file);
    CHECK(run.code == 2);
    CHECK_THAT(run.err, Contains("[calibrate " + file + "] is there and is no machine's, got a file of ") &&
                            Contains("my-machine.json"));
  }
  CHECK(read_text_file(room / "tiny.json") == spec);
  CHECK(read_text_file(room / "notes.txt") == "mine");
}

TEST_CASE("devices lists machines and frameworks in columns") {
  const Room room;
  const std::string devices = room.shell("$M devices").out;
  const std::size_t machines = devices.find("machines to simulate"),
                    frameworks = devices.find("\nframeworks as whose program");
  REQUIRE((machines != std::string::npos && frameworks != std::string::npos));
  std::istringstream table(devices.substr(machines, frameworks - machines));
  std::string line;
  std::getline(table, line);
  std::set<std::string> named;
  std::set<std::size_t> widths;
  while (std::getline(table, line) && !line.starts_with("  Peaks")) {
    CHECK(line.size() <= 100);
    widths.insert(line.size());
    if (const std::string name = line.substr(2, line.find(' ', 2) - 2); !name.empty()) named.insert(name);
  }
  CHECK(widths.size() == 1);
  const auto names = machine_names();
  CHECK(named == std::set<std::string>(names.begin(), names.end()));
  CHECK_THAT(devices,
             Contains("\n  H100-SXM5-80GB             8       79    989.5     1979     3350      370       47\n"));
  CHECK_THAT(devices, Contains("\n  A100-SXM4-80GB-RoCE        8       79      312        -     2039"));
  std::set<std::size_t> columns;
  for (std::size_t at = devices.find("\n  ", frameworks); at != std::string::npos; at = devices.find("\n  ", at + 1))
    columns.insert(devices.find_first_not_of(' ', devices.find("  ", at + 3)) - at);
  CHECK(columns.size() == 1);
  CHECK_THAT(
      room.shell("$M devices --on sim:8xh100").err,
      Contains("[--on] sim:8xh100 is taken as sim:8xH100-SXM5-80GB; there are also H100-HBM2e-96GB, H100-NVL-94GB"));
  CHECK_THAT(room.shell("$M devices --on sim:8x4090").out, Contains("RTX-4090: NVIDIA GeForce RTX 4090"));
}

TEST_CASE("one size of the model is set, swept and filtered by its name") {
  const Room room;
  const Run set = room.shell("$M sweep tiny.json --dry-run --set model.layers=3 --set strategy=full --set tp=1");
  CHECK(set.code == 0);
  const Run swept = room.shell(
      "$M sweep tiny.json --on sim:1xA100-SXM4-40GB --set tp=1 --set strategy=full --set model.layers=[1,2,3] --out o "
      "--quiet");
  INFO(swept.err);
  CHECK(swept.code == 0);
  const ResultFile file = read_result_file(room / "o/results.json");
  REQUIRE(file.points.size() == 3);
  CHECK(file.points[2].point.model.layers == 3);
  CHECK(file.points[2].point.model.name == "gpt-bytes-tiny");
  CHECK_THAT(room.shell("$M plan o --on sim:1xA100-SXM4-40GB --filter model.layers=3").out,
             Contains("model.layers=3") && !Contains("model.layers=1"));
  const Run both =
      room.shell("$M plan tiny.json --set tp=1 --set strategy=full --set model.heads=2 --set model.kv_heads=1");
  CHECK(both.code == 0);
  CHECK_THAT(both.out, Contains("gpt-bytes-tiny") && Contains("parameters"));
  CHECK_THAT(room.shell("$M plan tiny.json --set model.layerz=3").err, Contains("layerz") && Contains("layers"));
  CHECK_THAT(room.shell("$M plan tiny.json --set model.family=llama").err, Contains("need the whole of \"model\""));
}

TEST_CASE("plan says what does not fit this machine, with what is needed and what is there") {
  const Room room;
  room.put("big.json", R"({"model": "gpt2-124m", "seq": 512, "micro_batch": 16384, "global_batch": 32768, "dp": 2})");
  const Run big = room.shell("$M plan big.json");
  CHECK(big.code == 0);
  CHECK_THAT(big.out,
             Contains("does not fit [memory] the 2 ranks need") && Contains("TiB of memory on this machine, got "));
  CHECK_THAT(room.shell("$M plan tiny.json").out, !Contains("does not fit"));
}
