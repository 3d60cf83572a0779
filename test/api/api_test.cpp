// The public face against what stands behind it: the same figures as the commands give, errors that name their place, and headers that
// a user can include alone.
#include <mbench/mbench.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "test/catch.h"
#include "test/support/temporary_folder.h"

using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

constexpr const char* kSweep =
    R"({"name": "three", "model": "gpt2-345m", "seq": 1024, "micro_batch": 2, "global_batch": 16,
  "precision": "bf16", "sweep": {"tp": [1, 2, 8]}})";
constexpr const char* kOne =
    R"({"model": "gpt2-345m", "seq": 1024, "micro_batch": 2, "global_batch": 16, "precision": "bf16", "tp": 8})";

// What a call throws: its kind and text.
template <class Call>
std::string thrown(const Call& call, mbench::ErrorKind kind) {
  try {
    call();
  } catch (const mbench::Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  FAIL("nothing was thrown");
  return "";
}

}  // namespace

TEST_CASE("api: a spec has its points, and set and filter change them") {
  const mbench::Spec spec = mbench::parse_spec(kSweep);
  REQUIRE(spec.size() == 3);
  CHECK(spec.name() == "three");
  CHECK(spec.label(2) == "tp=8");
  CHECK(Json::parse(spec.point_json(1)).at("tp") == 2);
  CHECK(mbench::parse_spec(kSweep, {.set = {"seq=512"}, .filter = {"tp=8"}}).size() == 1);
  CHECK_THAT(thrown([&] { spec.id(3); }, mbench::ErrorKind::bad_input),
             Contains("three") && Contains("need less than 3"));
  CHECK_THAT(thrown([] { mbench::parse_spec(R"({"model": "gpt2-345m", "tpp": 2})"); }, mbench::ErrorKind::bad_input),
             Contains("$.tpp"));
  CHECK_THAT(thrown([] { mbench::load_spec("none.json"); }, mbench::ErrorKind::bad_input), Contains("none.json"));
}

TEST_CASE("api: the model of a spec can be a config.json, in a file and in a text") {
  const mbench::test::TemporaryFolder folder;
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return folder / name;
  };
  const std::string config = put("config.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "bfloat16"})");
  const std::string text = R"({"model": {"hf": ")" + config + R"("}, "seq": 512, "global_batch": 8})";
  const mbench::Spec spec = mbench::parse_spec(text);
  CHECK(Json::parse(spec.point_json()).at("model").at("hidden") == 256);
  CHECK(mbench::load_spec(put("spec.json", text)).point_json() == spec.point_json());
  mbench::Simulator machine("sim:2xH100");
  CHECK(machine.machine() == "2xH100-SXM5-80GB");
  mbench::SearchOptions few;
  few.best = 1;
  const mbench::SearchResult of_file = machine.search(put("spec.json", text), few);
  CHECK(of_file.layouts > 1);  // it says what is trained, and how is looked for
}

TEST_CASE("api: a plan says what each rank holds") {
  const mbench::StepPlan plan = mbench::make_plan(mbench::parse_spec(kOne, {.set = {"pp=2", "tp=4"}}));
  CHECK(plan.devices == 8);
  CHECK(plan.micro_batches == 8);
  REQUIRE(plan.memory.size() == 2);
  CHECK(plan.memory[1].first_rank == 4);
  for (const mbench::StageMemory& stage : plan.memory) {
    double sum = 0;
    for (const auto& [category, mib] : stage.by_category_mib) sum += mib;
    CHECK(sum == Approx(stage.total_mib));
    CHECK(stage.reserved_mib >= stage.total_mib);
  }
  REQUIRE(plan.stages.size() == 2);
  CHECK(plan.stages[0].embedding);
  CHECK(plan.stages[1].head);
  CHECK(plan.stages[1].first_layer == 12);
  CHECK_THAT(
      thrown([] { mbench::make_plan(mbench::parse_spec(kOne, {.set = {"tp=7"}})); }, mbench::ErrorKind::infeasible),
      Contains("7"));
}

TEST_CASE("api: rows of a simulation, as tables and as a result file") {
  const mbench::Spec spec = mbench::parse_spec(kSweep);
  mbench::Simulator machine("sim:8xh100-sxm", {.framework = "megatron-core"});
  CHECK(machine.machine() == "8xH100-SXM5-80GB");
  CHECK(machine.devices() == 8);
  const std::vector<mbench::Result> rows = machine.simulate_all(spec);
  REQUIRE(rows.size() == 3);
  for (const mbench::Result& row : rows) {
    REQUIRE(row.ok());
    double sum = 0;
    for (const auto& [part, ms] : row.time_ms()) sum += ms;
    CHECK(sum == Approx(*row.metric("iteration_ms")));
    REQUIRE(row.expected());
    CHECK(row.expected()->low_ms < *row.metric("iteration_ms"));
    CHECK(row.expected()->high_ms > *row.metric("iteration_ms"));
    const Json record = Json::parse(row.json());
    CHECK(record.at("iteration_ms").at("mean") == *row.metric("iteration_ms"));
    CHECK(record.at("framework").dump().find("megatron-core") != std::string::npos);
    CHECK_FALSE(row.metric("expert_imbalance"));
  }
  CHECK_THAT(mbench::tables(spec, rows, {.columns = {"tp", "mfu"}}), Contains("tp"));
  const mbench::test::TemporaryFolder folder;
  mbench::write_results(folder / "results.json", spec, rows);
  CHECK(mbench::load_spec(folder / "results.json").size() == 3);
  CHECK_THAT(thrown([&] { rows[0].metric("mfus"); }, mbench::ErrorKind::bad_input), Contains("mfu"));
}

TEST_CASE("api: an estimate is the simulation's time and memory; other figures are another machine") {
  const mbench::Spec spec = mbench::parse_spec(kOne);
  mbench::Simulator machine("8xH100-SXM5-80GB");
  const mbench::Result row = machine.simulate(spec);
  const mbench::Estimate estimate = machine.estimate(spec);
  CHECK(estimate.step_ms == Approx(*row.metric("iteration_ms")).epsilon(1e-9));
  CHECK(estimate.peak_memory_mib == Approx(*row.metric("peak_memory_mib")).epsilon(1e-9));
  const double slower = *machine.what_if({{"device.memory_gbps", 1000}}, spec).metric("iteration_ms");
  CHECK(slower > *row.metric("iteration_ms"));
  CHECK(*machine.simulate(spec).metric("iteration_ms") == *row.metric("iteration_ms"));
  mbench::Simulator changed("8xH100-SXM5-80GB", {.figures = {{"device.memory_gbps", 1000}}});
  CHECK(*changed.simulate(spec).metric("iteration_ms") == slower);
  CHECK_THAT(thrown([] { mbench::Simulator("8xH100-SXM5-81GB"); }, mbench::ErrorKind::bad_input),
             Contains("H100-SXM5-80GB"));
  CHECK_THAT(thrown([] { mbench::Simulator("8xH100-SXM5-80GB", {.framework = "megatrom-core"}); },
                    mbench::ErrorKind::bad_input),
             Contains("megatron-core"));
  CHECK_THAT(thrown(
                 [&] {
                   machine.what_if({{"device.memory_gbp", 1}}, spec);
                 },
                 mbench::ErrorKind::bad_input),
             Contains("device.memory_gbp"));
}

TEST_CASE("api: what does not fit is a row, and so is what cannot be") {
  mbench::Simulator one("1xH100-SXM5-80GB");
  const mbench::Result oom = one.simulate(mbench::parse_spec(R"({"model": "gpt3-175b", "seq": 2048})"));
  CHECK(oom.outcome() == "oom");
  CHECK_FALSE(oom.metric("iteration_ms"));
  CHECK(oom.time_ms().empty());
  CHECK(one.simulate(mbench::parse_spec(kOne)).outcome() == "infeasible");
}

TEST_CASE("api: a search finds what a simulation gives, tells its progress, and can be ended") {
  mbench::Simulator machine("8xH100-SXM5-80GB");
  mbench::SearchOptions options;
  options.best = 2;
  std::size_t told = 0;
  options.progress = [&](const mbench::SearchOptions::Progress& p) { told = p.layouts; };
  constexpr const char* space = R"({"model": "gpt2-345m", "seq": 1024, "global_batch": 16, "precision": "bf16",
    "search": ["tp", "dp", "micro_batch"]})";
  const mbench::SearchResult found = machine.search(space, options);
  REQUIRE(found.best.size() == 2);
  CHECK(told == found.layouts);
  CHECK(found.simulated <= found.layouts);
  Json point = Json::parse(found.best[0].json());
  const mbench::Spec again = mbench::parse_spec(Json{
      {"model", "gpt2-345m"},
      {"seq", 1024},
      {"global_batch", 16},
      {"precision", "bf16"},
      {"tp", point.at("tp")},
      {"dp", point.at("dp")},
      {"micro_batch", point.at("micro_batch")}}.dump());
  CHECK(*machine.simulate(again).metric("iteration_ms") == *found.best[0].metric("iteration_ms"));
  options.interrupted = [] { return true; };
  CHECK(machine.search(space, options).interrupted);
  options = {};
  options.objective = "tyme";
  CHECK_THAT(thrown([&] { machine.search(space, options); }, mbench::ErrorKind::bad_input), Contains("time"));
}

TEST_CASE("api: trainers' files are specs, and a point is what a trainer is given") {
  const mbench::test::TemporaryFolder folder;
  const std::string config = folder / "config.json";
  std::ofstream(config) << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
    "intermediate_size": 1536, "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 4, "vocab_size": 32000,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false,
    "transformers_version": "4.40.0"})";
  CHECK(Json::parse(mbench::import_files({config}).json).contains("model"));
  const mbench::Spec spec = mbench::load_spec(config, {.set = {"seq=1024", "framework=megatron-core"}});
  CHECK(spec.size() == 1);
  CHECK_THAT(mbench::export_point(spec, "megatron"), Contains("--num-layers 4"));
  CHECK_THAT(thrown([&] { mbench::export_point(spec, "megatrom"); }, mbench::ErrorKind::bad_input),
             Contains("megatron"));
}

TEST_CASE("api: what comes with it") {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  CHECK(has(mbench::machines(), "H100-SXM5-80GB"));
  CHECK(has(mbench::frameworks(), "torchtitan"));
  CHECK(has(mbench::models(), "llama-3-8b"));
  CHECK(Json::parse(mbench::machine_json("h100-sxm")).at("name") == "H100-SXM5-80GB");
  CHECK(mbench::version() == MBENCH_VERSION);
}

TEST_CASE("api: a search of a script frees its layout, and of a spec what it names") {
  const mbench::test::TemporaryFolder folder;
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return folder / name;
  };
  const std::string script = put("train.sh", R"(torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 4 \
  --hidden-size 256 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --vocab-size 1024 \
  --micro-batch-size 1 --global-batch-size 8 --bf16 --attention-dropout 0 --hidden-dropout 0 \
  --tensor-model-parallel-size 2
)");
  mbench::Simulator machine("sim:4xH100");
  mbench::SearchOptions few;
  few.best = 1;
  few.front = false;
  const std::size_t free = machine.search(script, few).layouts;
  few.set = {"tp=2"};
  const std::size_t kept = machine.search(script, few).layouts;
  CHECK(kept > 1);
  CHECK(kept < free);
}

TEST_CASE("api: a search of a spec that names no free field frees its layout, from a file and from text") {
  const mbench::test::TemporaryFolder folder;
  const std::string text = R"({"model": "gpt-bytes-tiny", "seq": 128, "global_batch": 8, "dp": 4})";
  std::ofstream(folder / "spec.json") << text;
  mbench::Simulator machine("sim:4xH100");
  mbench::SearchOptions few;
  few.best = 1;
  few.front = false;
  const std::size_t of_file = machine.search(folder / "spec.json", few).layouts;
  CHECK(of_file > 4);
  CHECK(machine.search(text, few).layouts == of_file);
  few.set = {"tp=any"};  // then it is tp alone
  CHECK(machine.search(text, few).layouts < of_file);
}

TEST_CASE("api: a trainer's file that leaves a degree to its devices is told how many there are") {
  const mbench::test::TemporaryFolder folder;
  std::ofstream(folder / "train.toml") << R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
[compile]
enable = true
[activation_checkpoint]
mode = "none"
)";
  std::ifstream in(folder / "train.toml");
  std::string staged((std::istreambuf_iterator<char>(in)), {});
  staged.insert(staged.find("data_parallel_shard"), "pipeline_parallel_degree = 4\n");
  std::ofstream(folder / "staged.toml") << staged;
  // Its stages follow from the degree, so that another degree is free.
  mbench::SearchOptions few;
  few.best = 1;
  few.front = false;
  few.set = {"tp=1", "cp=1", "micro_batch=1", "recompute=full"};
  mbench::Simulator machine("sim:8xH100");
  const mbench::SearchResult found = machine.search(folder / "staged.toml", few);
  CHECK(found.best.at(0).outcome() == "ok");
  CHECK(found.layouts > 1);
  mbench::SpecOptions of_eight;
  of_eight.devices = 8;
  CHECK_THAT(mbench::load_spec(folder / "train.toml", of_eight).point_json(), Contains("\"dp\": 8"));
}
