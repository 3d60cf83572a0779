#include "formats/torchtitan/torchtitan.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <map>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/framework/framework.h"
#include "engine/point/point.h"
#include "formats/table/flat.h"
#include "test/catch.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;

namespace {

Point titan_point(const std::string& text) {
  return point_from_json(nlohmann::json(read_torchtitan(text, "t.toml", {}).spec), "spec");
}

// As of 2025.
const std::string kNow = R"([job]
description = "Llama 3 8B"
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[optimizer]
name = "AdamW"
lr = 3e-4
[lr_scheduler]
warmup_steps = 100
[training]
local_batch_size = 2
seq_len = 8192
max_norm = 1.0
steps = 1000
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
tensor_parallel_degree = 4
[compile]
enable = true
components = ["model"]
[float8]
enable_fsdp_float8_all_gather = true
filter_fqns = ["output"]
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
)";

// As of 2024.
const std::string kThen = R"([model]
name = "llama3"
flavor = "70B"
norm_type = "rmsnorm"
[training]
batch_size = 8
seq_len = 8192
warmup_steps = 200
data_parallel_shard_degree = 32
tensor_parallel_degree = 8
compile = true
[experimental]
pipeline_parallel_degree = 1
enable_async_tensor_parallel = false
[activation_checkpoint]
mode = "full"
)";

}  // namespace

TEST_CASE("torchtitan: shards that are -1 are what the other degrees leave of the devices") {
  const auto read = [](const std::string& degrees, std::int64_t devices) {
    ImportOptions options;
    options.devices = devices;
    return read_torchtitan(
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\n[compile]\nenable = "
        "true\n[activation_checkpoint]\nmode = \"none\"\n[parallelism]\n" +
            degrees,
        "t.toml", options);
  };
  const Imported sixteen = read("data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n", 16);
  CHECK(sixteen.spec.at("dp") == 8);
  CHECK(sixteen.spec.at("global_batch") == 16);
  CHECK_THAT(fmt::format("{}", fmt::join(sixteen.notes, "\n")),
             Contains("-1 is 8: what the other degrees leave of 16"));
  CHECK(read("data_parallel_replicate_degree = 2\n", 16).spec.at("optimizer_instances") == 2);
  // Not known, or no multiple: one, and a line says so.
  for (const std::int64_t devices : {0, 9}) {
    const Imported one = read("tensor_parallel_degree = 2\n", devices);
    CHECK(one.spec.value("dp", 1) == 1);
    CHECK_THAT(fmt::format("{}", fmt::join(one.notes, "\n")), Contains("is not said"));
  }
}

TEST_CASE("torchtitan: the spellings of 2025") {
  const Point p = titan_point(kNow);
  CHECK(p.model.layers == 32);
  CHECK(p.seq == 8192);
  CHECK(p.micro_batch == 2);
  CHECK(p.tp == 4);
  CHECK(p.sequence_parallel);
  CHECK(p.dp == 16);
  CHECK(p.optimizer_instances == 2);
  CHECK(p.global_batch == 32);
  CHECK(p.zero == Zero::fsdp);
  CHECK(p.precision == Precision::fp8);
  CHECK(p.fp8_parameters);
  CHECK(name_of(p.recompute) == "alternate_products");
  CHECK(name_of(p.framework) == "torchtitan, cross_entropy_fusion torch");
  CHECK(p.learning_rate == 3e-4);
  CHECK(p.lr_warmup == 100);
}

TEST_CASE("torchtitan: the spellings of 2024") {
  const Point p = titan_point(kThen);
  CHECK(p.model.layers == 80);
  CHECK(p.micro_batch == 8);
  CHECK(p.dp == 32);
  CHECK(p.tp == 8);
  CHECK(p.lr_warmup == 200);
  CHECK(p.recompute == Recompute::full);
  CHECK(p.precision == Precision::bf16);
}

TEST_CASE("torchtitan: it compiles layers, and a model compiled as a whole does not go out") {
  Point p = titan_point(kNow);
  CHECK(titan_point(write_torchtitan(p)).framework == p.framework);
  p.framework.options["compiled"] = "model";
  CHECK_THROWS_WITH(write_torchtitan(p), Contains("framework.compiled"));
}

TEST_CASE("torchtitan: MXFP8 goes out and comes back") {
  std::string text = kNow;
  text.replace(text.find("[\"float8\"]"), 10, "[\"quantize.linear.mx\"]");
  const Point p = titan_point(text);
  CHECK(p.precision == Precision::fp8);
  CHECK(p.fp8_recipe == Fp8Recipe::mxfp8);
  CHECK(titan_point(write_torchtitan(p)).fp8_recipe == Fp8Recipe::mxfp8);
  Point other = p;
  other.fp8_recipe = Fp8Recipe::rowwise;
  CHECK(titan_point(write_torchtitan(other)).fp8_recipe == Fp8Recipe::rowwise);
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::blockwise}) {
    other.fp8_recipe = recipe;
    CHECK_THROWS_WITH(write_torchtitan(other), Contains("fp8_recipe"));
  }
}

TEST_CASE("torchtitan: schedules that split backward go out and come back") {
  for (const auto& [theirs, ours] :
       {std::pair{"ZBVZeroBubble", ScheduleKind::zbv}, std::pair{"DualPipeV", ScheduleKind::dualpipev}}) {
    std::string text = kNow;
    const std::string where = "[parallelism]\n";
    text.insert(text.find(where) + where.size(),
                fmt::format("pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"{}\"\n", theirs));
    const Point p = titan_point(text);
    CHECK(p.schedule == ours);
    CHECK(p.virtual_stages == 2);
    const std::string again = write_torchtitan(p);
    CHECK_THAT(again, Contains(theirs));
    CHECK(titan_point(again).schedule == ours);
  }
}

TEST_CASE(
    "torchtitan: the embedding and the head count as a layer where stages are cut, unless the file says otherwise") {
  const auto of = [](const std::string& more) {
    std::string text = kNow;
    const std::string where = "[parallelism]\n";
    text.insert(text.find(where) + where.size(), "pipeline_parallel_degree = 4\n" + more);
    return titan_point(text);
  };
  const std::int64_t layers = of("").model.layers;
  REQUIRE(layers == 32);
  CHECK(of("").pipeline_layout == "Et*8|t*9|t*8|t*7L");
  const std::string even =
      "pipeline_parallel_first_stage_less_layers = 0\npipeline_parallel_last_stage_less_layers = 0\n";
  CHECK(of(even).pipeline_layout.empty());
  CHECK(of("pipeline_parallel_schedule = \"Interleaved1F1B\"\n").pipeline_layout == "Et*4|t*5|(t*4|)*5t*3L");
  const Point in_fours =
      of("pipeline_parallel_schedule = \"Interleaved1F1B\"\npipeline_parallel_layers_per_stage = 3\n");
  CHECK(in_fours.virtual_stages == 3);
  for (const std::string& more : {std::string(), even, std::string("pipeline_parallel_schedule = \"ZBVZeroBubble\"\n"),
                                  std::string("pipeline_parallel_schedule = \"Interleaved1F1B\"\n")}) {
    const Point p = of(more);
    CHECK(titan_point(write_torchtitan(p)).pipeline_layout == p.pipeline_layout);
  }
  // 126 layers and both ends are 8 for each of 16 stages, as a point without a layout has them too.
  Point large = of("");
  large.model = find_preset("llama-3.1-405b", "test"), large.pp = 16, large.pipeline_layout.clear();
  CHECK(titan_point(write_torchtitan(large)).pipeline_layout.empty());
  Point by_hand = of("");
  by_hand.pipeline_layout = "Et*2|t*2|t*2|t*26L";
  CHECK_THROWS_WITH(write_torchtitan(by_hand), Contains("pipeline_layout"));
  CHECK_THROWS_WITH(of("pipeline_parallel_layers_per_stage = 3\n"), Contains("makes 12 stages of 32 layers"));
}

TEST_CASE("torchtitan: FSDP2's offload is of weights, gradients and optimizer state") {
  std::string text = kThen;
  text.replace(text.find("seq_len"), 0, "enable_cpu_offload = true\n");
  const Point p = titan_point(text);
  CHECK(p.offload == Offload::all_and_gradients);
  CHECK(titan_point(write_torchtitan(p)).offload == Offload::all_and_gradients);
  Point other = p;
  other.offload = Offload::all;
  CHECK_THROWS_WITH(write_torchtitan(other), Contains("offload \"all\""));
  CHECK(framework_of(p.framework)->can.has("offload", "all+gradients"));
  CHECK_FALSE(framework_of(p.framework)->can.has("offload", "all"));
}

TEST_CASE("torchtitan: what is missing or has no part is named") {
  const auto refusal = [](std::string text, const std::string& old, const std::string& fresh) {
    text.replace(text.find(old), old.size(), fresh);
    try {
      read_torchtitan(text, "t.toml", {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal(kNow, "\"op\"", "\"2\""), Contains("activation_checkpoint.selective_ac_option \"2\" (t.toml:"));
  CHECK_THAT(refusal(kNow, "[\"float8\"]", "[\"float8\", \"mx\"]"), Contains("float8 and mx together"));
  CHECK_THAT(refusal(kNow, "enable = true", "enable = false"), Contains("compile.enable false"));
  CHECK_THAT(refusal(kNow, "flavor = ", "flavor = = "), Contains("t.toml:") && Contains("not TOML"));
  CHECK_THAT(refusal(kNow, "local_batch_size = 2", "local_batch_size = \"two\""), Contains("need a whole number"));
  const Imported open = read_torchtitan(
      "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n[compile]\nenable = true\n[activation_checkpoint]\nmode = "
      "\"none\"\n",
      "t.toml", {});
  CHECK_FALSE(open.spec.contains("model"));
  CHECK_THAT(fmt::format("{}", fmt::join(open.notes, "\n")),
             Contains("llama3/debugmodel is none of mbench's presets") &&
                 Contains("how many devices share the state is not said"));
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "[";
  CHECK_THROWS_AS(read_torchtitan("a = " + deep, "t.toml", {}), Error);
}

TEST_CASE("torchtitan: a point goes out and comes back, or what no TOML says is named") {
  for (const std::string& text : {kNow, kThen}) {
    const Point point = titan_point(text);
    const Point again = titan_point(write_torchtitan(point));
    CHECK(lost_fields(flat_point(point), flat_point(again)) == std::vector<std::string>{});
  }
  Point other = titan_point(kThen);
  other.zero = Zero::stage_1;
  CHECK_THROWS_WITH(write_torchtitan(other), Contains("zero 1"));
  other = titan_point(kThen);
  other.model.layers = 79;
  CHECK_THROWS_WITH(write_torchtitan(other), Contains("no flavor of torchtitan"));
  other = titan_point(kThen);
  other.framework = read_framework("megatron-core", "framework");
  CHECK_THROWS_WITH(write_torchtitan(other), Contains("framework.preset \"megatron-core\""));
}

TEST_CASE("torchtitan: every published point that a TOML can say goes out and comes back the same") {
  // Why the others cannot: what no TOML says of them.
  const std::map<std::string, std::string> cannot = {
      {"kempner", "framework.cross_entropy_fusion"},
      {"stas", "zero 3"}};  // forks and DeepSpeed, simulated as torchtitan
  const std::string folder = std::string(MBENCH_SOURCE_DIR) + "/configs/published/modern";
  int said = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    INFO(name);
    nlohmann::ordered_json spec = parse_json(read_text_file(entry.path().string()), name);
    for (const char* key : {"$schema", "name", "published", "tables"}) spec.erase(key);
    const Point point = point_from_json(nlohmann::json(spec), name);
    if (point.framework.preset != "torchtitan") continue;
    if (const auto why = cannot.find(name.substr(0, name.find('-'))); why != cannot.end()) {
      CHECK_THROWS_WITH(write_torchtitan(point), Contains(why->second));
      continue;
    }
    std::string text;
    CHECK_NOTHROW(text = write_torchtitan(point));
    if (text.empty()) continue;
    nlohmann::ordered_json lost = flat_point(titan_point(text)), wanted = flat_point(point);
    lost["model"].erase("positions"), wanted["model"].erase("positions");  // which training does not have
    CHECK(lost_fields(wanted, lost) == std::vector<std::string>{});
    ++said;
  }
  CHECK(said >= 5);
}
