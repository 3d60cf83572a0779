#include "engine/framework/framework.h"

#include <filesystem>
#include <functional>
#include <set>

#include "engine/base/json_reader.h"
#include "engine/point/framework_spec.h"
#include "engine/point/model_spec.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

const std::filesystem::path kFolder = MBENCH_SOURCE_DIR "/engine/framework";

ordered_json file_of(const std::string& name) {
  const std::string path = (kFolder / name).string();
  return parse_json(read_text_file(path), path);
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  FAIL_CHECK("nothing was refused");
  return "";
}

// A file with a change, read as broken.json.
std::string refused(const char* name, const std::function<void(ordered_json&)>& change) {
  ordered_json json = file_of(name);
  change(json);
  return refusal([&] { framework_from_json(json, "broken.json"); });
}

Framework of(const char* text) {
  return *framework_of(read_framework(json::parse(text), "test"));
}

}  // namespace

TEST_CASE("every built-in framework reads, is named as its file, and says what each option and choice is") {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".json") files.insert(entry.path().stem().string());
  const auto names = framework_names();
  CHECK(std::set<std::string>(names.begin(), names.end()) == files);
  for (const FrameworkFile& file : builtin_frameworks()) {
    INFO(file.name());
    CHECK(files.count(file.name()) == 1);
    const Framework f = find_framework(file.name(), "test");
    CHECK(f.name == file.name());
    CHECK(f.host.kernel > 0);
    CHECK(f.unknown.empty());
    CHECK(f.simulated.empty());
    for (const FrameworkOption& option : file.options()) {
      INFO(option.name);
      CHECK_FALSE(option.doc.empty());
      CHECK(option.choices.size() >= 2);
      for (const FrameworkChoice& choice : option.choices) CHECK_FALSE(choice.doc.empty());
    }
  }
}

TEST_CASE("the engine's own framework keeps what Keeps says by default") {
  CHECK(find_framework("mbench", "test").keeps == Keeps());
  CHECK(find_framework("mbench", "test").keeps.vocab_multiple == ModelSpec::kVocabMultiple);
  CHECK(find_framework("torchtitan", "test").keeps.vocab_multiple == 1);
  CHECK(find_framework("megatron-2022", "test").keeps.attention_mask);
  CHECK(find_framework("megatron-core", "test").keeps.weight_gradients == WeightGradients::placeholder);
}

TEST_CASE("an option changes what its file says: what is kept, host costs, memory") {
  const Framework plain = of(R"("megatron-core")"),
                  local = of(R"({"preset": "megatron-core", "transformer_engine": false})");
  CHECK(local.keeps.global_buffer);
  CHECK_FALSE(plain.keeps.global_buffer);
  CHECK(plain.host.work[HostWork::gemm] > 0);
  CHECK(local.host.work[HostWork::gemm] == 0);
  CHECK(local.memory.always < plain.memory.always);
  CHECK(of(R"({"preset": "megatron-core", "rope_fusion": false})").simulated.size() == 1);
  CHECK(of(R"({"preset": "megatron-core", "gradient_accumulation_fusion": false})").keeps.weight_gradients ==
        WeightGradients::apart);
}

TEST_CASE("every choice of every option is what its file makes of it, whatever earlier words stand for") {
  for (const FrameworkFile& file : builtin_frameworks())
    for (const FrameworkOption& option : file.options())
      for (const FrameworkChoice& choice : option.choices) {
        INFO(file.name() << ", " << option.name << " " << choice.name);
        const bool flag = choice.name == "true" || choice.name == "false";
        const json spec = {{"preset", file.name()},
                           {option.name, flag ? json(choice.name == "true") : json(choice.name)}};
        CHECK(of(spec.dump().c_str()).keeps == combined(file, file, {{option.name, choice.name}}).keeps);
      }
}

TEST_CASE("a preset with another's host keeps what the one keeps and costs what the other costs") {
  const Framework mixed = of(R"({"preset": "megatron-2022", "host": "mbench"})");
  CHECK(mixed.name == "megatron-2022, host mbench");
  CHECK(mixed.keeps == find_framework("megatron-2022", "test").keeps);
  CHECK(mixed.host.kernel == find_framework("mbench", "test").host.kernel);
  CHECK(mixed.can.values.empty());
}

TEST_CASE("how gradients wait to be reduced, autocast and held logits are a file's, and an option changes them") {
  CHECK(find_framework("torch-eager", "test").buckets == GradientBuckets());
  CHECK(find_framework("torch-eager", "test").autocast == Autocast());
  const Framework deepspeed = of(R"("deepspeed")");
  CHECK(deepspeed.buckets ==
        GradientBuckets{
            .elements = 500000000, .whole = true, .one = true, .flat = true, .norm_in_f64 = true, .early = true});
  CHECK_FALSE(of(R"({"preset": "deepspeed", "overlap_comm": true})").buckets.one);
  CHECK(of(R"({"preset": "deepspeed", "reduce_bucket_size": "200000000"})").buckets.elements == 200000000);
  const GradientBuckets squared = of(R"({"preset": "deepspeed", "reduce_bucket_size": "hidden_squared"})").buckets;
  CHECK((squared.hidden_squared && squared.elements == 0 && squared.whole));
  CHECK(deepspeed.unfused.count("adam") == 0);
  CHECK(of(R"({"preset": "deepspeed", "fused_adamw": false})").unfused.at("adam").calls == 9);

  const Framework ddp = of(R"("torch-ddp")");
  CHECK(ddp.buckets == GradientBuckets{.separate = true});
  CHECK(ddp.autocast == Autocast{true, 3, true});
  CHECK_FALSE(ddp.holds_logits);
  CHECK(of(R"({"preset": "torch-ddp", "logits": "held"})").holds_logits);
  CHECK_FALSE(of(R"({"preset": "torch-ddp", "gradient_as_bucket_view": true})").buckets.separate);
  CHECK_FALSE(of(R"({"preset": "torch-ddp", "mixed_precision": "apex_o2"})").autocast.on);
  CHECK(of(R"({"preset": "fairscale", "modules": "megatron"})").autocast == Autocast{true, 1, false});
  // Of a preset with another's host.
  const Framework mixed = of(R"({"preset": "fairscale", "host": "megatron-2022"})");
  CHECK(mixed.buckets.separate);
  CHECK(mixed.autocast.on);
  CHECK(mixed.unfused.empty());
}

TEST_CASE("an option that a framework does not have is remembered for the refusal") {
  const Framework f = of(R"({"preset": "mbench", "grouped_experts": false})");
  REQUIRE(f.unknown.size() == 1);
  CHECK(f.unknown[0].option == "grouped_experts");
  CHECK(f.unknown[0].value == "false");
  CHECK(f.unknown[0].otherwise == "true");
}

TEST_CASE("broken framework files are refused by JSON path") {
  CHECK_THAT(refused("megatron-2022.json", [](auto& j) { j["host_us"]["kernel"]["value"] = 0; }),
             Contains("[broken.json: $.host_us.kernel.value] got 0"));
  CHECK_THAT(refused("megatron-2022.json", [](auto& j) { j["host_us"].erase("message"); }),
             Contains("[broken.json: $.host_us") && Contains("\"message\""));
  CHECK_THAT(refused("megatron-2022.json", [](auto& j) { j["message_block"] = true; }),
             Contains("did you mean \"messages_block\"?"));
  CHECK_THAT(
      refused("megatron-2022.json", [](auto& j) { j["messages_block"] = "interleaved"; }),
      Contains("[broken.json: $.messages_block] got \"interleaved\", need true, false or \"unless_interleaved\""));
  CHECK_THAT(refused("megatron-2022.json", [](auto& j) { j["keeps"]["atention_mask"] = true; }),
             Contains("did you mean \"attention_mask\"?"));
  CHECK_THAT(refused("megatron-2022.json", [](auto& j) { j["can"]["zero"] = 0; }),
             Contains("[broken.json: $.can.zero] wrong type"));
  CHECK_THAT(refused("megatron-core.json", [](auto& j) { j["options"]["rope_fusion"]["default"] = "perhaps"; }),
             Contains("[broken.json: $.options.rope_fusion.default]"));
  CHECK_THAT(refused("torch-eager.json", [](auto& j) { j["unfused"]["swiglu"].erase("source"); }),
             Contains("[broken.json: $.unfused.swiglu") && Contains("\"source\""));
  CHECK_THAT(refused("torch-eager.json", [](auto& j) { j["unfused"]["swiglu"]["bytes"] = 3; }),
             Contains("[broken.json: $.unfused.swiglu.bytes] unknown key"));
  CHECK_THAT(refused("deepspeed.json", [](auto& j) { j["buckets"]["elements"] = "hidden"; }),
             Contains("[broken.json: $.buckets.elements]"));
  CHECK_THAT(refused("deepspeed.json", [](auto& j) { j["buckets"].erase("elements"); }),
             Contains("[broken.json: $.buckets.whole] got true, need elements too"));
  CHECK_THAT(refused("torch-ddp.json", [](auto& j) { j["autocast"]["qkv_inputs"] = 4; }),
             Contains("[broken.json") && Contains("$.autocast.qkv_inputs]"));
  CHECK_THAT(refused("torchtitan.json", [](auto& j) { j["memory"]["allocator"]["streams"]["own"] = {"sends"}; }),
             Contains("$.memory.allocator.streams.own] got sends, need one of gathers, reductions"));
  CHECK_THAT(
      refused("torchtitan.json", [](auto& j) { j["memory"]["allocator"]["streams"]["recorded"] = {"reductions"}; }),
      Contains("$.memory.allocator.streams.recorded] got reductions, need streams of \"own\""));
  CHECK_THAT(refused("torchtitan.json", [](auto& j) { j["memory"]["allocator"]["streams"].erase("source"); }),
             Contains("$.memory.allocator.streams") && Contains("\"source\""));
  CHECK_THAT(refused("torchtitan.json", [](auto& j) { j["keeps"]["held_weights"] = "tail"; }),
             Contains("$.keeps.held_weights]"));
  // What a choice changes is read too.
  CHECK_THAT(
      refused("megatron-core.json",
              [](auto& j) { j["options"]["rope_fusion"]["choices"]["false"]["changes"]["keeps"]["unfused"] = true; }),
      Contains("[broken.json, rope_fusion false: $.keeps.unfused] unknown key"));
  CHECK_THAT(refusal([] { find_framework("megatorn-2022", "framework"); }),
             Contains("[framework] no such framework") && Contains("did you mean \"megatron-2022\"?"));
}

TEST_CASE("a framework's host waits at messages always, never, or but for interleaved stages") {
  const auto read = [](auto value) {
    ordered_json json = file_of("megatron-2022.json");
    json["messages_block"] = value;
    return framework_from_json(json, "changed.json").messages_block;
  };
  CHECK(read(true) == MessagesBlock::always);
  CHECK(read(false) == MessagesBlock::never);
  CHECK(read("unless_interleaved") == MessagesBlock::unless_interleaved);
}
