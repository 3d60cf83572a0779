// The search against simulating everything: the best and the front are the true ones, no layout is below its floor, and
// what is left out is counted.
#include "search/search.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/base/parallel.h"
#include "engine/sim/machine/what_if.h"
#include "engine/sim/run/simulate.h"
#include "search/mesh_bounds.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::search;

namespace {

Space space_of(const std::string& text, const std::string& device) {
  static const test::TemporaryFolder folder;
  const std::string path = folder / "spec.json";
  std::ofstream(path) << text;
  return read_space({path, {}, device});
}

struct Case {
  const char* about;
  const char* machine;
  int devices;
  const char* spec;
};

// Small models on small machines, of every kind of layout, and layers as large as those of today's models.
const Case kCases[] = {
    {"a GPT in f32, dense", "V100-SXM2-16GB", 4,
     R"({"model": "gpt-bytes-3m", "seq": 128, "global_batch": 8, "search": "all"})"},
    {"LLaMA with flash attention", "H100-SXM5-80GB", 8,
     R"({"model": "llama-bytes-3m", "seq": 256, "global_batch": 16, "precision": "bf16", "attention": "flash", "dropout": 0,
         "search": ["tp", "pp", "zero", "micro_batch", "recompute", "schedule"]})"},
    {"too little memory for most", "V100-SXM2-16GB", 4,
     R"({"model": "gpt2-345m", "seq": 1024, "global_batch": 8, "precision": "fp16", "memory_limit": "3GiB",
         "search": ["tp", "pp", "zero", "recompute", "micro_batch"]})"},
    {"two nodes", "A100-SXM4-40GB", 16,
     R"({"model": "gpt2-124m", "seq": 512, "global_batch": 32, "precision": "bf16", "micro_batch": [1, 2],
         "sequence_parallel": "any", "tp": "any", "pp": "any"})"},
    {"pipelines", "V100-SXM2-32GB", 8,
     R"({"model": "gpt2-345m", "seq": 512, "global_batch": 16, "precision": "fp16", "dp": 1, "tp": [1, 2], "pp": "any",
         "schedule": "any", "recompute": ["none", "full"]})"},
    {"stages that differ by a layer", "A100-SXM4-80GB", 8,
     R"({"model": {"preset": "llama-bytes-3m", "layers": 22}, "seq": 256, "global_batch": 16, "precision": "bf16",
         "pp": "any", "zero": "any", "recompute": "any", "micro_batch": [1, 2]})"},
    {"stages of other lengths at the ends, and groups of micro batches", "V100-SXM2-16GB", 4,
     R"({"model": {"preset": "gpt-bytes-3m", "layers": 12}, "seq": 128, "global_batch": 16, "pp": [2, 4], "schedule": "any",
         "micro_batch_group": "any", "first_stage_layers": "any", "recompute": ["none", "full"], "micro_batch": [1, 2]})"},
    {"layouts cut by hand, of stages that no number divides", "V100-SXM2-16GB", 4,
     R"({"model": {"preset": "gpt-bytes-3m", "layers": 10}, "seq": 128, "global_batch": 12, "pp": "any", "schedule": "any",
         "pipeline_layout": "any", "recompute": ["none", "full"], "micro_batch": [1, 2]})"},
    {"layouts with multi-token prediction apart from the head, and an empty stage", "H100-SXM5-80GB", 4,
     R"({"model": {"preset": "llama-bytes-3m", "layers": 8, "mtp_layers": 1}, "seq": 256, "global_batch": 16, "precision": "bf16", "pp": 4,
         "pipeline_layout": ["", "Et*3|t*4|tm|L", "Ett|t*3|t*3|mL", "Et*4||t*4|mL", "Et*4|t*4|m|L"], "zero": "any", "micro_batch": [1, 2]})"},
    {"experts' activations computed again", "H100-SXM5-80GB", 4,
     R"({"model": "mixtral-bytes-4m", "seq": 128, "global_batch": 16, "precision": "bf16", "ep": "any", "pp": [1, 2],
         "recompute": ["none", "moe_act", "moe", "moe_act+norm"], "micro_batch": "any"})"},
    {"every second GEMM kept", "H100-SXM5-80GB", 4,
     R"({"model": "llama-bytes-3m", "seq": 256, "global_batch": 16, "precision": "bf16", "attention": "flash", "dropout": 0, "tp": [1, 2],
         "pp": [1, 2], "sequence_parallel": "any", "zero": "any", "recompute": ["none", "alternate_products", "full"], "micro_batch": [1, 4]})"},
    {"a mixture of experts", "H100-SXM5-80GB", 8,
     R"({"model": "mixtral-bytes-4m", "seq": 128, "global_batch": 16, "precision": "bf16", "tp": "any", "ep": "any",
         "etp": "any", "sequence_parallel": "any", "zero": [0, 1], "micro_batch": "any"})"},
    {"how tokens meet the experts of another node", "H100-SXM5-80GB", 16,
     R"({"model": "mixtral-bytes-4m", "seq": 128, "global_batch": 64, "precision": "bf16", "tp": [1, 2], "ep": "any",
         "ep_communication": "any", "zero": [0, 1], "micro_batch": [1, 2]})"},
    {"latent attention, dense layers first", "H200-SXM5-141GB", 8,
     R"({"model": "deepseek-bytes-tiny", "seq": 64, "global_batch": 16, "precision": "bf16", "tp": "any", "pp": "any",
         "ep": "any", "zero": "any", "recompute": "any"})"},
    {"dense layers in front of experts whose weights are gathered for every micro batch", "H100-SXM5-80GB", 16,
     R"({"model": "deepseek-v2-lite", "seq": 4096, "global_batch": 64, "precision": "bf16", "attention": "flash", "dropout": 0, "tp": [1, 2],
         "pp": [1, 2], "cp": [1, 2], "ep": [1, 4, 8], "zero": [1, 3, "fsdp"], "micro_batch": 2})"},
    {"more dense layers than are recorded, on several stages", "H100-SXM5-80GB", 16,
     R"({"model": {"preset": "deepseek-v2-lite", "layers": 12, "dense_layers": 7}, "seq": 4096, "global_batch": 64, "precision": "bf16",
         "attention": "flash", "dropout": 0, "tp": [1, 2], "pp": [1, 2, 4], "ep": [1, 4], "zero": [1, 3], "schedule": "any",
         "recompute": ["none", "mlp", "full"], "micro_batch": 2})"},
    {"Megatron's host costs", "V100-SXM2-16GB", 4,
     R"({"model": "bert-bytes-tiny", "seq": 128, "global_batch": 8, "precision": "fp16", "framework": "megatron",
         "graph": "eager", "search": ["tp", "pp", "micro_batch", "recompute", "sequence_parallel"]})"},
    {"labels of samples, behind a pooler", "V100-SXM2-16GB", 4,
     R"({"model": {"preset": "bert-bytes-tiny", "labels": 3}, "seq": 128, "global_batch": 8, "precision": "fp16",
         "search": ["tp", "pp", "micro_batch", "recompute", "sequence_parallel", "zero"]})"},
    {"labels of samples, whose last stage makes no logits", "H100-SXM5-80GB", 8,
     R"({"model": {"preset": "llama-bytes-3m", "layers": 8, "labels": 5}, "seq": 256, "global_batch": 16, "precision": "bf16", "tp": [1, 2],
         "pp": "any", "schedule": "any", "zero": "any", "recompute": ["none", "full"], "micro_batch": [1, 2]})"},
    {"large layers, wherever state is", "H100-SXM5-80GB", 16,
     R"({"model": {"preset": "llama-3-8b", "layers": 14}, "seq": 4096, "global_batch": 32, "precision": "bf16",
         "attention": "flash", "dropout": 0, "tp": [2], "pp": [1, 2, 4], "zero": "any", "offload": "any",
         "recompute": ["none", "full"], "schedule": "any"})"},
    {"copies of sharded state on two nodes", "A100-SXM4-80GB", 16,
     R"({"model": {"preset": "llama-3-8b", "layers": 6}, "seq": 2048, "global_batch": 64, "precision": "bf16",
         "attention": "flash", "dropout": 0, "tp": [1, 2], "pp": [1, 2], "cp": [1, 2], "cp_communication": "all_gather", "zero": "any",
         "optimizer_instances": [1, 2, 4, 8], "micro_batch": [1, 2]})"},
    {"copies of a mixture's sharded state", "H100-SXM5-80GB", 16,
     R"({"model": "mixtral-bytes-4m", "seq": 128, "global_batch": 64, "precision": "bf16", "tp": [1, 2], "ep": [1, 2, 4],
         "etp": 1, "sequence_parallel": true, "zero": "any", "optimizer_instances": [1, 2, 4]})"},
    {"FP8, whose first micro batch makes codes of the weights", "H100-SXM5-80GB", 8,
     R"({"model": {"preset": "llama-3-8b", "layers": 8}, "seq": 4096, "global_batch": 32, "precision": {"preset": "fp8", "fp8_recipe": "delayed"},
         "framework": "megatron-core", "attention": "flash", "dropout": 0, "tp": [1, 2, 4], "pp": [1, 2, 4], "sequence_parallel": "any",
         "zero": "any", "schedule": "any", "recompute": ["none", "alternate_products", "full"], "micro_batch": [1, 2]})"},
    {"a mesh of links, of which a group has those between its own devices", "MI300X", 16,
     R"({"model": {"preset": "llama-3-8b", "layers": 8}, "seq": 4096, "global_batch": 32, "precision": "bf16", "framework": "megatron-core",
         "attention": "flash", "dropout": 0, "tp": [1, 2, 4, 8], "pp": [1, 2], "cp": [1, 2], "sequence_parallel": true, "zero": [0, 1], "micro_batch": [1, 2]})"},
    {"the gradient of the logits' weight after all else, of some micro batches", "H100-SXM5-80GB", 8,
     R"({"model": {"preset": "llama-3-8b", "layers": 8}, "seq": 4096, "global_batch": 64, "precision": "bf16", "framework": "megatron-core",
         "defer_embedding_wgrad": true, "wgrad_deferral_limit": 3, "attention": "flash", "dropout": 0, "tp": [1, 2], "pp": [2, 4],
         "sequence_parallel": "any", "zero": [0, 1], "schedule": "any", "micro_batch": [1, 2, 4]})"},
    {"low-rank adapters of a frozen model", "H100-SXM5-80GB", 8,
     R"({"model": {"preset": "llama-3-8b", "layers": 8}, "seq": 4096, "global_batch": 32, "precision": "bf16", "framework": "megatron-core",
         "adapter": "lora:16,alpha=32", "attention": "flash", "dropout": 0, "tp": [1, 2, 4], "pp": [1, 2], "sequence_parallel": "any",
         "zero": "any", "recompute": ["none", "full"], "micro_batch": [1, 2]})"},
    {"low-rank adapters of a base in 4 bits", "H100-SXM5-80GB", 4,
     R"({"model": {"preset": "llama-3-8b", "layers": 4}, "seq": 4096, "global_batch": 16, "precision": "bf16", "framework": "megatron-core",
         "adapter": "lora:16,base=nf4", "attention": "flash", "dropout": 0, "tp": [1, 2, 4], "pp": [1, 2], "sequence_parallel": "any",
         "zero": "any", "micro_batch": [1, 2]})"},
    {"activations in host memory", "H100-SXM5-80GB", 4,
     R"({"model": {"preset": "llama-3-8b", "layers": 8}, "seq": 4096, "global_batch": 16, "precision": "bf16", "attention": "flash",
         "dropout": 0, "tp": [1, 2], "pp": [1, 2], "sequence_parallel": "any", "recompute": ["none", "selective"], "micro_batch": [1, 2],
         "offload_activations": ["none", "core_attn+attn_proj", "attn_norm+core_attn+attn_proj+mlp_norm", "layers:2"]})"},
    {"graphs of parts, whose host costs less", "H100-SXM5-80GB", 4,
     R"({"model": "mixtral-bytes-4m", "seq": 128, "global_batch": 16, "precision": "bf16", "framework": "megatron-core", "tp": [1, 2], "pp": [1, 2],
         "ep": [1, 2], "capture": "any", "micro_batch": [1, 2]})"},
    {"two tiers of a network, and another job on it", "H100-SXM5-80GB", 32,
     R"({"model": "llama-bytes-3m", "seq": 256, "global_batch": 64, "precision": "bf16", "dropout": 0, "tp": [1, 8], "pp": [1, 2, 4],
         "zero": [0, 1, 3], "micro_batch": [1, 2], "background_load": 0.4, "machine.network.leaf.nodes": 1,
         "machine.network.spine.oversubscription": 6})"},
    {"experts whose rows cross the spine, on nodes that are dealt out", "H100-SXM5-80GB", 32,
     R"({"model": "mixtral-bytes-4m", "seq": 128, "global_batch": 64, "precision": "bf16", "pp": [1, 2], "ep": [2, 4], "micro_batch": [1, 2],
         "zero": [0, 1], "placement": "cyclic", "machine.network.leaf.nodes": 2, "machine.network.spine.oversubscription": 8})"},
    {"Mamba-2, whose ranks change heads for positions", "H100-SXM5-80GB", 4,
     R"({"model": {"preset": "mamba2-130m", "layers": 6, "hybrid_pattern": "MMMMMM", "state_groups": 4}, "seq": 2048, "global_batch": 16,
         "precision": "bf16", "dropout": 0, "tp": "any", "pp": "any", "cp": [1, 2], "zero": "any", "recompute": "any", "micro_batch": [1, 2]})"},
    {"the first Mamba and attention, in layers with a block", "H100-SXM5-80GB", 4,
     R"({"model": {"family": "llama", "layers": 6, "hidden": 512, "heads": 8, "ffn": 1024, "vocab": 1024, "positions": 2048, "state_heads": 1024,
                   "state_head_dim": 1, "state_groups": 8, "state_dim": 16, "dt_rank": 32, "mixer": "mamba", "layers_of": [{"every": 3, "mixer": "attention"}]},
         "seq": 1024, "global_batch": 16, "precision": "bf16", "dropout": 0, "attention": "flash", "tp": "any", "sequence_parallel": "any", "pp": "any",
         "zero": "any", "recompute": "any", "micro_batch": [1, 2]})"},
    {"short convolutions and attention, in layers with a block", "H100-SXM5-80GB", 4,
     R"({"model": {"family": "llama", "layers": 6, "hidden": 512, "heads": 8, "ffn": 1024, "vocab": 1024, "positions": 2048,
                   "mixer": "short_conv", "layers_of": [{"every": 3, "mixer": "attention"}]},
         "seq": 1024, "global_batch": 16, "precision": "bf16", "dropout": 0, "attention": "flash", "tp": "any", "sequence_parallel": "any", "pp": "any",
         "zero": "any", "recompute": "any", "micro_batch": [1, 2]})"},
    {"layers of one branch, by turns, with experts of a latent width", "H100-SXM5-80GB", 4,
     R"({"model": {"family": "nemotron_h", "layers": 12, "hidden": 256, "heads": 8, "kv_heads": 4, "ffn": 512, "vocab": 1024,
                   "positions": 4096, "state_heads": 8, "state_head_dim": 64, "state_groups": 4, "state_dim": 64, "hybrid_pattern": "MEM*ME-EMEM-",
                   "experts": 8, "active_experts": 2, "expert_ffn": 512, "moe_latent": 128, "shared_experts": 1},
         "seq": 512, "global_batch": 32, "precision": "bf16", "framework": "megatron-core", "attention": "flash", "dropout": 0, "tp": [1, 2], "etp": 1,
         "sequence_parallel": "any", "pp": [1, 2], "ep": [1, 2], "schedule": "any", "zero": [0, 1, "fsdp"], "recompute": ["none", "mlp+moe_act", "full"],
         "micro_batch": [1, 2]})"},
    {"stages that end in layers of other kinds", "H100-SXM5-80GB", 4,
     R"({"model": {"family": "nemotron_h", "layers": 14, "hidden": 1024, "heads": 8, "kv_heads": 4, "ffn": 8192, "vocab": 1024,
                   "positions": 4096, "state_heads": 16, "state_head_dim": 64, "state_groups": 4, "state_dim": 64, "hybrid_pattern": "M-M-*-MMM-M-M*"},
         "seq": 4096, "global_batch": 16, "precision": "bf16", "attention": "flash", "dropout": 0, "tp": [1, 2], "sequence_parallel": "any", "pp": "any",
         "pipeline_layout": "any", "schedule": "any", "zero": "any", "offload": ["none", "optimizer"], "recompute": ["none", "norm"], "micro_batch": [1, 2]})"},
    {"Gated DeltaNet in three of four layers, all with experts", "H100-SXM5-80GB", 8,
     R"({"model": {"preset": "qwen3-next-80b-a3b", "layers": 8, "experts": 16, "hidden": 512}, "seq": 1024, "global_batch": 32, "precision": "bf16",
         "attention": "flash", "dropout": 0, "tp": [1, 2], "etp": 1, "sequence_parallel": "any", "ep": [2, 4], "pp": [1, 2],
         "zero": "any", "recompute": ["none", "full"], "micro_batch": [1, 2]})"},
    {"packed documents, whose pairs ranks of cp share unevenly", "H100-SXM5-80GB", 8,
     R"({"model": {"preset": "llama-3-8b", "layers": 6, "positions": 16384}, "seq": 16384, "document_lengths": "geometric:3000", "global_batch": 16,
         "precision": "bf16", "framework": "megatron-core", "attention": "flash", "dropout": 0, "tp": [1, 2], "pp": [1, 2], "cp": [1, 2, 4],
         "cp_communication": "any", "sequence_parallel": "any", "zero": [0, 1], "recompute": ["none", "full"], "micro_batch": [1, 2]})"},
    {"a CPU", "cpu", 2, R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 8, "search": "all"})"},
};

}  // namespace

TEST_CASE("in small spaces the search finds what simulating everything finds") {
  for (const Case& c : kCases) {
    INFO(c.about);
    const std::string device = fmt::format("sim:{}x{}", c.devices, c.machine);
    const Space space = space_of(c.spec, device);
    const Machine machine = find_machine(c.machine, space.base.machine, "test");
    const SearchTarget place{machine, c.devices};
    SearchOptions options;
    options.best = 3;
    options.threads = 2;
    const SearchEnd end = mbench::search::search(space, place, options);
    REQUIRE(end.best.size() == 3);
    CHECK(end.layouts == end.simulated + end.by_lower_bound);

    // Everything, without floors.
    std::vector<std::pair<double, double>> all;
    std::set<std::string> ids;
    std::map<std::string, Refused> refused;
    const Bounds bounds(machine);
    const CloseBounds close(machine, bounds);
    const MeshBounds meshes(machine);
    std::vector<Point> points;
    each_layout(space, c.devices, true, refused, [&](const Point& p) {
      points.push_back(p);
      return true;
    });
    std::vector<Tried> tried(points.size());
    each_in_parallel(points.size(), options.threads,
                     [&](std::size_t i) { tried[i] = try_layout(points[i], place, bounds, close); });
    std::size_t not_fitting = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Point& p = points[i];
      const Tried& t = tried[i];
      INFO(label_of(space, p));
      CHECK(ids.insert(t.result.id).second);  // each layout once
      REQUIRE(t.result.iteration_ms);
      CHECK(t.lower_bound.seconds > 0);
      CHECK(t.lower_bound.seconds * 1e3 <= t.result.iteration_ms->mean);
      CHECK(meshes.seconds(p) * 1e3 <= t.result.iteration_ms->mean);
      CHECK(t.lower_bound.total_bytes() > 0);
      CHECK(t.lower_bound.total_bytes() <= *t.result.peak_memory_mib * 1048576);
      if (t.fits)
        all.push_back(score(mbench::search::Objective::time, costs_of(t)));
      else
        ++not_fitting;
    }
    CHECK(ids.size() >= end.layouts);
    if (end.meshes_opened == end.meshes) CHECK(ids.size() <= end.layouts + end.larger_micro_batches + end.undercut);
    std::sort(all.begin(), all.end());
    // The first leaves most memory free of those as fast as the fastest; the others are in the order of their times.
    std::vector<std::pair<double, double>> best = all;
    const auto as_fast = std::find_if(best.begin(), best.end(),
                                      [&](const auto& s) { return s.first > best[0].first * mbench::search::kAsFast; });
    const auto roomiest =
        std::min_element(best.begin(), as_fast, [](const auto& a, const auto& b) { return a.second < b.second; });
    std::rotate(best.begin(), roomiest, roomiest + 1);
    for (std::size_t i = 0; i < end.best.size(); ++i) {
      CHECK(end.best[i].result.iteration_ms->mean == best[i].first);
      CHECK(end.best[i].needed_mib == best[i].second);
    }
    // The front: what nothing beats in both.
    std::vector<std::pair<double, double>> front;
    for (const auto& s : all)
      if (s.first <= all[0].first * options.front_within && (front.empty() || s.second < front.back().second))
        front.push_back(s);
    REQUIRE(end.front.size() == front.size());
    for (std::size_t i = 0; i < front.size(); ++i) {
      CHECK(end.front[i].result.iteration_ms->mean == front[i].first);
      CHECK(end.front[i].needed_mib == front[i].second);
    }
    const Confirmed confirmed = confirm(space, place, options, end);
    CHECK(confirmed.layouts == ids.size());
    CHECK(confirmed.wrong.empty());
  }
}

TEST_CASE("by tokens a joule the search finds what simulating every layout finds") {
  const Case cases[] = {
      {"a GPT in f32", "V100-SXM2-16GB", 4,
       R"({"model": "gpt-bytes-3m", "seq": 128, "global_batch": 8, "search": ["tp", "pp", "micro_batch"]})"},
      {"LLaMA, sharded or recomputed", "H100-SXM5-80GB", 4,
       R"({"model": "llama-bytes-3m", "seq": 256, "global_batch": 8, "precision": "bf16", "attention": "flash", "dropout": 0,
           "search": ["tp", "zero", "recompute"]})"}};
  for (const Case& c : cases) {
    INFO(c.about);
    const Space space = space_of(c.spec, fmt::format("sim:{}x{}", c.devices, c.machine));
    const Machine machine = find_machine(c.machine, "test");
    const SearchTarget place{machine, c.devices};
    SearchOptions options;
    options.objective = mbench::search::Objective::tokens_per_joule;
    options.best = 3;
    options.front = false;
    options.threads = 2;
    const SearchEnd end = mbench::search::search(space, place, options);
    std::vector<Score> all;
    std::map<std::string, Refused> refused;
    each_layout(space, c.devices, true, refused, [&](const Point& p) {
      if (const Tried t = simulated(p, place); t.fits) all.push_back(score(options.objective, costs_of(t)));
      return true;
    });
    std::sort(all.begin(), all.end());
    REQUIRE(end.best.size() == std::min<std::size_t>(3, all.size()));
    for (std::size_t i = 0; i < end.best.size(); ++i)
      CHECK(*end.best[i].result.energy_joules == Approx(all[i].first).epsilon(1e-9));
    const Confirmed confirmed = confirm(space, place, options, end);
    CHECK(confirmed.wrong.empty());
  }
}

TEST_CASE("tokens a joule need a machine whose power is known") {
  const auto ask = [](const char* machine) {
    check_objective(mbench::search::Objective::tokens_per_joule, find_machine(machine, "test"), "--objective");
  };
  CHECK_NOTHROW(ask("H100-SXM5-80GB"));
  CHECK_THROWS_WITH(ask("TITAN-RTX"), Catch::Contains("device.watts") && Catch::Contains("H100-SXM5-80GB"));
}

TEST_CASE("a search that is interrupted says what it has not decided") {
  const Space space =
      space_of(R"({"model": "gpt-bytes-3m", "seq": 128, "global_batch": 16, "search": "all"})", "sim:8xV100-SXM2-16GB");
  const Machine machine = find_machine("V100-SXM2-16GB", "test");
  const SearchTarget place{machine, 8};
  SearchOptions options;
  options.front = false;
  options.threads = 1;
  CHECK(mbench::search::search(space, place, options).undecided == 0);
  int asked = 0;
  options.interrupted = [&asked] { return ++asked > 2; };
  const SearchEnd end = mbench::search::search(space, place, options);
  CHECK(end.interrupted);
  CHECK(end.by_lower_bound + end.simulated + end.undecided == end.layouts);
  CHECK((end.undecided > 0 || end.meshes_opened < end.meshes));
}
