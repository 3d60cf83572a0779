// mbench search from its command line, and figures of a machine as fields.
#include <algorithm>

#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;

namespace {

constexpr const char* kSearchSpec =
    R"({"model": "gpt2-124m", "seq": 512, "global_batch": 16, "precision": "fp16", "search": ["tp", "pp", "zero", "recompute"]})";

}  // namespace

TEST_CASE("a search prints the best, the front and what was left out, and keeps an ordinary result file") {
  const Room room;
  room.put("s.json", kSearchSpec);
  const Run run = room.shell("$M search s.json --on sim:4xV100-SXM2-16GB --best 3 --out o");
  INFO(run.err);
  REQUIRE(run.code == 0);
  CHECK_THAT(run.out, Contains("Best by time: **tp=") && Contains("## Layouts") && Contains("## Where the time goes") &&
                          Contains("## Time against memory"));
  const ResultFile file = read_result_file(room / "o/results.json");
  REQUIRE(file.points.size() >= 3);
  for (const PointResult& r : file.points) {
    CHECK(r.outcome == Outcome::ok);
    CHECK(r.simulated);
    REQUIRE(r.time_anatomy_ms);
  }
  CHECK(file.points[0].iteration_ms->mean <= file.points[1].iteration_ms->mean);
  CHECK(file.points[1].iteration_ms->mean <= file.points[2].iteration_ms->mean);
  CHECK(file.environment.at("usable_memory_mib").get<double>() > 10000);
  CHECK(read_text_file(room / "o/results.md") == run.out);
  // Tables, page and comparison read it.
  const Run report = room.shell("$M report o --format html --out o.html && $M report o && $M compare o --baseline o");
  INFO(report.err);
  CHECK(report.code == 0);
  CHECK_THAT(report.out, Contains("Margin (MiB)"));
  // The folder is a spec: a sweep over the layouts that were found, to the same times.
  const Run swept = room.shell(
      "$M sweep o --on sim:4xV100-SXM2-16GB --out again --quiet && $M compare again --baseline o --threshold time=0%");
  INFO(swept.out << swept.err);
  CHECK(swept.code == 0);
  const ResultFile again = read_result_file(room / "again/results.json");
  REQUIRE(again.points.size() == file.points.size());
  for (std::size_t i = 0; i < file.points.size(); ++i) CHECK(again.points[i].id == file.points[i].id);
  const Run planned = room.shell("$M plan o --on sim:4xV100-SXM2-16GB | grep -c 'MFU'");
  CHECK(planned.out == std::to_string(file.points.size()) + "\n");
  // Each command of the page runs one of them.
  const std::string page = read_text_file(room / "o.html");
  for (const PointResult& r : file.points) {
    const std::size_t row = page.find("<tr id=\"f1-" + r.id), begin = page.find("<code>", row) + 6;
    std::string command = page.substr(begin, page.find("</code>", begin) - begin);
    for (const std::string tag : {"<span>", "</span>"})
      for (std::size_t at; (at = command.find(tag)) != std::string::npos;) command.erase(at, tag.size());
    INFO(command);
    const Run dry = room.shell("\"$M\" " + command.substr(7) + " --dry-run");
    CHECK_THAT(dry.out, Contains("[1/1] ") && Contains(r.id));
  }
}

TEST_CASE("a search on one thread and on two says the same") {
  const Room room;
  room.put("s.json", kSearchSpec);
  const Run run = room.shell(
      "for t in 1 2; do $M search s.json --on sim:4xV100-SXM2-16GB --threads $t --out o$t | "
      "grep '^|\\|simulated,' | sed 's/, in .*//' > $t; done; cmp 1 2 && wc -l < 1");
  CHECK(run.code == 0);
  CHECK(run.out != "0\n");
}

TEST_CASE("why a layout is not the best: what it takes longer, that it does not fit, or that it cannot be") {
  const Room room;
  room.put("s.json", kSearchSpec);
  const std::string search = "$M search s.json --on sim:4xV100-SXM2-16GB --no-front --out o ";
  CHECK_THAT(room.shell(search + "--why tp=4,recompute=full").out,
             Contains("## Why not tp=4,recompute=full") && Contains("slower than") && Contains("| communication_tp |"));
  CHECK_THAT(room.shell(search + "--set memory_limit=2GiB --why tp=1,pp=1,zero=0,recompute=none").out,
             Contains("It does not fit: rank 0 takes") && Contains("too much"));
  CHECK_THAT(room.shell(search + "--why tp=5").out, Contains("It cannot be: tp 5 does not divide the 12 heads"));
  const Run unknown = room.shell(search + "--why tpp=3");
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("--why tpp=3") && Contains("tp"));
}

TEST_CASE("a search leaves a margin of memory: the framework's, or the one that is asked for") {
  const Room room;
  room.put(
      "s.json",
      R"({"model": "gpt2-124m", "seq": 512, "global_batch": 16, "precision": "bf16", "tp": [1, 2], "micro_batch": "any"})");
  const auto search = [&](const std::string& options) {
    return room.shell("$M search s.json --on sim:4xA100-SXM4-80GB --no-front --best 1 --out o --quiet " + options);
  };
  const Run plain = search("");
  INFO(plain.out << plain.err);
  CHECK_THAT(plain.out,
             Contains("No framework was named") && Contains("--set framework=megatron-core") && !Contains("margin:"));
  const Run megatron = search("--set framework=megatron-core");
  CHECK_THAT(
      megatron.out,
      !Contains("No framework was named") &&
          Contains("left as a margin: 3 % for fragments of megatron-core's allocator; --memory-margin changes it"));
  const auto best = [&] { return read_result_file(room / "o/results.json").points.at(0); };
  const double held = *best().reserved_memory_mib;
  // A margin that leaves less than the best one took: another is the best, and it keeps the margin.
  const double usable = read_result_file(room / "o/results.json").environment.at("usable_memory_mib").get<double>();
  const Run tight = search(fmt::format("--set framework=megatron-core --memory-margin {}MiB", usable - held + 1));
  INFO(tight.out << tight.err);
  REQUIRE(tight.code == 0);
  CHECK(*best().reserved_memory_mib < held);
  CHECK_THAT(search("--memory-margin 100%").err, Contains("[--memory-margin] no share of the memory, got \"100%\""));
  CHECK_THAT(search("--memory-margin 900GiB").err, Contains("[--memory-margin] no memory is left"));
  CHECK_THAT(search("--set framework=megatron-core --set memory_limit=20GiB").out,
             Contains("of 20.00 GiB a rank.") && !Contains("as a margin"));
}

TEST_CASE("a field that is given is searched as given, and why no layout can be is said") {
  const Room room;
  // On a mesh without data parallelism no strategy offers zero 1.
  room.put(
      "s.json",
      R"({"model": "gpt2-124m", "seq": 512, "global_batch": 16, "precision": "bf16", "zero": 1, "dp": [1], "tp": "any", "pp": "any", "micro_batch": [1]})");
  const Run run = room.shell("$M search s.json --on sim:4xA100-SXM4-80GB --why tp=2,pp=2 --out o --quiet");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("## Why not tp=2,pp=2") && (Contains("slower than") || Contains("It is the best")));
  const Run none = room.shell(
      "$M search s.json --on sim:4xA100-SXM4-80GB --set tp=[2,8] --set pp=1 --set dp=[2] --set global_batch=3 --why "
      "tp=2 --out o2 --quiet");
  INFO(none.out << none.err);
  CHECK_THAT(none.out, Contains("None of these layouts can be:") && Contains("global_batch 3"));
}

TEST_CASE("the fewest devices that reach a rate, and the rate per device") {
  const Room room;
  room.put("s.json", kSearchSpec);
  const Run all = room.shell("$M search s.json --on sim:8xV100-SXM2-16GB --objective tokens_per_device --out a");
  REQUIRE(all.code == 0);
  const ResultFile file = read_result_file(room / "a/results.json");
  const double best = *file.points.front().tokens_per_s / static_cast<double>(file.points.front().world);
  for (const PointResult& r : file.points) CHECK(*r.tokens_per_s / static_cast<double>(r.world) <= best * (1 + 1e-9));
  // A rate that so many devices need for: more than one of them alone, less than four.
  const Run few = room.shell(fmt::format(
      "$M search s.json --on sim:8xV100-SXM2-16GB --objective devices --rate {} --no-front --out f", best * 1.5));
  REQUIRE(few.code == 0);
  CHECK(read_result_file(room / "f/results.json").points.front().world == 2);
  const Run none = room.shell("$M search s.json --on sim:8xV100-SXM2-16GB --objective devices --out n");
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("--rate"));
}

TEST_CASE("the best are measured through an ordinary sweep, and their orders compared") {
  const Room room;
  room.put("s.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 4, "iterations": 3, "warmup": 1,
                         "search": ["tp", "recompute"]})");
  const Run run = room.shell("$M search s.json --on sim:2xcpu --measure 2 --out o --quiet");
  INFO(run.err);
  REQUIRE(run.code == 0);
  CHECK_THAT(run.out,
             Contains("## Measured on this machine") && Contains("1 pairs are measured in the simulated order"));
  const ResultFile measured = read_result_file(room / "o/measured/results.json");
  REQUIRE(measured.points.size() == 2);
  for (const PointResult& r : measured.points) {
    CHECK_FALSE(r.simulated);
    CHECK(r.outcome == Outcome::ok);
    REQUIRE(r.time_anatomy_ms);
    double sum = 0;
    for (const double ms : r.time_anatomy_ms->ms) sum += ms;
    CHECK(sum == Approx(r.iteration_ms->mean));
  }
}

TEST_CASE("a search that is asked to simulate everything confirms what it found") {
  const Room room;
  room.put("s.json", kSearchSpec);
  const Run run = room.shell("$M search s.json --on sim:4xV100-SXM2-16GB --confirm --out o");
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("simulated in full, 0 against what was found"));
}

TEST_CASE("a figure of the machine is set, swept and refused as any field, and its sensitivity told") {
  const Room room;
  room.put("s.json", R"({"model": "gpt2-124m", "seq": 512, "global_batch": 32, "dp": 16, "precision": "bf16"})");
  const std::string on = " s.json --on sim:16xA100-SXM4-40GB ";
  const Run swept = room.shell("$M sweep" + on + "--set machine.network.gbps_per_device=[5,50] --out o --quiet");
  INFO(swept.err);
  REQUIRE(swept.code == 0);
  const ResultFile file = read_result_file(room / "o/results.json");
  REQUIRE(file.points.size() == 2);
  CHECK(file.points[0].point.machine.at("network.gbps_per_device") == 5);
  CHECK(file.points[0].iteration_ms->mean > file.points[1].iteration_ms->mean);
  CHECK_THAT(swept.out, Contains("machine.network.gbps_per_device"));
  const Run unknown = room.shell("$M sweep" + on + "--set machine.network.gbps_per_devise=5 --out p");
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err,
             Contains("machine.network.gbps_per_devise") && Contains("did you mean \"network.gbps_per_device\"?"));
  const Run plan = room.shell("$M plan" + on + "--sensitivities");
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Contains("| Figure") && Contains("device.peak_tflops.bf16") && Contains("device.memory_gbps") &&
                           Contains("10 % more cannot be of"));
  const Run real = room.shell("$M plan s.json --sensitivities");
  CHECK(real.code == 2);
}
