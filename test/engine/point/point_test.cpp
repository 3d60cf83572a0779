#include "engine/point/point.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.h"
#include "engine/point/fields.h"
#include "engine/point/point_builder.h"
#include "test/catch.h"
#include "test/graphs.h"

using namespace mbench;
using nlohmann::json;

namespace {

std::string message_of(const std::function<void()>& f, ErrorKind kind = ErrorKind::bad_input) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  FAIL("no error was thrown");
  return "";
}

std::string refusal(const std::string& text) {
  return message_of([&] { point_from_json(json::parse(text), "p.json: $"); });
}

Point point_of(const std::string& text) {
  return point_from_json(json::parse(text), "p.json: $");
}

Point tiny() {
  return point_of(R"({"model": "gpt-bytes-tiny", "seq": 64})");
}

}  // namespace

TEST_CASE("a point of only a model has the defaults") {
  const Point p = point_of(R"({"model": "gpt2-345m"})");
  CHECK(p.model == find_preset("gpt2-345m", "test"));
  CHECK(p.seq == 1024);
  CHECK(p.framework == FrameworkSpec());
  CHECK(p.recompute == Recompute::none);
  CHECK(p.recompute_layers == 0);
  CHECK(p.memory_limit == 0);
  CHECK(p.device == "cpu");
}

TEST_CASE("what is captured: the step, or parts that go together") {
  const auto with = [](const std::string& value) {
    return point_of(R"({"model": "gpt-bytes-tiny", "seq": 64, "capture": )" + value + "}");
  };
  const auto capture = [&](const std::string& value) { return with(value).capture; };
  const auto written = [&](const std::string& value) { return point_to_json(with(value)).at("capture"); };
  using enum CapturedPart;
  CHECK(capture("false") == Capture());
  CHECK(capture("true") == Capture(true));
  CHECK(capture("[]") == Capture());
  CHECK(capture(R"(["moe_preprocess", "moe_router", "attention"])") ==
        Capture(CapturedParts{attention, moe_router, moe_preprocess}));
  CHECK(capture(R"("attention+mlp")").parts == CapturedParts{attention, mlp});
  CHECK(written("true") == true);
  CHECK(written("[]") == false);
  CHECK(written(R"(["mlp", "attention"])") == "attention+mlp");
  for (const char* bad :
       {R"("attention+")", R"(["mamba"])", R"("layer+mlp")", R"("moe+moe_router")", R"("moe_preprocess")", "1"})
    CHECK_THROWS_AS(capture(bad), Error);
}

TEST_CASE("activations in host memory: whole layers, or parts as a list or joined, and nothing else") {
  const auto with = [](const std::string& value) {
    return point_of(fmt::format(R"({{"model": "gpt-bytes-3m", "offload_activations": {}}})", value));
  };
  const auto offloaded = [&](const std::string& value) { return with(value).offload_activations; };
  const auto written = [&](const std::string& value) { return point_to_json(with(value)).at("offload_activations"); };
  using enum OffloadedPart;
  CHECK(offloaded(R"("none")") == OffloadedActivations());
  CHECK_FALSE(offloaded("[]").any());
  CHECK(offloaded(R"("layers:12")") == OffloadedActivations{12, {}});
  CHECK(offloaded(R"(["moe_act", "attn_norm"])") == OffloadedActivations{0, {attn_norm, moe_act}});
  CHECK(written(R"(["moe_act", "core_attn", "attn_proj"])") == "core_attn+attn_proj+moe_act");
  CHECK(written(R"("layers:2")") == "layers:2");
  CHECK(written(R"("none")") == "none");
  for (const char* bad : {R"("layers:0")", R"("layers:")", R"("layers:2+core_attn")", R"("core_attn+")", R"(["layer"])",
                          R"("all")", "2", "true"})
    CHECK_THROWS_AS(offloaded(bad), Error);
}

TEST_CASE("every field is read and written back") {
  const Point p = point_of(R"({
    "model": {"family": "bert", "layers": 8, "hidden": 96, "heads": 6, "vocab": 300, "positions": 512},
    "seq": 128, "micro_batch": 3, "global_batch": 12, "iterations": 7, "warmup": 0, "seed": 18446744073709551615,
    "dropout": 0.25, "tp": 2, "pp": 4, "dp": 2, "cp": 3, "cp_communication": "all_gather", "ep": 5, "etp": 2, "ep_communication": "all_gather", "router": "capacity:1.5", "routing_imbalance": 1.5,
    "replicas": "single_process", "strategy": "sequence_parallel+selective",
    "recompute_layers": 3, "schedule": "interleaved", "virtual_stages": 2, "micro_batch_group": 5, "first_stage_layers": 2,
    "last_stage_layers": 4, "pipeline_layout": [["embedding", "decoder"], ["decoder", "loss"]], "defer_embedding_wgrad": true, "wgrad_deferral_limit": 7, "overlap_moe": true, "delay_wgrad": true, "expert_rank_capacity": 1.5, "paged_stash": 1.25, "paged_stash_host": 0.5, "zero": "oss+sdp", "optimizer_instances": 2, "overlap_grad_reduce": false, "overlap_param_gather": false, "fsdp_no_sync": true, "offload": "all", "offload_fraction": 0.5, "offload_activations": "layers:3", "min_offloaded_tensor_size": 700, "precision": "fp8",
    "attention": "flash", "graph": "eager", "capture": true, "cross_entropy_fusion": "none", "gradient_accumulation_fusion": false,
    "grouped_experts": false, "mask_in_batch": false, "transformer_engine": false, "rope_fusion": false, "deterministic": true, "vocab_multiple": 16, "vocab_parallel": false, "tp_gathers": "product", "tp_comm_overlap": true,
    "gradients_in_bf16": true, "moments_in_bf16": true, "main_weights_in_bf16": true, "data": "text:a b.txt", "document_lengths": "9+5", "reset_positions": false, "loader_workers": 2, "pinned": true, "optimizer": "adafactor", "fused_optimizer": false, "fp8_recipe": "delayed", "adapter": "lora:4,alpha=8", "learning_rate": 0.1, "lr_warmup": 4,
    "weight_decay": 0, "clip_grad": 2.5, "memory_limit": "2GiB", "max_seconds": 1.5,
    "env": {"NCCL_P2P_DISABLE": 1, "A": "b c"}, "placement": [3, 1], "background_load": 0.25, "framework": "megatron",
    "machine.network.gbps_per_device": 94, "device": "sim:8xv100"})");
  CHECK(p.model.name == "custom");
  CHECK(p.model.ffn == 4 * 96);
  CHECK(p.seed == 18446744073709551615ull);
  CHECK(p.sequence_parallel);
  CHECK(p.recompute == Recompute::selective);
  CHECK(p.recompute_layers == 3);
  CHECK(p.schedule == ScheduleKind::interleaved);
  CHECK(p.micro_batch_group == 5);
  CHECK(p.first_stage_layers == 2);
  CHECK(p.last_stage_layers == 4);
  CHECK(p.pipeline_layout == "Et|tL");
  CHECK(p.zero == Zero::oss_sdp);
  CHECK(p.optimizer_instances == 2);
  CHECK(p.fsdp_no_sync);
  CHECK_FALSE(p.vocab_parallel);
  CHECK(p.vocab_multiple == 16);
  CHECK(p.tp_gathers == TpGathers::gemm);
  CHECK(p.defer_embedding_wgrad);
  CHECK(p.overlap_moe);
  CHECK(p.delay_wgrad);
  CHECK(p.wgrad_deferral_limit == 7);
  CHECK(p.offload == Offload::all);
  CHECK(p.offload_fraction == 0.5);
  CHECK(p.offload_activations == OffloadedActivations{3, {}});
  CHECK(p.min_offloaded_tensor_size == 700);
  CHECK(p.replicas == Replicas::single_process);
  CHECK(p.precision == Precision::fp8);
  CHECK(p.placement == NodePlacement{NodePlacement::Order::block, {3, 1}});
  CHECK(point_to_json(p).at("placement") == "3+1");
  CHECK(p.background_load == 0.25);
  CHECK(p.capture == Capture(true));
  CHECK(p.ep_communication == EpCommunication::all_gather);
  CHECK(p.tp_comm_overlap);
  CHECK(p.gradients_in_bf16);
  CHECK(p.memory_limit == 2ull << 30);
  CHECK(p.env == std::map<std::string, std::string>{{"NCCL_P2P_DISABLE", "1"}, {"A", "b c"}});
  CHECK(p.framework.preset == "megatron-2022");
  CHECK(p.framework.host.empty());
  CHECK(p.framework.options == std::map<std::string, std::string>{{"cross_entropy_fusion", "none"},
                                                                  {"deterministic", "true"},
                                                                  {"gradient_accumulation_fusion", "false"},
                                                                  {"grouped_experts", "false"},
                                                                  {"mask_in_batch", "false"},
                                                                  {"rope_fusion", "false"},
                                                                  {"transformer_engine", "false"}});
  CHECK(p.machine == std::map<std::string, double>{{"network.gbps_per_device", 94}});
  CHECK(p.device == "sim:8xv100");
  const nlohmann::ordered_json written = point_to_json(p);
  CHECK(written.size() == point_keys().size());
  CHECK(point_from_json(json(written), "again: $") == p);
  CHECK(point_from_json(json(point_to_json(tiny())), "again: $") == tiny());
}

TEST_CASE("a model takes fields over from a preset") {
  const Point p = point_of(R"({"model": {"preset": "gpt2-345m", "positions": 2048}, "seq": 2048})");
  CHECK(p.model.name == "gpt2-345m");
  CHECK(p.model.positions == 2048);
  CHECK(p.model.layers == 24);
  CHECK(point_from_json(json(point_to_json(p)), "again: $") == p);
  CHECK(point_of(R"({"model": {"preset": "gpt2-345m", "hidden": 512}})").model.ffn == 2048);
  CHECK(point_of(R"({"model": {"preset": "gpt2-345m", "hidden": 512, "ffn": 100}})").model.ffn == 100);
}

TEST_CASE("a model of experts and grouped heads is read and written back, and its sizes count in the id") {
  const char* text = R"({"model": {"family": "mixtral", "layers": 4, "hidden": 64, "heads": 4, "kv_heads": 2,
    "vocab": 256, "positions": 64, "experts": 4, "active_experts": 2, "shared_experts": 1, "expert_ffn": 32},
    "seq": 64})";
  const Point p = point_of(text);
  CHECK(p.model.kv_heads == 2);
  CHECK(p.model.experts == 4);
  CHECK(p.model.active_experts == 2);
  CHECK(p.model.shared_experts == 1);
  CHECK(p.model.expert_ffn == 32);
  CHECK(point_from_json(json(point_to_json(p)), "again: $") == p);
  for (std::int64_t ModelSpec::*size : {&ModelSpec::kv_heads, &ModelSpec::experts, &ModelSpec::active_experts,
                                        &ModelSpec::shared_experts, &ModelSpec::expert_ffn}) {
    Point other = p;
    other.model.*size += 1;
    CHECK(point_id(other) != point_id(p));
  }
  CHECK(point_to_json(point_of(R"({"model": "deepseek-v3"})")).at("model") == "deepseek-v3");
  CHECK_THAT(refusal(R"({"model": {"preset": "mixtral-8x7b", "active_experts": 9}})"),
             Catch::Contains("[p.json: $.model.active_experts] experts that a token visits, got 9, need 1 to 8"));
}

TEST_CASE("every strategy sets both its fields, and contradictions are refused") {
  struct Case {
    const char* name;
    bool sp;
    Recompute recompute;
  };
  for (const Case& c :
       {Case{"baseline", false, Recompute::none}, Case{"sequence_parallel", true, Recompute::none},
        Case{"selective", false, Recompute::selective}, Case{"sequence_parallel+selective", true, Recompute::selective},
        Case{"full", false, Recompute::full}}) {
    const Point p = point_from_json(json{{"model", "gpt-bytes-tiny"}, {"strategy", c.name}}, "p: $");
    INFO(c.name);
    CHECK(p.strategy == c.name);
    CHECK(p.sequence_parallel == c.sp);
    CHECK(p.recompute == c.recompute);
  }
  CHECK(point_of(R"({"model": "gpt-bytes-tiny", "strategy": "full", "recompute": "full"})").recompute ==
        Recompute::full);
  CHECK(refusal(R"({"model": "gpt-bytes-tiny", "strategy": "full", "recompute": "none"})") ==
        "[p.json: $.recompute] contradicts the strategy \"full\", got \"none\", need \"full\" or no strategy");
  CHECK(refusal(R"({"model": "gpt-bytes-tiny", "strategy": "full", "sequence_parallel": true})") ==
        "[p.json: $.sequence_parallel] contradicts the strategy \"full\", got true, need false or no strategy");
}

TEST_CASE("what is wrong with a point is said with its path and the nearest choice") {
  const auto with = [](const std::string& fields) { return refusal(R"({"model": "gpt-bytes-tiny", )" + fields + "}"); };
  using Catch::Contains;
  CHECK_THAT(with(R"("sequence_paralel": true)"),
             Contains("[p.json: $.sequence_paralel] unknown key, got \"sequence_paralel\"") &&
                 Contains("did you mean \"sequence_parallel\"?"));
  CHECK(with(R"("tp": 0)") == "[p.json: $.tp] out of range, got 0, need a whole number from 1 to 32768");
  CHECK(with(R"("tp": 1.5)") == "[p.json: $.tp] wrong type, got 1.5, need a whole number from 1 to 32768");
  CHECK(with(R"("tp": "2")") == "[p.json: $.tp] wrong type, got \"2\", need a whole number from 1 to 32768");
  CHECK_THAT(with(R"("seq": 99999999999999999999)"), Contains("[p.json: $.seq]"));
  CHECK_THAT(with(R"("seq": 18446744073709551615)"), Contains("[p.json: $.seq] out of range"));
  CHECK(with(R"("dropout": 1)") == "[p.json: $.dropout] out of range, got 1, need a number from 0 to 0.999");
  CHECK(with(R"("learning_rate": -1)") == "[p.json: $.learning_rate] out of range, got -1, need a number of 0 or more");
  CHECK(with(R"("seed": -1)").find("[p.json: $.seed] wrong type, got -1") == 0);
  CHECK(with(R"("sequence_parallel": 1)") == "[p.json: $.sequence_parallel] wrong type, got 1, need true or false");
  CHECK(with(R"("recompute": "ful")") ==
        "[p.json: $.recompute] no such choice, got \"ful\", need one of none, "
        "selective, full, layer, core_attention, mla_up_proj, mlp, moe, moe_act, norm, alternate_products; did you "
        "mean \"full\"?");
  CHECK(with(R"("recompute": ["mlp", "layer"])") ==
        "[p.json: $.recompute] the region layer holds all others, need it without others, or the others without it");
  CHECK_THAT(with(R"("recompute": ["mpl"])"), Contains("[p.json: $.recompute[0]] no such choice, got \"mpl\""));
  CHECK(point_of(R"({"model": "gpt-bytes-tiny", "recompute": ["norm", "mlp"]})").recompute ==
        point_of(R"({"model": "gpt-bytes-tiny", "recompute": "mlp+norm"})").recompute);
  CHECK_THAT(with(R"("precision": "fp32")"), Contains("need one of f32, tf32, bf16, fp16, fp8"));
  CHECK_THAT(with(R"("zero": "fdsp")"), Contains("did you mean \"fsdp\"?"));
  CHECK_THAT(with(R"("zero": 4)"), Contains("need a whole number from 0 to 3"));
  CHECK_THAT(with(R"("strategy": "selectiv")"), Contains("did you mean \"selective\"?"));
  CHECK_THAT(with(R"("data": "text:")"), Contains("need synthetic, text:FILE or tokens:FILE"));
  CHECK_THAT(with(R"("device": "sim:x")"), Contains("need cpu, cuda or sim:<N>x<MACHINE>"));
  CHECK_THAT(with(R"("memory_limit": "2 gallons")"), Contains("[p.json: $.memory_limit] not a size in bytes"));
  for (const char* too_much : {"\"1e300TiB\"", "\"1e7 TiB\"", "18446744073709551615", "2e18"})
    CHECK_THAT(with(fmt::format(R"("memory_limit": {})", too_much)),
               Contains("[p.json: $.memory_limit] ") && Contains("1e"));
  CHECK_THAT(with(R"("env": {"A=B": "1"})"), Contains("[p.json: $.env.A=B]"));
  CHECK(with(R"("env": {"A": "b\u0000c"})") ==
        "[p.json: $.env.A] no value for an environment variable, got a U+0000 in \"b\\u0000c\", which ends it");
  CHECK_THAT(with(R"("env": {"A": []})"), Contains("[p.json: $.env.A] wrong type, got []"));
  CHECK_THAT(with(R"("iterations": null)"), Contains("[p.json: $.iterations] wrong type, got null"));
  CHECK(refusal("{}") == "[p.json: $] \"model\" is missing, need the name of a preset or an object");
  CHECK_THAT(refusal("[]"), Contains("[p.json: $] wrong type, got []"));
  CHECK_THAT(refusal(R"({"model": "gpt2-345"})"), Contains("did you mean \"gpt2-345m\"?"));
  CHECK_THAT(refusal(R"({"model": 3})"), Contains("[p.json: $.model] wrong type, got 3"));
  CHECK_THAT(refusal(R"({"model": {"preset": "gpt2-345m", "layer": 3}})"),
             Contains("[p.json: $.model.layer] unknown key") && Contains("did you mean \"layers\"?"));
  CHECK_THAT(refusal(R"({"model": {"layers": 3}})"), Contains("[p.json: $.model] \"family\" is missing"));
  CHECK_THAT(refusal(R"({"model": {"family": "gpt", "layers": 3}})"), Contains("\"hidden\" is missing"));
  CHECK_THAT(refusal(R"({"model": {"preset": "gpt2-345m", "heads": 0}})"), Contains("[p.json: $.model.heads]"));
}

TEST_CASE("an id names the configuration, not its labels") {
  const Point p = tiny();
  CHECK(point_id(p).size() == 16);
  CHECK(point_id(p) == point_id(tiny()));
  // A stored baseline is found by its id: a change of this constant orphans every baseline there is.
  CHECK(point_id(p) == "4fbd9e17d79ca497");
  Point q = p;
  q.strategy = "baseline";  // which sets what are the defaults
  q.model.name = "mine";
  CHECK(point_id(q) == point_id(p));
  std::set<std::string> ids = {point_id(p)};
  const auto differs = [&](auto change) {
    Point other = p;
    change(other);
    return ids.insert(point_id(other)).second;
  };
  CHECK(differs([](Point& x) { x.tp = 2; }));
  CHECK(differs([](Point& x) { x.pp = 2; }));
  CHECK(differs([](Point& x) { x.seed = 1; }));
  CHECK(differs([](Point& x) { x.dropout = 0; }));
  CHECK(differs([](Point& x) { x.framework = keeps(Graph::eager); }));
  CHECK(differs([](Point& x) { x.sequence_parallel = true; }));
  CHECK(differs([](Point& x) { x.env.emplace("A", "1"); }));
  CHECK(differs([](Point& x) { x.device = "cuda"; }));
  CHECK(differs([](Point& x) { x.model.positions = 64; }));
  CHECK(differs([](Point& x) { x.data = "text:a"; }));
}

TEST_CASE("a key of the precision's object is set on its own, and stays when the preset is named after it") {
  using Catch::Contains;
  PointBuilder builder;
  builder.set("model", "gpt-bytes-tiny", "test");
  builder.set("precision.moments", "bf16", "test");
  builder.set("precision", "bf16", "test");
  builder.set("precision.gradients", "bf16", "test");
  Point p = builder.finish("test");
  CHECK(json(point_to_json(p).at("precision")) == R"({"preset": "bf16", "gradients": "bf16", "moments": "bf16"})"_json);
  CHECK(point_field(p, "precision.gradients") == "bf16");
  set_point_field(p, "precision.gradients", "f32", "test");
  CHECK_FALSE(p.gradients_in_bf16);
  CHECK(p.moments_in_bf16);
  set_point_field(p, "precision.preset", "fp16", "test");
  CHECK(point_field(p, "precision.gradients") == "fp16");
  set_point_field(p, "precision.gradients", "f32", "test");
  CHECK(p.gradients_in_f32);
  CHECK_THROWS_WITH(set_point_field(p, "precision.gradient", "f32", "test"), Contains("did you mean \"gradients\"?"));
  CHECK_THROWS_WITH(set_point_field(p, "precision.gradients", "bf16", "test"), Contains("need fp16 or f32"));
  CHECK(is_field("precision.gradients"));
  CHECK(field_of("precision.gradients") == "precision");
  CHECK(field_of("moments_in_bf16") == "precision");
  CHECK(field_of("tp") == "tp");
}

TEST_CASE("a precision is a name, or an object of what differs from a preset") {
  using Catch::Contains;
  const Point p = point_of(R"({"model": "gpt-bytes-tiny", "seq": 64,
    "precision": {"preset": "bf16", "gradients": "bf16", "moments": "bf16", "main_weights": "f32"}})");
  CHECK(p.precision == Precision::bf16);
  CHECK(p.gradients_in_bf16);
  CHECK(p.moments_in_bf16);
  CHECK_FALSE(p.main_weights_in_bf16);
  CHECK(json(point_to_json(p).at("precision")) == R"({"preset": "bf16", "gradients": "bf16", "moments": "bf16"})"_json);
  CHECK(
      point_of(
          R"({"model": "gpt-bytes-tiny", "seq": 64, "moments_in_bf16": true, "precision": "bf16", "gradients_in_bf16": true})") ==
      p);
  CHECK(point_id(p) == "621d70af6bdfd856");
  // f32 is what bf16 has; fp16 says it by a flag.
  CHECK(point_of(R"({"model": "gpt-bytes-tiny", "precision": {"preset": "bf16", "gradients": "f32"}})")
            .gradients_in_f32 == false);
  CHECK(
      point_of(R"({"model": "gpt-bytes-tiny", "precision": {"preset": "fp16", "gradients": "f32"}})").gradients_in_f32);
  CHECK(point_to_json(point_of(R"({"model": "gpt-bytes-tiny", "precision": {"preset": "bf16", "gradients": "f32"}})"))
            .at("precision") == "bf16");
  // What is refused later is written and read back.
  const Point wrong = point_of(R"({"model": "gpt-bytes-tiny", "precision": "bf16", "gradients_in_f32": true})");
  CHECK(wrong.gradients_in_f32);
  CHECK(point_from_json(json(point_to_json(wrong)), "again: $") == wrong);
  const auto refused = [](const char* precision) {
    return refusal(fmt::format(R"({{"model": "gpt-bytes-tiny", "precision": {}}})", precision));
  };
  CHECK_THAT(refused(R"({"preset": "bf16", "gradients": "fp16"})"),
             Contains("[p.json: $.precision.gradients]") && Contains("need f32 or bf16"));
  CHECK_THAT(refused(R"({"preset": "fp16", "gradients": "bf16"})"), Contains("need fp16 or f32"));
  CHECK_THAT(refused(R"({"gradients": "f32"})"), Contains("\"preset\" is missing"));
  CHECK_THAT(refused(R"({"preset": "bf16", "gradient": "f32"})"), Contains("did you mean \"gradients\"?"));
  CHECK_THAT(refused(R"("bf61")"), Contains("[p.json: $.precision]"));
}

TEST_CASE("mxfp8 is fp8 with that recipe, and is called so") {
  const auto precision = [](const std::string& text) {
    return point_to_json(point_of(R"({"model": "gpt-bytes-tiny", "seq": 64, "precision": )" + text + "}"))
        .at("precision")
        .dump();
  };
  CHECK(precision(R"("mxfp8")") == R"("mxfp8")");
  CHECK(precision(R"({"preset": "fp8", "fp8_recipe": "mxfp8"})") == R"("mxfp8")");
  CHECK(precision(R"({"preset": "mxfp8", "gradients": "bf16"})") == R"({"preset":"mxfp8","gradients":"bf16"})");
  CHECK(precision(R"({"preset": "nvfp4", "first_layers_in_bf16": 2})") ==
        R"({"preset":"nvfp4","first_layers_in_bf16":2})");
  const Point former =
      point_of(R"({"model": "gpt-bytes-tiny", "seq": 64, "precision": "mxfp8", "fp8_recipe": "delayed"})");
  CHECK(former.fp8_recipe == Fp8Recipe::delayed);
  Point changed = point_of(R"({"model": "gpt-bytes-tiny", "seq": 64, "precision": "mxfp8"})");
  read_precision(changed, nlohmann::json("bf16"), "test");
  CHECK(changed.fp8_recipe == Fp8Recipe::tensorwise);
  const Point p = point_of(R"({"model": "gpt-bytes-tiny", "seq": 64, "precision": "mxfp8"})");
  CHECK(p.precision == Precision::fp8);
  CHECK(p.fp8_recipe == Fp8Recipe::mxfp8);
  CHECK(point_id(p) ==
        point_id(point_of(R"({"model": "gpt-bytes-tiny", "seq": 64, "precision": "fp8", "fp8_recipe": "mxfp8"})")));
}

TEST_CASE("every field has a kind, and a point can be rid of the fields of a kind") {
  REQUIRE(point_fields().size() == point_keys().size());
  std::map<FieldKind, std::set<std::string>> of_kind;
  for (const PointField& field : point_fields()) of_kind[field.kind].insert(field.key);
  CHECK(of_kind.at(FieldKind::model) == std::set<std::string>{"model"});
  CHECK(of_kind.at(FieldKind::limit) == std::set<std::string>{"memory_limit", "max_seconds"});
  CHECK(of_kind.at(FieldKind::place) ==
        std::set<std::string>{"env", "ranks_per_node", "placement", "background_load", "machine", "device"});
  CHECK(of_kind.at(FieldKind::layout).contains("replicas"));
  CHECK(of_kind.at(FieldKind::training).contains("precision"));
  // A point with every field set, without each kind in turn: what is of the kind is at its default, the rest stays.
  const Point full = point_of(R"({
    "model": "bert-base", "seq": 128, "micro_batch": 3, "global_batch": 12, "iterations": 7, "warmup": 0, "seed": 18,
    "dropout": 0.25, "tp": 2, "pp": 4, "dp": 2, "cp": 3, "cp_communication": "all_gather", "ep": 5, "etp": 2, "ep_communication": "all_gather", "router": "capacity:1.5", "routing_imbalance": 1.5,
    "replicas": "single_process", "strategy": "sequence_parallel+selective", "recompute_layers": 1, "schedule": "interleaved", "virtual_stages": 2, "micro_batch_group": 5, "first_stage_layers": 2, "last_stage_layers": 4, "pipeline_layout": "Et|tL", "defer_embedding_wgrad": true, "wgrad_deferral_limit": 3, "overlap_moe": true, "delay_wgrad": true, "expert_rank_capacity": 1.5, "paged_stash": 1.25, "paged_stash_host": 0.5, "zero": 2, "optimizer_instances": 2, "overlap_grad_reduce": false, "overlap_param_gather": false, "fsdp_no_sync": true,
    "offload": "all", "offload_fraction": 0.5, "offload_activations": "layers:3", "min_offloaded_tensor_size": 700, "precision": "fp16", "gradients_in_f32": true, "gradients_in_bf16": true, "moments_in_bf16": true, "main_weights_in_bf16": true, "attention": "flash",
    "graph": "eager", "cross_entropy_fusion": "native", "gradient_accumulation_fusion": false,
    "grouped_experts": false, "mask_in_batch": false, "transformer_engine": false, "rope_fusion": false, "deterministic": true, "vocab_multiple": 16, "vocab_parallel": false, "tp_gathers": "product", "tp_comm_overlap": true,
    "fp8_recipe": "blockwise", "fp8_parameters": true, "first_layers_in_bf16": 1, "last_layers_in_bf16": 2, "capture": true, "loader_workers": 1, "pinned": true, "optimizer": "sgd", "fused_optimizer": false,
    "data": "text:a.txt", "document_lengths": 9, "reset_positions": false, "adapter": "lora:4,alpha=8", "learning_rate": 0.1, "lr_warmup": 4, "weight_decay": 0, "clip_grad": 2.5,
    "memory_limit": "2GiB", "max_seconds": 1.5, "env": {"A": "b"}, "ranks_per_node": 2, "placement": "cyclic", "background_load": 0.5, "framework": "megatron",
    "machine": {"network.gbps_per_device": 94}, "device": "cuda"})");
  const nlohmann::ordered_json all = point_to_json(full), defaults = point_to_json(Point());
  for (const auto& [kind, keys] : of_kind) {
    const nlohmann::ordered_json rest = point_to_json(without(full, {kind}));
    for (const std::string& key : point_keys()) {
      INFO(key);
      CHECK(all.at(key) != defaults.at(key));
      CHECK(rest.at(key) == (keys.contains(key) ? defaults : all).at(key));
    }
  }
}
