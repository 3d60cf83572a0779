// Simulated machines from the command line: sweeps, plans, single points, traces and calibration.
#include <algorithm>
#include <map>
#include <set>

#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/room.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kOn = " --on sim:2xV100-SXM2-16GB ";

// A trace as its ranks: pid to the number of its spans, each whole.
std::map<int, int> spans_by_rank(const std::string& path) {
  std::map<int, int> ranks;
  const json trace = json::parse(read_text_file(path));
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    CHECK(e.at("ts").get<double>() >= 0);
    CHECK(e.at("dur").get<double>() >= 0);
    ++ranks[e.at("pid").get<int>()];
  }
  return ranks;
}

// Files of the folder whose names begin so.
std::set<std::string> files(const Room& room, const std::string& beginning) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(room.path))
    if (const std::string name = entry.path().filename().string(); name.starts_with(beginning)) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("a loader that decides the step is named by sweep, report, its page and run, with what cures it") {
  const Room room;
  room.put("s.json",
           R"({"model": {"family": "bert", "layers": 8, "hidden": 1024, "heads": 16, "vocab": 30522, "positions": 512},
    "seq": 512, "micro_batch": 16, "global_batch": 256, "pp": 4, "framework": "megatron-2022", "precision": "fp16"})");
  const std::string on = " --on sim:8xA100-SXM4-80GB ",
                    says = "masked words are chosen within the step: loader_workers 2 takes";
  const Run sweep = room.shell("$M sweep s.json --out o" + on);
  INFO(sweep.out << sweep.err);
  CHECK(sweep.code == 0);
  CHECK_THAT(sweep.out, Contains(says));
  CHECK_THAT(sweep.err, Contains(says));
  CHECK_THAT(read_result_file(room / "o/results.json").points.at(0).reason, Contains(says));
  CHECK_THAT(room.shell("$M report o").out, Contains(says));
  CHECK_THAT(room.shell("$M report o --format html").out, Contains("loader_workers"));
  CHECK_THAT(room.shell("$M sweep s.json --quiet --out p --trace t.json" + on).out, Contains(says));
  const Run cured = room.shell("$M sweep s.json --quiet --out q --set loader_workers=16" + on);
  CHECK(cured.code == 0);
  CHECK_THAT(cured.out, !Contains("masked words are chosen"));
}

TEST_CASE(
    "a framework whose figures a machine lacks is unsupported where it needs them, and says so on standard error") {
  const Room room;
  room.put(
      "s.json",
      R"({"model": "gpt2-124m", "seq": 512, "precision": "bf16", "global_batch": 4, "dp": 2, "framework": "internevo-2023",
                         "attention": "flash"})");
  const std::string on = " --on sim:2xH100-SXM5-80GB ",
                    says = "framework internevo-2023 runs on the first FlashAttention, got H100-SXM5-80GB";
  const Run sweep = room.shell("$M sweep s.json --quiet --out o" + on);
  INFO(sweep.out << sweep.err);
  CHECK(sweep.code == 0);
  const PointResult row = read_result_file(room / "o/results.json").points.at(0);
  CHECK(row.outcome == Outcome::unsupported);
  CHECK_THAT(row.reason,
             Contains(says) && Contains("need both or another framework. A framework that keeps its scores"));
  const Run plan = room.shell("$M plan s.json" + on);
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Contains("cannot run: [sim] " + says));
  CHECK_THAT(plan.err, Contains(says));
  // What it advises works.
  for (const std::string set : {"attention=core", "framework=mbench"})
    CHECK(room.shell("$M plan s.json --set " + set + on).code == 0);
  CHECK_THAT(room.shell("$M sweep s.json --quiet --out c --set attention=core" + on).out, Contains("| ok"));
  const Run search = room.shell("$M search s.json --quiet --out s --set tp=any --set dp=any" + on);
  INFO(search.out << search.err);
  CHECK(search.code == 0);
  CHECK_THAT(search.out, Contains(says));
}

TEST_CASE("a simulated sweep writes rows that say so, and no losses") {
  const Room room;
  const Run run = room.shell("$M sweep tiny.json --out o" + kOn);
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  const json raw = json::parse(read_text_file(room / "o/results.json"));
  REQUIRE(raw.at("points").size() == 4);
  for (const json& p : raw.at("points")) {
    CHECK(p.at("outcome") == "ok");
    CHECK(p.at("simulated") == true);
    CHECK(p.at("device") == "sim:2xV100-SXM2-16GB");
    for (const char* unknown : {"losses", "gradient_norms", "skipped_steps", "power_w", "utilization"}) {
      INFO(unknown);
      CHECK(p.at(unknown).is_null());
    }
    CHECK(p.at("iteration_ms").at("mean").get<double>() > 0);
    CHECK(p.at("peak_memory_mib").get<double>() > 0);
    CHECK(p.at("device_memory_mib").get<double>() > 1100);
  }
  CHECK_THAT(run.out,
             Contains("4 of 4 points are simulated (sim:2xV100-SXM2-16GB)") && Contains("Baseline (simulated)"));
  CHECK_THAT(run.err, Contains("4 points on sim:2xV100-SXM2-16GB, simulated"));
  // Another time, another process, the same to the last digit.
  REQUIRE(room.shell("$M sweep tiny.json --out again --quiet" + kOn).code == 0);
  CHECK(json::parse(read_text_file(room / "again/results.json")).at("points") == raw.at("points"));
}

TEST_CASE("a simulated result is no baseline for a measured one, nor the other way round") {
  const Room room;
  REQUIRE(room.shell("$M sweep tiny.json --out s --quiet" + kOn).code == 0);
  REQUIRE(room.shell("OMP_NUM_THREADS=1 $M sweep tiny.json --out m --quiet --launcher local --set tp=1").code == 0);
  const Run against_simulated = room.shell("$M compare m/results.json --baseline s/results.json");
  CHECK(against_simulated.code == 2);
  CHECK_THAT(against_simulated.err, Contains("not comparable, measured here, simulated in the baseline"));
  const Run against_measured = room.shell("$M compare s/results.json --baseline m/results.json");
  CHECK(against_measured.code == 2);
  CHECK_THAT(against_measured.err, Contains("not comparable, simulated here, measured in the baseline"));
  CHECK(room.shell("$M compare s/results.json --baseline s/results.json").code == 0);
}

TEST_CASE(
    "a machine that cannot be had is refused with its file and path, or the nearest name, before anything "
    "runs") {
  const Room room;
  json broken = json::parse(read_text_file(MBENCH_SOURCE_DIR "/engine/sim/machines/V100-SXM2-16GB.json"));
  broken["device"]["memory_gbps"].erase("source");
  room.put("broken.json", broken.dump());
  for (const std::string command : {"sweep", "plan"}) {
    INFO(command);
    const Run file = room.shell("$M " + command + " tiny.json --on sim:2xbroken.json");
    CHECK(file.code == 2);
    CHECK_THAT(file.err, Contains("[broken.json: $.device.memory_gbps] \"source\" is missing"));
    const Run name = room.shell("$M " + command + " tiny.json --on sim:2xV100-SXM9-16GB");
    CHECK(name.code == 2);
    CHECK_THAT(name.err, Contains("[--on] no such machine, got \"V100-SXM9-16GB\"") &&
                             Contains("did you mean \"V100-SXM2-16GB\""));
    const Run framework = room.shell("$M " + command + " tiny.json --set framework=megatron-cor" + kOn);
    CHECK(framework.code == 2);
    CHECK_THAT(framework.err, Contains("$.framework] no such framework, got \"megatron-cor\"") &&
                                  Contains("did you mean \"megatron-core\"?"));
    CHECK(room.shell("$M " + command + " tiny.json --on sim:V100-SXM2-16GB").code == 2);
  }
  CHECK_FALSE(fs::exists(room / "out"));
}

TEST_CASE("a plan on a simulated machine prints memory by ranks and categories, and why a point cannot be") {
  const Room room;
  const Run plan = room.shell("$M plan tiny.json --on sim:4xV100-SXM2-16GB --set pp=2");
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Contains("ranks        4 = tp 2 x dp 1 x pp 2") && Contains("\n    0-1 ") &&
                           Contains("\n    2-3 ") && Contains("simulated    "));
  for (const char* category : {"weights", "gradients", "optimizer", "activations", "workspace", "other", "reserved"})
    CHECK_THAT(plan.out, Contains(category));
  CHECK_THAT(plan.out, Contains("device       V100-SXM2-16GB: 14.70 GiB for the allocator of 15.77 GiB"));
  CHECK_THAT(plan.out, !Contains("cannot run"));
  CHECK_THAT(room.shell("$M plan tiny.json --filter tp=2 --on sim:1xV100-SXM2-16GB").out,
             Contains("cannot run: [sim] 2 ranks on 1 devices of V100-SXM2-16GB, need sim:2xV100-SXM2-16GB"));
  CHECK_THAT(room.shell("$M plan tiny.json --set memory_limit=2MiB" + kOn).out,
             Contains("cannot run: [rank 0] ") && Contains("out of memory at"));
  CHECK_THAT(room.shell("$M plan tiny.json --set precision=bf16" + kOn).out,
             Contains("cannot run: [sim] V100-SXM2-16GB has no bf16, need one of f32, fp16"));
}

TEST_CASE("plan lists the tensors that deferred gradients of weights keep") {
  const Room room;
  room.put("s.json",
           R"({"model": {"family": "gpt", "layers": 2, "hidden": 64, "heads": 2, "vocab": 512, "positions": 32},
    "seq": 32, "global_batch": 4, "pp": 2, "defer_embedding_wgrad": true})");
  const Run deferred = room.shell("$M plan s.json --memory" + kOn);
  INFO(deferred.out << deferred.err);
  CHECK(deferred.code == 0);
  CHECK_THAT(deferred.out, Contains("tensors      at the peak of rank"));
}

TEST_CASE("points that do not fit on the simulated machine are rows of its sweep") {
  const Room room;
  const Run run = room.shell("$M sweep tiny.json --out o --quiet --set tp=[1,4] --set memory_limit=[0,2097152]" + kOn);
  CHECK(run.code == 0);
  std::map<std::string, int> outcomes;
  for (const PointResult& r : read_result_file(room / "o/results.json").points) {
    CHECK(r.simulated);
    ++outcomes[std::string(name_of(r.outcome))];
  }
  CHECK(outcomes == std::map<std::string, int>{{"ok", 2}, {"oom", 2}, {"infeasible", 4}});
}

TEST_CASE("one simulated point runs without a launcher and leaves its record") {
  const Room room;
  room.put("p.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 4, "tp": 2, "pp": 2, "dp": 2,
                         "precision": "fp16", "framework": "megatron", "device": "sim:8xV100-SXM2-16GB"})");
  const Run run = room.shell("$M run p.json --result r.json");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  const PointResult r = result_from_json(json::parse(read_text_file(room / "r.json")), "r.json: $");
  CHECK(r.outcome == Outcome::ok);
  CHECK(r.simulated);
  CHECK(r.world == 8);
  CHECK(r.peak_memory_by_rank_mib.size() == 8);
  CHECK_THAT(room.shell("$M run p.json").out, Contains("(simulated)"));
}

TEST_CASE("a simulated point leaves one trace, several leave one each, named by their ids") {
  const Room room;
  REQUIRE(room.shell("$M sweep tiny.json --out one --quiet --set tp=1 --set pp=2 --set strategy=full --trace "
                     "t.json" +
                     kOn)
              .code == 0);
  CHECK(files(room, "t") == std::set<std::string>{"t.json", "tiny.json"});
  const auto ranks = spans_by_rank(room / "t.json");
  REQUIRE(ranks.size() == 2);
  CHECK(ranks.at(0) > 10);
  CHECK(ranks.at(1) > 10);
  REQUIRE(room.shell("$M sweep tiny.json --out many --quiet --trace t.json" + kOn).code == 0);
  std::set<std::string> expected = {"t.json", "tiny.json"};
  for (const PointResult& r : read_result_file(room / "many/results.json").points) {
    expected.insert("t-" + r.id + ".json");
    CHECK(spans_by_rank(room / ("t-" + r.id + ".json")).size() == 1);  // of tp ranks, that stand for each other
  }
  CHECK(expected.size() == 6);
  CHECK(files(room, "t") == expected);
  room.put("p.json", R"({"model": "gpt-bytes-tiny", "seq": 64, "device": "sim:1xcpu"})");
  REQUIRE(room.shell("$M run p.json --result r.json --trace u.json").code == 0);
  CHECK(spans_by_rank(room / "u.json").size() == 1);
}

TEST_CASE("a measured run on two ranks leaves a trace of both, and no parts of it") {
  const Room room;
  const Run run = room.shell("$M sweep tiny.json --out o --quiet --set tp=2 --trace t.json");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  std::set<std::string> expected = {"tiny.json"};
  for (const PointResult& r : read_result_file(room / "o/results.json").points) {
    CHECK(r.outcome == Outcome::ok);
    const std::string name = "t-" + r.id + ".json";
    expected.insert(name);
    const auto ranks = spans_by_rank(room / name);
    REQUIRE(ranks.size() == 2);
    CHECK(ranks.at(0) > 10);
    CHECK(ranks.at(1) > 10);
    CHECK_THAT(read_text_file(room / name), Contains("all_reduce tp") && Contains("forward 0"));
  }
  CHECK(expected.size() == 3);
  CHECK(files(room, "t") == expected);
}

TEST_CASE("this machine's CPU can be measured, written down and simulated") {
  const Room room;
  const Run calibrated = room.shell("$M calibrate mine.json --on cpu --quick --ranks 2 --launcher-args=--oversubscribe",
                                    300);  // 90 s of CPU under a sanitizer
  INFO(calibrated.out << calibrated.err);
  REQUIRE(calibrated.code == 0);
  CHECK_THAT(calibrated.out, Contains("mine.json") && Contains("--on sim:<N>xmine.json"));
  const json machine = json::parse(read_text_file(room / "mine.json"));
  CHECK(machine.at("device").at("peak_tflops").at("f32").at("value").get<double>() > 1e-4);
  CHECK_THAT(machine.at("device").at("memory_gbps").at("source").get<std::string>(),
             Contains("measured by mbench calibrate"));
  // What was measured is there for one rank and for two, and is what is simulated.
  const json& tables = machine.at("measured").at("by_ranks");
  REQUIRE(tables.size() == 2);
  CHECK(tables[1].at("ranks") == 2);
  CHECK(tables[1].at("products").size() == 6);
  CHECK(machine.at("measured").at("calls").size() > 8);
  for (const char* op : {"layer_norm", "adam", "softmax", "swiglu", "attention_grad", "dispatch", "copy"})
    CHECK(std::any_of(tables[0].at("ops").begin(), tables[0].at("ops").end(),
                      [&](const json& o) { return o.at("op") == op; }));
  const std::string point = " tiny.json --quiet --set tp=1 --set iterations=5 ";
  // Threads and ranks that spin while another process has their core would take forty times as long.
  REQUIRE(room.shell("export OMP_NUM_THREADS=1 OMPI_MCA_mpi_yield_when_idle=1; $M sweep" + point + "--out real").code ==
          0);
  REQUIRE(room.shell("$M sweep" + point + "--out sim --on sim:2xmine.json").code == 0);
  const auto real = read_result_file(room / "real/results.json"), sim = read_result_file(room / "sim/results.json");
  REQUIRE(real.points.size() == sim.points.size());
  for (std::size_t i = 0; i < sim.points.size(); ++i) {
    REQUIRE(sim.points[i].outcome == Outcome::ok);
    REQUIRE(real.points[i].outcome == Outcome::ok);
    // Wide: others may use this machine meanwhile.
    CHECK(sim.points[i].iteration_ms.value().mean > real.points[i].iteration_ms.value().median / 30);
    CHECK(sim.points[i].iteration_ms.value().mean < real.points[i].iteration_ms.value().median * 30);
  }
  const Run gone = room.shell("$M devices --calibrate other.json");
  CHECK(gone.code == 2);
  CHECK_THAT(gone.err, Contains("mbench calibrate other.json"));
}

TEST_CASE("plan tells stages of other lengths at the ends, groups of micro batches and what a layer keeps") {
  const Room room;
  room.put("spec.json", R"({"model": {"preset": "llama-bytes-tiny", "layers": 8}, "seq": 64, "global_batch": 5, "pp": 2,
    "schedule": "interleaved", "virtual_stages": 2, "micro_batch_group": 3, "first_stage_layers": 6, "recompute": "alternate_products"})");
  const Run plan = room.shell("$M plan spec.json --schedule --on sim:2xA100-SXM4-80GB");
  INFO(plan.out << plan.err);
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Contains("stage 0      layers 0-2, embedding\n") && Contains("stage 0      layers 4-6\n") &&
                           Contains("stage 1      layers 3-3\n") && Contains("stage 1      layers 7-7, head\n"));
  CHECK_THAT(plan.out, Contains("schedule 0   F0.0 F0.1 F0.2 F1.0 F1.1 F1.2 B1.0"));
  CHECK_THAT(plan.out, Contains("layer inputs, what attention gives and every second GEMM"));
}

TEST_CASE("plan tells stages that are cut by hand") {
  const Room room;
  room.put(
      "spec.json",
      R"({"model": {"preset": "llama-bytes-tiny", "layers": 8, "mtp_layers": 1}, "seq": 64, "global_batch": 4, "pp": 4,
    "pipeline_layout": "Et*3||t*5,m|L"})");
  const Run plan = room.shell("$M plan spec.json --on sim:4xA100-SXM4-80GB");
  INFO(plan.out << plan.err);
  CHECK(plan.code == 0);
  CHECK_THAT(plan.out, Contains("stage 0      layers 0-2, embedding\n") && Contains("stage 1      no layers\n") &&
                           Contains("stage 2      layers 3-7, multi-token prediction\n") &&
                           Contains("stage 3      no layers, head\n") && Contains("  simulated    "));
}
