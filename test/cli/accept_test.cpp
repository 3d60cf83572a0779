// mbench accept: PASS and FAIL with their exit codes, what it leaves, and what it refuses.
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
using nlohmann::json;

namespace {

void put_spec(const Room& room) {
  room.put("s.json", R"({"name": "small", "model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "micro_batch": 1,
      "warmup": 1, "iterations": 5})");
}

constexpr const char* kCommand = "$M accept s.json --expect cpu --on cpu --repeat 1 --largest 4KiB --soak 0 --quiet";

}  // namespace

TEST_CASE("accept: what stays within its tolerances passes, with a page, a verdict and all that was measured") {
  const Room room;
  put_spec(room);
  const Run run = room.shell(std::string(kCommand) + " --peers 99.99% --data-sheet 99.99% --out a");
  INFO(run.err);
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("PASS: ") && Contains("a/accept.html"));
  const json verdict = json::parse(read_text_file(room / "a/accept.json"));
  CHECK(verdict.at("verdict") == "PASS");
  CHECK(verdict.at("reasons").empty());
  CHECK(verdict.at("steps").size() == 1);
  CHECK(verdict.at("steps")[0].at("measured_ms").get<double>() > 0);
  CHECK(verdict.at("steps")[0].at("simulated_ms").get<double>() > 0);
  CHECK(verdict.at("steps")[0].at("disturbed_by").is_array());
  CHECK(verdict.at("worst").size() == 5);
  const double first = verdict.at("worst")[0].at("worse_by"), last = verdict.at("worst")[4].at("worse_by");
  CHECK(first >= last);
  const std::string page = read_text_file(room / "a/accept.html");
  CHECK_THAT(page, Contains("<strong>PASS</strong>") && Contains("The worst five") && Contains("Simulated step"));
  CHECK(json::parse(read_text_file(room / "a/check-before.json")).at("schema") == "mbench.check/1");
  CHECK(json::parse(read_text_file(room / "a/check-after.json")).at("schema") == "mbench.check/1");
  const Run again = room.shell(std::string(kCommand) + " --out a");
  CHECK(again.code == 2);
  CHECK_THAT(again.err, Contains("[--out]") && Contains("need a new folder"));
}

TEST_CASE("accept: a gate of the spec that fails is a reason, whatever the tolerances") {
  const Room room;
  room.put("s.json", R"({"name": "small", "model": "gpt-bytes-tiny", "seq": 32, "global_batch": 2, "micro_batch": 1,
      "warmup": 1, "iterations": 5, "gates": {"iteration_ms": {"at_most": 0.001}}})");
  const Run run = room.shell(std::string(kCommand) + " --peers 99.99% --data-sheet 99.99% --out a");
  INFO(run.err);
  CHECK(run.code == 1);
  CHECK_THAT(run.out, Contains("FAIL: ") && Contains("- gate: iteration_ms ") && Contains("is more than 0.001"));
}

TEST_CASE("accept: what a machine's file says and is not reached fails, with its reasons") {
  const Room room;
  // Work enough that no CPU comes near: the simulated step is the host's launches.
  room.put("s.json", R"({"name": "small", "model": "gpt-bytes-tiny", "seq": 64, "global_batch": 16, "micro_batch": 16,
      "warmup": 1, "iterations": 5})");
  const Run run = room.shell(
      "$M accept s.json --expect H100-SXM5-80GB --on cpu --repeat 1 --largest 4KiB --soak 0 --quiet --peers 99% "
      "--data-sheet 5% --out a");
  INFO(run.err);
  CHECK(run.code == 1);
  CHECK_THAT(run.out, Contains("FAIL: ") && Contains("below what H100-SXM5-80GB says"));
  CHECK_THAT(run.out, Contains(": a step takes ") && Contains(" % longer than the "));
  const json verdict = json::parse(read_text_file(room / "a/accept.json"));
  CHECK(verdict.at("verdict") == "FAIL");
  CHECK_FALSE(verdict.at("reasons").empty());
  const std::string page = read_text_file(room / "a/accept.html");
  CHECK_THAT(page, Contains("<strong>FAIL</strong>") && Contains("<td>GFLOP/s</td>"));
  const std::string steps = page.substr(page.find("<h2>Steps</h2>"));
  CHECK_THAT(steps, Contains("<th scope=col>Point</th><th scope=col>Verdict</th><th scope=col>Measured step</th>") &&
                        Contains("</th><td>FAIL</td><td>"));
}

TEST_CASE("accept: bad input is refused before anything is measured") {
  const Room room;
  put_spec(room);
  CHECK(room.shell("$M accept s.json --out a").code == 2);
  const Run machine = room.shell("$M accept s.json --expect nothing --out a");
  CHECK(machine.code == 2);
  CHECK_THAT(machine.err, Contains("[--expect]"));
  const Run tolerance = room.shell("$M accept s.json --expect cpu --out a --peers 0");
  CHECK(tolerance.code == 2);
  CHECK_THAT(tolerance.err, Contains("[--peers]"));
  CHECK_FALSE(std::filesystem::exists(room.path / "a"));
}

TEST_CASE("check files: a fleet of them, and report, compare, baseline and trend read them") {
  const Room room;
  const auto node = [](const std::string& name, double memory) {
    return fmt::format(
        R"({{"schema": "mbench.check/1", "device": "cpu", "date": "2026-11-01", "devices": ["cpu"], "machine": null,
             "hosts": [{{"name": "{}", "cpu": "A CPU", "ranks": [0]}}], "tolerance": 0.1, "findings": [],
             "figures": [{{"what": "memory", "scope": "rank", "unit": "GB/s", "bytes": 0, "rate": true, "judged": true,
                           "of": [{{"ranks": [0], "value": {}, "seconds": 0.1, "wrong": 0, "expected": null}}]}}]}})",
        name, memory);
  };
  for (int i = 0; i < 5; ++i) room.put(fmt::format("n{}.json", i), node(fmt::format("h{}", i), 100 + i));
  room.put("slow.json", node("h9", 50));
  const Run fleet = room.shell("$M check --fleet n*.json slow.json --result fleet.json");
  INFO(fleet.err);
  CHECK(fleet.code == 1);
  CHECK_THAT(fleet.out, Contains("**h9** falls out: *@10%: memory 50 GB/s"));
  CHECK(room.shell("$M check --fleet n0.json n1.json n2.json").code == 0);
  CHECK(room.shell("$M check --fleet n*.json slow.json --rule '2 of *@5%'").code == 0);
  CHECK_THAT(room.shell("$M check --fleet n*.json --rule x").err, Contains("[--rule] not a rule"));
  CHECK_THAT(room.shell("$M check --fleet n*.json --rule mem@5%").err, Contains("[--rule] no such figure"));
  CHECK_THAT(room.shell("$M report fleet.json").out,
             Contains("Fleet of 6 nodes") && Contains("**h9** falls out: *@10%: memory 50 GB/s"));
  CHECK_THAT(room.shell("$M report fleet.json --format html").out, Contains("1 falls out."));
  CHECK_THAT(room.shell("$M check --fleet n*.json slow.json --format junit").out, Contains("failures=\"1\""));
  CHECK_THAT(room.shell("$M report n0.json").out, Contains("Check of 1 rank"));
  const Run worse = room.shell("$M compare slow.json --baseline fleet.json");
  CHECK(worse.code == 1);
  CHECK_THAT(worse.out, Contains("1 of 1 figures worse by more than 5 %") && Contains("**worse**"));
  CHECK(room.shell("$M compare n1.json --baseline fleet.json").code == 0);
  CHECK(room.shell("$M compare n1.json --baseline slow.json").code == 0);
  CHECK(room.shell("$M baseline add fleet.json --dir b").code == 0);
  CHECK(room.shell("$M compare slow.json --baseline b").code == 1);
  CHECK(room.shell("$M baseline add slow.json --dir b").code == 0);
  CHECK_THAT(room.shell("$M trend --dir b --metric checks").out,
             Contains("memory (A CPU)") && Contains("102 to 50 GB/s"));
}
