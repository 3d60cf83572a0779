// What is told of a layout: what is wrong with it on purpose, with the cost that two simulations differ by, and nothing of one
// that is as the machine wants it.
#include "search/advice.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;
using Catch::Contains;
using nlohmann::json;

namespace {

Simulation simulate(const Point& p) {
  return simulate_point(p, strategies::make_plan(p), find_machine(parse_simulated(p.device, "test").machine, "test"),
                        parse_simulated(p.device, "test").count);
}

// A LLaMA of round sizes on two nodes of H100, with changes.
Point point(const json& changes = json::object()) {
  json p = {{"model",
             {{"family", "llama"},
              {"layers", 14},
              {"hidden", 2048},
              {"heads", 16},
              {"ffn", 5632},
              {"vocab", 32768},
              {"positions", 4096}}},
            {"seq", 4096},
            {"global_batch", 32},
            {"dp", 8},
            {"tp", 2},
            {"precision", "bf16"},
            {"attention", "flash"},
            {"dropout", 0},
            {"device", "sim:16xH100-SXM5-80GB"}};
  p.merge_patch(changes);
  return point_from_json(p, "test: $");
}

std::vector<std::string> reported(const json& changes) {
  const Point p = point(changes);
  return search::advise(p, simulate(p), find_machine("H100-SXM5-80GB", "test"), simulate);
}

// The one line that has this text.
std::string line_with(const std::vector<std::string>& lines, const std::string& text) {
  std::string found;
  for (const std::string& line : lines)
    if (line.find(text) != std::string::npos) {
      CHECK(found.empty());
      found = line;
    }
  INFO(fmt::format("{}", fmt::join(lines, "\n")));
  CHECK_FALSE(found.empty());
  return found;
}

}  // namespace

TEST_CASE("a layout as the machine wants it gets no advice but on its batch") {
  const json as_wanted = {{"micro_batch", 4}, {"sequence_parallel", true}, {"tp_comm_overlap", true}};
  for (const std::string& line : reported(as_wanted)) FAIL_CHECK(line);
}

TEST_CASE("what layers exchange over tp is told to travel beside GEMMs, with what that saves") {
  const json changes = {{"micro_batch", 4}};
  json beside = changes;
  beside["sequence_parallel"] = beside["tp_comm_overlap"] = true;
  const double less =
      1 - simulate(point(beside)).result.iteration_ms->mean / simulate(point(changes)).result.iteration_ms->mean;
  CHECK(less > 0.005);
  CHECK_THAT(line_with(reported(changes), "tp_comm_overlap"),
             Contains(fmt::format("tp_comm_overlap with sequence_parallel takes {:.1f} % less time", less * 100)));
}

TEST_CASE("a step whose device waits for its host is told to capture parts of layers") {
  const json changes = {{"framework", "megatron-core"}, {"seq", 512}, {"sequence_parallel", true}};
  const std::string line = line_with(reported(changes), "capture ");
  CHECK_THAT(line, Contains("less time: the device waits for its host"));
  json captured = changes;
  captured["capture"] = "attention+mlp";
  CHECK(simulate(point(captured)).result.iteration_ms->mean < simulate(point(changes)).result.iteration_ms->mean);
  for (const std::string& other : reported(captured)) CHECK_THAT(other, !Contains("capture "));
}

TEST_CASE(
    "activations go to host memory in place of recompute where the device has no room, and come back where it has") {
  json changes = {
      {"micro_batch", 4}, {"sequence_parallel", true}, {"tp_comm_overlap", true}, {"offload_activations", "layers:13"}};
  const auto mib = [](const json& c) { return *simulate(point(c)).result.peak_memory_mib; };
  const double there = mib(changes);
  CHECK_THAT(line_with(reported(changes), "offload_activations"),
             Contains("without offload_activations layers:13 there is room too, and a step takes"));
  changes["offload_activations"] = "core_attn+attn_proj";
  const double parts = mib(changes);
  changes.erase("offload_activations");
  const double none = mib(changes);
  CHECK(there < parts);
  CHECK(parts < none);
  changes["recompute"] = "full";
  for (const std::string& line : reported(changes)) CHECK_THAT(line, !Contains("offload_activations"));
  changes["memory_limit"] = static_cast<std::int64_t>((parts + none) / 2 * 1048576);
  CHECK_THAT(line_with(reported(changes), "offload_activations"), Contains("in place of recompute full takes"));
}

TEST_CASE("GEMMs that gather their input each for itself are told to share it") {
  const json block = {{"micro_batch", 4}, {"sequence_parallel", true}};
  json each = block;
  each["tp_gathers"] = "product";
  const double less =
      1 - simulate(point(block)).result.iteration_ms->mean / simulate(point(each)).result.iteration_ms->mean;
  CHECK(less > 0.005);
  CHECK_THAT(line_with(reported(each), "tp_gathers block takes"),
             Contains(fmt::format("takes {:.1f} % less time", less * 100)));
  for (const std::string& line : reported(block)) CHECK_THAT(line, !Contains("tp_gathers"));
}

TEST_CASE("a width that leaves most of its last tile empty is told with the rate that a full one has") {
  const json odd = {{"micro_batch", 4}, {"model", {{"ffn", 2 * 2820}}}};  // 44.06 tiles of 64 on a rank
  const std::string line = line_with(reported(odd), "ffn");
  CHECK_THAT(line, Contains("ffn 5640 on each of 2 ranks, 2820 is no multiple of 64") &&
                       Contains("with ffn 5760 the rate of FLOPs is "));
  const double gain =
      simulate(point({{"micro_batch", 4}, {"model", {{"ffn", 5760}}}})).result.tflops_per_device.value() /
          simulate(point(odd)).result.tflops_per_device.value() -
      1;
  CHECK(gain > 0.005);
  CHECK_THAT(line, Contains(fmt::format("{:.1f} % higher", gain * 100)));
}

TEST_CASE("a row of no multiple of 16 bytes is told where the cost model sees no cost") {
  const auto lines = reported({{"micro_batch", 4}, {"model", {{"ffn", 2 * 2815}}}});
  CHECK_THAT(line_with(lines, "ffn"), Contains("2815 is no multiple of 8, 16 bytes in bf16"));
}

TEST_CASE("a vocabulary that is mostly padding, and a sequence between tiles") {
  CHECK_THAT(line_with(reported({{"micro_batch", 4}, {"model", {{"vocab", 32769}}}, {"tp", 8}, {"dp", 2}}), "vocab"),
             Contains("vocab 32769 is padded to 33792, a multiple of 128 x tp 8") && Contains("of 32768 takes "));
  const auto lines = reported({{"micro_batch", 1}, {"seq", 4000}});
  CHECK_THAT(line_with(lines, "tokens"), Contains("4000 is no multiple of 64") && Contains("seq 4096"));
}

TEST_CASE("a micro batch that could be twice as large is told with its memory") {
  const Point p = point();
  const std::string line = line_with(reported(json::object()), "micro_batch 2 takes");
  Point twice = p;
  twice.micro_batch = 2;
  const auto before = simulate(p).result, after = simulate(twice).result;
  CHECK_THAT(line, Contains(fmt::format("{:.1f} % less time than 1, and {:.0f} MiB",
                                        (1 - after.iteration_ms->mean / before.iteration_ms->mean) * 100,
                                        *after.peak_memory_mib)));
}

TEST_CASE("a stage that computes longer than the others is told with what is faster") {
  const json staged = {{"pp", 4}, {"dp", 2}, {"micro_batch", 1}, {"model", {{"layers", 16}, {"vocab", 131072}}}};
  const std::string line = line_with(reported(staged), "stage 3 of 4 computes");
  const auto busy = simulate(point(staged)).compute_by_stage;
  REQUIRE(busy.size() == 4);
  CHECK_THAT(line, Contains(fmt::format("computes {:.1f} % longer",
                                        (busy[3] / ((busy[0] + busy[1] + busy[2] + busy[3]) / 4) - 1) * 100)) &&
                       Contains("18 layers") && Contains("pipeline_layout Et*3|t*5|t*5|t*3L takes"));
  CHECK(busy[1] == Approx(busy[2]));
}

TEST_CASE("tensor parallelism that leaves the node is told with what it costs to stay") {
  const std::string line = line_with(reported({{"tp", 16}, {"dp", 1}, {"micro_batch", 4}}), "tp 16");
  CHECK_THAT(line, Contains("tp 16 spans 2 nodes of 8: tp 8 with "));
  Point inside = point({{"tp", 8}, {"dp", 2}, {"micro_batch", 4}});
  const double less = 1 - simulate(inside).result.iteration_ms->mean /
                              simulate(point({{"tp", 16}, {"dp", 1}, {"micro_batch", 4}})).result.iteration_ms->mean;
  CHECK(less > 0.05);
}

TEST_CASE("a loader that decides the step is told with the workers that cure it") {
  const json bert = {
      {"model",
       {{"family", "bert"}, {"layers", 8}, {"hidden", 1024}, {"heads", 16}, {"vocab", 30522}, {"positions", 512}}},
      {"seq", 512},
      {"micro_batch", 16},
      {"global_batch", 256},
      {"pp", 4},
      {"tp", 1},
      {"dp", 1},
      {"framework", "megatron-2022"},
      {"precision", "fp16"},
      {"device", "sim:8xA100-SXM4-80GB"}};
  const Point p = point(bert);
  const Simulation now = simulate(p);
  const auto text = search::loader_decides(p, now, simulate);
  REQUIRE(text);
  CHECK_THAT(*text, Contains("masked words are chosen within the step: loader_workers 2 takes"));
  line_with(search::advise(p, now, find_machine("A100-SXM4-80GB", "test"), simulate), *text);
  Point enough = p;
  enough.loader_workers = 64;
  CHECK_FALSE(search::loader_decides(enough, simulate(enough), simulate));
  CHECK_FALSE(search::loader_decides(point(), simulate(point()), simulate));  // words that follow each other take none
}

// As reported of Megatron-LM (its issue 258): on a DGX A100 pp 8 is more than 30 % faster than tp 8, with loaders in processes of their own.
TEST_CASE("BERT of 10B: the loader hides how much faster pp 8 is than tp 8, and is named") {
  const json bert = json::parse(read_text_file(MBENCH_SOURCE_DIR "/test/fixtures/layouts/bert_10b_pp8.json"));
  const auto of = [&](int tp, int pp, int workers) {
    json p = bert;
    p.update({{"tp", tp}, {"pp", pp}, {"dp", 1}, {"loader_workers", workers}, {"device", "sim:8xA100-SXM4-80GB"}});
    return point_from_json(p, "test: $");
  };
  const auto seconds = [](const Point& p) { return simulate(p).result.iteration_ms->mean * 1e-3; };
  const Point by_pp = of(1, 8, 0), by_tp = of(8, 1, 0);
  CHECK(seconds(by_tp) == Approx(seconds(by_pp)).epsilon(0.03));
  CHECK(seconds(of(8, 1, 2)) > 1.3 * seconds(of(1, 8, 2)));
  const auto text = search::loader_decides(by_pp, simulate(by_pp), simulate);
  REQUIRE(text);
  CHECK_THAT(*text, Contains("masked words are chosen within the step: loader_workers 2 takes"));
  CHECK_FALSE(search::loader_decides(by_tp, simulate(by_tp), simulate, 0.02));
}
