// Which points can be, as strategies say, and why not.
#include <nlohmann/json.hpp>

#include "engine/platform/registry.h"
#include "strategies/strategies.h"
#include "test/catch.h"
#include "test/graphs.h"

using namespace mbench;
using namespace mbench::platform;
using nlohmann::json;

namespace {

Point point_of(const std::string& text) {
  return point_from_json(json::parse(text), "p.json: $");
}

Point tiny() {
  return point_of(R"({"model": "gpt-bytes-tiny", "seq": 64})");
}

}  // namespace

TEST_CASE("layouts that cannot be are told with what could") {
  using Catch::Contains;
  const auto why = [](auto change) {
    Point p = tiny();  // 4 layers, hidden 64, 4 heads, ffn 256, 256 positions
    change(p);
    const auto refusal = strategies::why_not(p);
    return refusal && refusal->outcome == Outcome::infeasible ? refusal->reason : "";
  };
  CHECK(why([](Point&) {}) == "");
  CHECK(why([](Point& p) { p.tp = 3; }) == "tp 3 does not divide the 4 heads, need tp 2 or 4");
  CHECK(why([](Point& p) { p.tp = 8; }) == "tp 8 does not divide the 4 heads, need tp 4");
  CHECK(why([](Point& p) { p.tp = 4, p.model.ffn = 250; }) == "tp 4 does not divide ffn 250, need tp 2");
  CHECK(why([](Point& p) {
          p.optimizer = OptimizerKind::adafactor, p.dp = p.global_batch = 2, p.zero = Zero::stage_1;
        }) == "optimizer adafactor with zero 1, which cuts parameters anywhere, need zero 0, oss or oss+sdp");
  CHECK(why([](Point& p) { p.optimizer = OptimizerKind::adafactor, p.dp = p.global_batch = 2, p.zero = Zero::oss; }) ==
        "");
  CHECK(why([](Point& p) {
          p.optimizer = OptimizerKind::sgd, p.precision = Precision::bf16, p.moments_in_bf16 = true;
        }) == "precision.moments bf16 with optimizer sgd, need optimizer adamw or precision.moments f32");
  CHECK(why([](Point& p) { p.precision = Precision::fp16, p.main_weights_in_bf16 = true; }) ==
        "precision.main_weights bf16 with precision fp16, need precision bf16 or precision.main_weights f32");
  CHECK(why([](Point& p) {
          p.offload = Offload::optimizer_and_gradients, p.zero = Zero::stage_1, p.dp = p.global_batch = 2;
        }) ==
        "offload optimizer+gradients with zero 1, whose gradients are all there, need zero 2, 3 or fsdp, or offload "
        "optimizer");
  CHECK(why([](Point& p) { p.fp8_recipe = Fp8Recipe::delayed; }) ==
        "precision.fp8_recipe delayed with precision f32, need precision fp8 or precision.fp8_recipe tensorwise");
  const auto in_fp8 = [&](auto change) {
    return why([&](Point& p) {
      p.precision = Precision::fp8;
      change(p);
    });
  };
  CHECK(in_fp8([](Point&) {}) == "");
  CHECK(in_fp8([](Point& p) { p.tp = 2, p.sequence_parallel = true; }) == "");
  CHECK_THAT(in_fp8([](Point& p) { p.seq = 40; }), Contains("40 tokens, 64 inputs and 192 outputs on a rank, and wants "
                                                            "multiples of 16, need seq 32 or 48, or precision bf16"));
  CHECK_THAT(in_fp8([](Point& p) { p.model.ffn = 264; }),
             Contains("layers.0.fc1 is a GEMM of 64 tokens, 64 inputs and 264 outputs"));
  CHECK(in_fp8([](Point& p) { p.fp8_parameters = true; }) == "");
  CHECK_THAT(in_fp8([](Point& p) {
               p.model.ffn = 272;
               p.fp8_recipe = Fp8Recipe::mxfp8;
             }),
             Contains("multiples of 32"));
  CHECK_THAT(why([](Point& p) { p.model.ffn = 272, p.precision = Precision::nvfp4; }),
             Contains("precision nvfp4: layers.0.fc1") && Contains("multiples of 32"));
  CHECK(why([](Point& p) { p.precision = Precision::bf16, p.last_layers_in_bf16 = 1; }) ==
        "precision.last_layers_in_bf16 1 with precision bf16, need precision fp8 or nvfp4, or "
        "precision.last_layers_in_bf16 0");
  CHECK_THAT(in_fp8([](Point& p) { p.first_layers_in_bf16 = p.model.layers; }), Contains("layers in bf16"));
  CHECK(in_fp8([](Point& p) { p.first_layers_in_bf16 = p.model.layers - 1; }) == "");
  CHECK(why([](Point& p) { p.precision = Precision::bf16, p.fp8_parameters = true; }) ==
        "precision.fp8_parameters with precision bf16, need precision fp8 or precision.fp8_parameters false");
  const auto shared_groups = [&](Fp8Recipe recipe, std::int64_t head_dim) {
    return in_fp8([=](Point& p) {
      p.model.family = "llama", p.model.kv_heads = 2, p.model.head_size = head_dim, p.tp = 4;
      p.fp8_recipe = recipe, p.fp8_parameters = true;
    });
  };
  CHECK(shared_groups(Fp8Recipe::delayed, 16) == "");
  CHECK(shared_groups(Fp8Recipe::blockwise, 64) == "");
  CHECK(shared_groups(Fp8Recipe::blockwise, 16) ==
        "precision.fp8_parameters with fp8_recipe blockwise and tp 4: a rank's own 32 rows of keys and values of 2 "
        "heads begin within a block "
        "of 128 rows that share a scale, need tp 2, precision.fp8_recipe tensorwise or delayed, or "
        "precision.fp8_parameters false");
  const auto mixture = [&](auto change) {
    return why([&](Point& p) {
      p.model.family = "mixtral";
      p.model.experts = 6, p.model.active_experts = 2, p.seq = 63;
      change(p);
    });
  };
  CHECK(mixture([](Point&) {}) == "");
  CHECK(mixture([](Point& p) { p.ep = 4; }) == "ep 4 does not divide the 6 experts, need ep 1");
  CHECK(mixture([](Point& p) { p.ep = 3, p.dp = p.global_batch = 2; }) ==
        "etp 1 x ep 3 does not divide tp 1 x cp 1 x dp 2, need ep 2");
  CHECK(mixture([](Point& p) { p.tp = 4, p.etp = 3; }) == "etp 3 does not divide tp 4, need etp 4");
  CHECK(mixture([](Point& p) { p.tp = 4, p.etp = 2; }) ==
        "etp 2 with tp 4 sends each part of a sequence by itself, need etp 4, or sequence_parallel true and seq 64");
  CHECK(mixture([](Point& p) { p.tp = 2, p.etp = 1; }) ==
        "etp 1 with tp 2 sends each part of a sequence by itself, need etp 2, or sequence_parallel true and seq 62");
  CHECK(mixture([](Point& p) { p.tp = 2, p.model.expert_ffn = 33; }) ==
        "etp 2 does not divide expert_ffn 33, need tp 1");
  CHECK(mixture([](Point& p) { p.tp = 4, p.model.expert_ffn = 36, p.model.shared_experts = 1; }) == "");
  for (const EpCommunication how : {EpCommunication::all_gather, EpCommunication::flex}) {
    const auto name = std::string(name_of(how));
    CHECK(mixture([&](Point& p) { p.ep = 2, p.dp = p.global_batch = 2, p.ep_communication = how; }) == "");
    CHECK_THAT(mixture([&](Point& p) {
                 p.ep = 2, p.dp = p.global_batch = 2, p.ep_communication = how;
                 p.router = {Routing::capacity, 2};
               }),
               Contains("ep_communication " + name +
                        " with router capacity:2, whose capacity is of the tokens that a rank sends"));
    CHECK(why([&](Point& p) { p.ep_communication = how; }) ==
          "ep_communication " + name + " of a model without experts, need ep_communication all_to_all");
  }
  const auto in_parts = [&](auto change) {
    return mixture([&](Point& p) {
      p.framework = keeps(Graph::megatron_core), p.framework.options["shared_expert_overlap"] = "true";
      p.ep = 2, p.dp = 2, p.global_batch = 4, p.model.shared_experts = 1;
      change(p);
    });
  };
  CHECK(in_parts([](Point&) {}) == "");
  CHECK(in_parts([](Point& p) { p.ep_communication = EpCommunication::flex; }) == "");
  CHECK(in_parts([](Point& p) { p.overlap_moe = true; }) ==
        "shared_expert_overlap true with overlap_moe, need framework.shared_expert_overlap false or overlap_moe false");
  CHECK(in_parts([](Point& p) { p.ep_communication = EpCommunication::all_gather; }) ==
        "shared_expert_overlap true with ep_communication all_gather, which sends no tokens to experts, need "
        "framework.shared_expert_overlap false, or ep_communication all_to_all or flex");
  CHECK(in_parts([](Point& p) { p.ep_communication = EpCommunication::all_gather, p.model.shared_experts = 0; }) == "");
  CHECK_THAT(in_parts([](Point& p) { p.model.moe_latent = 24; }),
             Contains("shared_expert_overlap true with moe_latent 24"));
  CHECK_THAT(
      in_parts([](Point& p) { p.capture.parts.add(CapturedPart::moe_router), p.recompute.regions.add(Region::norm); }),
      Contains("shared_expert_overlap true with recompute norm and capture moe_router"));
  // Any number of tokens and experts; where shares differ the host reads them.
  CHECK(mixture([](Point& p) { p.seq = 64; }) == "");
  CHECK_THAT(mixture([](Point& p) { p.seq = 64, p.capture = true; }),
             Contains("capture true with router balanced, whose experts have as many rows as the host reads"));
  CHECK(mixture([](Point& p) { p.seq = 64, p.router.routing = Routing::learned; }) == "");
  CHECK(mixture([](Point& p) { p.router.routing = Routing::learned, p.routing_imbalance = 1.5; }) == "");
  CHECK_THAT(mixture([](Point& p) { p.routing_imbalance = 1.5; }),
             Contains("routing_imbalance 1.5 with router balanced, which has none, need router learned or "
                      "routing_imbalance 1"));
  CHECK(why([](Point& p) { p.paged_stash = 1.1; }) == "paged_stash 1.1 of a model without experts, need paged_stash 0");
  CHECK(why([](Point& p) { p.ep = 2, p.dp = p.global_batch = 2; }) == "ep 2 of a model without experts, need ep 1");
  CHECK(why([](Point& p) { p.model.heads = 16, p.model.kv_heads = 4, p.tp = 2; }) == "");
  CHECK(why([](Point& p) { p.model.heads = 16, p.model.kv_heads = 4, p.tp = 16; }) == "");
  CHECK(why([](Point& p) { p.model.heads = 24, p.model.hidden = 96, p.model.kv_heads = 4, p.tp = 6; }) ==
        "tp 6 neither divides the 4 key and value heads nor is a multiple of them, need tp 4 or 8");
  const auto latent = [&](auto change) {
    return why([&](Point& p) {
      p.model.family = "deepseek";
      p.model.kv_lora_rank = 16, p.model.qk_nope_head_dim = 8, p.model.qk_rope_head_dim = 4, p.model.v_head_dim = 8;
      change(p);
    });
  };
  CHECK(latent([](Point&) {}) == "");
  CHECK(latent([](Point& p) { p.model.hidden = 66; }) == "");  // heads need not divide it
  CHECK(latent([](Point& p) { p.tp = 8; }) == "tp 8 does not divide the 4 heads, need tp 4");
  CHECK(why([](Point& p) { p.recompute = {{Region::moe}}; }) ==
        "recompute moe of gpt-bytes-tiny without experts, need recompute mlp");
  CHECK(mixture([](Point& p) { p.recompute = {{Region::mlp}}; }) ==
        "recompute mlp of gpt-bytes-tiny without dense layers, need recompute moe");
  CHECK(why([](Point& p) { p.recompute = {{Region::moe_act}}; }) ==
        "recompute moe_act of gpt-bytes-tiny without experts, need recompute mlp");
  CHECK(why([](Point& p) { p.recompute = {{Region::mla_up_proj}}; }) ==
        "recompute mla_up_proj of gpt-bytes-tiny without latent attention, need recompute core_attention");
  CHECK(why([](Point& p) { p.recompute_layers = 1; }) ==
        "recompute_layers 1 with recompute none, need recompute full or selective, or recompute_layers 0");
  CHECK(why([](Point& p) { p.recompute = Recompute::full, p.recompute_layers = 3, p.pp = 2; }) ==
        "recompute_layers 3 of chunks with at most 2 layers, need recompute_layers 2");
  CHECK(why([](Point& p) { p.recompute = Recompute::full, p.recompute_layers = 2, p.pp = 2; }) == "");
  CHECK(why([](Point& p) { p.model.mtp_layers = 3, p.seq = 3; }) ==
        "seq 3 has no word that mtp_layers 3 could predict, need seq 4 or mtp_layers 2");
  CHECK(why([](Point& p) { p.pp = 3; }) == "");  // 1 2 1 layers
  CHECK(why([](Point& p) { p.pp = 5; }) ==
        "pp 5 does not divide the 4 layers, need pp 4 or 6, or pipeline_layout E|(t|)*3tL");
  CHECK_THAT(why([](Point& p) { p.seq = 257; }), Contains("seq 257 is longer than the 256 positions"));
  CHECK(why([](Point& p) { p.micro_batch = 2, p.dp = 2, p.global_batch = 6; }) ==
        "global_batch 6 is no multiple of micro_batch 2 x dp 2, need global_batch 4 or 8");
  CHECK(why([](Point& p) { p.sequence_parallel = true, p.tp = 4, p.seq = 62; }) ==
        "sequence_parallel needs seq 62 to be a multiple of tp 4, need seq 60 or 64, or sequence_parallel false");
  CHECK(why([](Point& p) { p.sequence_parallel = true, p.seq = 63; }) == "");
  const auto context = [&](CpCommunication way, auto change) {
    return why([&](Point& p) {
      p.cp = 4, p.cp_communication = way, p.attention = AttentionKind::flash;
      change(p);
    });
  };
  for (const CpCommunication way : {CpCommunication::all_gather, CpCommunication::ring, CpCommunication::all_to_all})
    CHECK(context(way, [](Point&) {}) == "");
  CHECK(context(CpCommunication::ring, [](Point& p) { p.seq = 60; }) ==
        "cp 4 by ring cuts a sequence into 8, got seq 60, need seq 56 or 64");
  CHECK(context(CpCommunication::all_to_all, [](Point& p) { p.seq = 60; }) == "");
  CHECK(context(CpCommunication::all_to_all, [](Point& p) { p.seq = 62; }) ==
        "cp 4 by all_to_all cuts a sequence into 4, got seq 62, need seq 60 or 64");
  CHECK(context(CpCommunication::all_to_all, [](Point& p) { p.model.kv_heads = 2; }) ==
        "cp 4 by all_to_all does not divide the 2 key and value heads of a tensor-parallel rank, need cp 2, or "
        "cp_communication ring or all_gather");
  CHECK(context(CpCommunication::ring, [](Point& p) { p.model.kv_heads = 2; }) == "");
  CHECK_THAT(context(CpCommunication::all_to_all, [](Point& p) { p.tp = 4; }),
             Contains("does not divide the 1 key and value heads of a tensor-parallel rank, need cp 1"));
  CHECK(
      context(CpCommunication::ring, [](Point& p) { p.sequence_parallel = true, p.tp = 4, p.seq = 56; }) ==
      "sequence_parallel needs seq 56 to be a multiple of tp 4 x cp 4, need seq 48 or 64, or sequence_parallel false");
  CHECK(mixture([](Point& p) { p.seq = 48, p.cp = 2, p.attention = AttentionKind::flash; }) == "");
  // Chunks of 14 tokens.
  CHECK(mixture([](Point& p) { p.seq = 56, p.cp = 2, p.attention = AttentionKind::flash; }) == "");
  CHECK_THAT(why([](Point& p) { p.virtual_stages = 2; }), Contains("virtual_stages 2 with schedule 1f1b"));
  CHECK(why([](Point& p) { p.zero = Zero::stage_2, p.fsdp_no_sync = true; }) ==
        "fsdp_no_sync with zero 2, need zero fsdp or fsdp_no_sync false");
  CHECK(why([](Point& p) { p.zero = Zero::fsdp, p.fsdp_no_sync = true; }) == "");
  const auto with = [&](Graph graph, const char* option, const char* value, Precision precision = Precision::f32) {
    return why(
        [&](Point& p) { p.framework = keeps(graph), p.framework.options[option] = value, p.precision = precision; });
  };
  CHECK(with(Graph::fused, "cross_entropy_fusion", "none") ==
        "cross_entropy_fusion none with framework mbench, need framework.preset megatron-core or "
        "framework.cross_entropy_fusion te");
  CHECK(with(Graph::megatron_core, "cross_entropy_fusion", "torch") ==
        "cross_entropy_fusion torch with framework megatron-core, need framework.preset deepspeed, fairscale, "
        "mbench, nemo-automodel, torch-ddp, torch-eager or torchtitan, or "
        "framework.cross_entropy_fusion te");
  CHECK(with(Graph::fused, "cross_entropy_fusion", "torch") == "");
  CHECK(with(Graph::fused, "cross_entropy_fusion", "torch_16bit", Precision::bf16) == "");
  CHECK(with(Graph::fused, "cross_entropy_fusion", "torch_16bit") ==
        "cross_entropy_fusion torch_16bit with precision f32, whose logits have 32 bits, need "
        "framework.cross_entropy_fusion torch, or "
        "precision bf16 or fp16");
  CHECK(with(Graph::eager, "gradient_accumulation_fusion", "false") ==
        "gradient_accumulation_fusion false with framework megatron-2022, need framework.preset megatron-core or "
        "framework.gradient_accumulation_fusion true");
  CHECK(why([](Point& p) {
          p.framework = keeps(Graph::megatron_core);
          p.framework.options = {{"gradient_accumulation_fusion", "false"}, {"cross_entropy_fusion", "native"}};
        }) == "");
  CHECK_THAT(why([](Point& p) { p.zero = Zero::stage_2, p.overlap_grad_reduce = false; }),
             Contains("overlap_grad_reduce false with zero 2"));
  CHECK_THAT(why([](Point& p) { p.overlap_param_gather = false; }), Contains("overlap_param_gather false with zero 0"));
  CHECK_THAT(why([](Point& p) { p.zero = Zero::fsdp, p.overlap_param_gather = false; }),
             Contains("overlap_param_gather false with zero fsdp"));
  CHECK(why([](Point& p) { p.zero = Zero::oss, p.overlap_param_gather = p.overlap_grad_reduce = false; }) == "");
  CHECK(with(Graph::fused, "grouped_experts", "false") ==
        "grouped_experts false with framework mbench, need framework.preset megatron-core or framework.grouped_experts "
        "true");
  CHECK(with(Graph::eager, "mask_in_batch", "false") ==
        "mask_in_batch false with framework megatron-2022, need framework.preset megatron-core or "
        "framework.mask_in_batch true");
  CHECK(why([](Point& p) {
          p.framework = keeps(Graph::megatron_core);
          p.framework.options = {
              {"grouped_experts", "false"}, {"mask_in_batch", "false"}, {"transformer_engine", "false"}};
        }) == "");
  for (const auto& [option, value, otherwise] :
       {std::tuple("rope_fusion", "false", "true"), {"deterministic", "true", "false"}}) {
    CHECK(with(Graph::fused, option, value) ==
          fmt::format("{} {} with framework mbench, need framework.{} {}", option, value, option, otherwise));
    Point simulated = tiny();
    simulated.framework = keeps(Graph::megatron_core), simulated.framework.options[option] = value;
    REQUIRE(strategies::why_not(simulated));
    CHECK(strategies::why_not(simulated)->outcome == Outcome::unsupported);
    CHECK(strategies::why_not(simulated)->reason ==
          fmt::format("{} {} on cpu is not built into this binary, need framework.{} {} or device sim:", option, value,
                      option, otherwise));
    simulated.device = "sim:8xH100-SXM5-80GB";
    CHECK_FALSE(strategies::why_not(simulated));
  }
  for (const auto& [recipe, refused] : {std::pair(Fp8Recipe::delayed, false),
                                        {Fp8Recipe::blockwise, false},
                                        {Fp8Recipe::rowwise, true},
                                        {Fp8Recipe::mxfp8, true}}) {
    const std::string reason = why([&, recipe = recipe](Point& p) {
      p.precision = Precision::fp8, p.fp8_recipe = recipe, p.framework = keeps(Graph::megatron_core);
      p.framework.options["keep_fp8_weight_transpose_cache"] = "false";
    });
    CHECK((reason == "") == !refused);
    if (refused)
      CHECK(reason ==
            fmt::format("keep_fp8_weight_transpose_cache false with fp8_recipe {}, whose two sides have scales of "
                        "their own, need framework.keep_fp8_weight_transpose_cache true",
                        name_of(recipe)));
  }
  CHECK(why([](Point& p) { p.gradients_in_bf16 = true; }) ==
        "precision.gradients bf16 with precision f32, need precision bf16 or precision.gradients f32");
  const auto interleaved = [&](std::int64_t pp, std::int64_t stages, std::int64_t batches) {
    return why([&](Point& p) {
      p.schedule = ScheduleKind::interleaved, p.pp = pp, p.virtual_stages = stages, p.global_batch = batches;
    });
  };
  CHECK(interleaved(2, 2, 4) == "");
  // 61 layers, the embedding and the head in 16 chunks of three or four.
  const auto deepseek = [&](std::int64_t pp) {
    return why([&](Point& p) { p.model = find_preset("deepseek-v3", "test"), p.pp = pp; });
  };
  CHECK(deepseek(16) == "");
  CHECK(deepseek(32) == "pp 32 does not divide the 61 layers, need pp 21 or 61, or pipeline_layout E|(tt|)*30tL");
  CHECK_THAT(interleaved(1, 2, 4), Contains("with pp 1, need pp 2, or schedule 1f1b and virtual_stages 1"));
  CHECK_THAT(interleaved(2, 1, 4), Contains("with virtual_stages 1, need virtual_stages 2 or schedule 1f1b"));
  CHECK_THAT(
      interleaved(2, 2, 3),
      Contains("the 3 micro batches to be a multiple of pp 2, need global_batch 2 or 4, or micro_batch_group 3"));
  CHECK_THAT(interleaved(2, 4, 4),
             Contains("pp 2 x virtual_stages 4 does not divide the 4 layers, need virtual_stages 3"));
}

TEST_CASE("what this binary does not have is told, not refused as bad input") {
  using Catch::Contains;
  const auto why = [](const std::string& fields) {
    const std::string model = fields.find("\"model\"") == std::string::npos ? R"("model": "gpt-bytes-tiny", )" : "";
    const Point p = point_of("{" + model + R"("seq": 64, )" + fields + "}");
    if (const auto refusal = strategies::why_not(p)) {
      CHECK(refusal->outcome == Outcome::unsupported);
      return refusal->reason;
    }
    return why_unsupported_on(p.device, p).value_or("");
  };
  CHECK(why(R"("precision": "fp16")") == "");
  CHECK(why(R"("precision": "bf16", "main_weights_in_bf16": true)") == "");
  const std::string liger = R"("framework": {"preset": "torch-eager", "cross_entropy_fusion": "liger"})";
  CHECK(why(liger) == "");
  CHECK(why(liger + R"(, "tp": 2)") ==
        "cross_entropy_fusion liger with tp 2 is not built into this binary, need tp 1, or "
        "framework.cross_entropy_fusion te or torch");
  const auto bert = strategies::why_not(point_of(R"({"model": "bert-base", "seq": 64, )" + liger + "}"));
  CHECK_THAT(bert.value().reason, Contains("whose logits have a bias or a layer before them"));
  CHECK(why(R"("precision": "bf16", "cross_entropy_fusion": "torch_16bit", "tp": 2)") ==
        "cross_entropy_fusion torch_16bit with tp 2 is not built into this binary, need tp 1, "
        "framework.cross_entropy_fusion torch, or "
        "vocab_parallel false and tied_embedding false");
  CHECK(why(R"("precision": "bf16", "main_weights_in_bf16": true, "offload": "optimizer")") ==
        "precision.main_weights bf16 with offload optimizer is not built into this binary, need offload none or "
        "precision.main_weights f32");
  CHECK(why(R"("offload": "all+gradients", "zero": 3, "dp": 2, "tp": 2, "global_batch": 2)") ==
        "offload all+gradients with tp 2 x pp 1 x ep 1 is not built into this binary, need tp 1 or offload all");
  CHECK(why(R"("precision": "bf16", "main_weights_in_bf16": true, "optimizer": "sgd")") ==
        "precision.main_weights bf16 with optimizer sgd is not built into this binary, need optimizer adamw or "
        "adamw8bit, or precision.main_weights f32");
  CHECK(why(R"("precision": {"preset": "mxfp8", "fp8_parameters": true})") == "");
  CHECK(
      why(R"("precision": {"preset": "mxfp8", "fp8_parameters": true}, "dp": 2, "zero": 2, "global_batch": 2)") ==
      "precision.fp8_parameters with fp8_recipe mxfp8 and zero 2, whose gradients leave no room for gathered weights, "
      "is not built into this binary, need zero 0, 1 or oss, precision.fp8_recipe tensorwise, delayed or blockwise, or "
      "precision.fp8_parameters false");
  CHECK(why(R"("precision": {"preset": "fp8", "fp8_recipe": "rowwise", "fp8_parameters": true})") ==
        "precision.fp8_parameters with fp8_recipe rowwise, whose weights torchao gathers in 16 bits, is not built into "
        "this binary, need precision.fp8_recipe tensorwise, delayed, blockwise or mxfp8, or precision.fp8_parameters "
        "false");
  CHECK(why(R"("precision": {"preset": "nvfp4", "fp8_parameters": true})") ==
        "precision.fp8_parameters with precision nvfp4 (Megatron-Core's --fp4-param-gather) is not built into this "
        "binary, need precision.fp8_parameters false");
  CHECK(why(R"("attention": "flash")") == "");
  CHECK(why(R"("placement": "cyclic")") ==
        "placement cyclic is for simulation only, and the device is cpu, need block");
  CHECK(why(R"("background_load": 0.5, "device": "cuda")") ==
        "background_load 0.5 is for simulation only, and the device is cuda, need 0");
  CHECK(why(R"("placement": "cyclic", "background_load": 0.5, "device": "sim:8xH100-SXM5-80GB")") == "");
  for (const char* fields : {R"("offload": "optimizer", "optimizer": "sgd")", R"("capture": true, "optimizer": "sgd")",
                             R"("framework": "megatron")", R"("replicas": "single_process", "device": "cuda")",
                             R"("precision": "fp8", "fp8_parameters": true, "offload": "optimizer")",
                             R"("precision": "fp8", "fp8_parameters": true, "replicas": "single_process")"}) {
    INFO(fields);
    CHECK(why(fields) != "");
  }
  CHECK(why(R"("capture": true, "loader_workers": 2, "pinned": true)") == "");
  CHECK(why(R"("cp": 2)") ==
        "cp_communication ring with attention core, which keeps probabilities, is not built into this "
        "binary, need "
        "attention flash or cp_communication all_to_all");
  CHECK_THAT(why(R"("cp": 2, "attention": "flash", "graph": "eager", "cp_communication": "all_gather")"),
             Contains("all_gather with framework megatron-2022") &&
                 Contains("need framework.preset mbench or cp_communication all_to_all"));
  CHECK(why(R"("cp": 2, "graph": "eager", "cp_communication": "all_to_all")") == "");
  // TF32 is what a GPU has, real or simulated.
  CHECK(why(R"("precision": "tf32")") ==
        "precision tf32 is the arithmetic of a GPU's tensor cores, and the device is cpu, need f32");
  CHECK(why(R"("precision": "tf32", "device": "cuda")") == "");
  CHECK(why(R"("precision": "tf32", "device": "sim:1xA100-SXM4-40GB")") == "");
  CHECK(why(R"("attention": "flash", "device": "cuda", "precision": "bf16", "dropout": 0)") == "");
  CHECK(why(R"("attention": "core", "device": "cuda")") == "");
  CHECK(why(R"("attention": "flash", "device": "sim:1xH200-SXM5-141GB")") == "");
  CHECK_THAT(why(R"("attention": "flash", "device": "cuda", "dropout": 0)"),
             Contains("flash in f32 on a GPU") && Contains("need precision bf16 or fp16, or attention core"));
  CHECK_THAT(why(R"("attention": "flash", "device": "cuda", "precision": "fp16", "dropout": 0.1)"),
             Contains("with dropout 0.1, need dropout 0 or attention core"));
  CHECK(why(R"("document_lengths": "20+5", "device": "cuda")") == "");
  const auto packed = [&](const char* fields) {
    return why(std::string(R"("attention": "flash", "precision": "bf16", "dropout": 0, "device": "cuda", )") + fields);
  };
  CHECK(packed(R"("document_lengths": 20)") == "");
  CHECK(packed(R"("document_lengths": 20, "cp": 2, "cp_communication": "all_to_all")") == "");
  CHECK_THAT(packed(R"("document_lengths": 20, "cp": 2)"),
             Contains("cp_communication ring is not built") && Contains("need cp_communication all_to_all or cp 1"));
  CHECK_THAT(packed(R"("document_lengths": "20+6")"),
             Contains("a document begins at token 26") && Contains("multiples of 4 or attention core"));
  CHECK_THAT(why(R"("document_lengths": "geometric:9", "model": "bert-bytes-tiny")"),
             Contains("document_lengths geometric:9 with objective masked_words_and_order") &&
                 Contains("need document_lengths none"));
  CHECK_THAT(
      why(R"("document_lengths": 9, "model": {"preset": "llama-bytes-tiny", "state_heads": 4, "state_head_dim": 8,
                 "state_groups": 2, "state_dim": 4, "mixer": "mamba2"})"),
      Contains("document_lengths 9 with state mixers") && Contains("need document_lengths none"));
  // One label for each sample, and no words, on no machine.
  const auto labelled = [](const std::string& fields) {
    const auto refusal = strategies::why_not(
        point_of(R"({"seq": 64, "model": {"preset": "llama-bytes-tiny", "labels": 3})" + fields + "}"));
    if (refusal) CHECK(refusal->outcome == Outcome::infeasible);
    return refusal ? refusal->reason : "";
  };
  CHECK(labelled("") == "");
  CHECK(labelled(R"(, "document_lengths": 9)") ==
        "document_lengths 9 with 3 labels, one for each sample, need document_lengths none or labels 0");
  CHECK(labelled(R"(, "pp": 2, "defer_embedding_wgrad": true)") ==
        "defer_embedding_wgrad with 3 labels, and no logits of words, need defer_embedding_wgrad false or labels 0");
  CHECK(labelled(R"(, "framework": {"preset": "torch-eager", "liger_kernel": true})") ==
        "cross_entropy_fusion liger with 3 labels, and no logits of words, need labels 0");
  CHECK(labelled(R"(, "tp": 2, "vocab_parallel": false)") == "");
  CHECK(why(R"("model": {"preset": "gpt-bytes-tiny", "labels": 3}, "tp": 2, "vocab_parallel": false)") == "");
  const auto of = [](const std::string& model) {
    const auto refusal = strategies::why_not(point_of(R"({"seq": 64, "model": )" + model + "}"));
    return refusal ? refusal->reason : "";
  };
  CHECK(of(R"({"preset": "llama-bytes-tiny", "labels": 3, "mtp_layers": 1})") ==
        "mtp_layers 1 with 3 labels, and no words to predict, need mtp_layers 0 or labels 0");
  CHECK(of(R"("llama-3-8b")") == "");
  CHECK(of(R"("mixtral-8x7b")") == "");
  CHECK(of(R"("deepseek-v3")") == "");
  CHECK(of(R"({"preset": "llama-bytes-tiny", "qk_norm": true})") == "");
  CHECK_THAT(of(R"({"preset": "deepseek-v2-lite", "qk_norm": true})"), Contains("qk_norm true with attention_form"));
  CHECK(of(R"({"preset": "gpt-bytes-tiny", "kv_heads": 2})") == "");
  CHECK(of(R"({"preset": "gpt-bytes-tiny", "activation": "swiglu"})") == "");
  CHECK(of(R"({"preset": "bert-bytes-tiny", "norm_place": "post"})") == "");
  CHECK(of(R"({"preset": "gpt-bytes-tiny", "experts": 4, "active_experts": 2})") == "");
  CHECK(of(R"({"preset": "gpt-bytes-tiny", "experts": 4, "active_experts": 2, "bias": ["qkv", "proj"]})") == "");
  CHECK(of(R"({"preset": "gpt-bytes-tiny", "causal": false})") == "");
  // What fused attention without kept probabilities alone computes.
  for (const char* part : {R"("window": 8)", R"("attention_softcap": 2)", R"("attention_sinks": true)",
                           R"("position": "alibi")", R"("layers_of": [{"every": 2, "window": 8}])"}) {
    const std::string model = fmt::format(R"({{"preset": "llama-bytes-tiny", {}}})", part);
    INFO(model);
    CHECK_THAT(of(model), Contains("need attention flash"));
    CHECK_FALSE(
        strategies::why_not(point_of(R"({"seq": 64, "attention": "flash", "dropout": 0, "model": )" + model + "}")));
  }
  CHECK_THAT(of(R"({"preset": "llama-bytes-tiny", "branches": "parallel", "norm_place": "sandwich"})"),
             Contains("branches parallel with norm_place sandwich"));
  CHECK_THAT(of(R"({"preset": "mixtral-bytes-tiny", "branches": "parallel"})"),
             Contains("branches parallel with experts"));
  CHECK_THAT(of(R"({"preset": "bert-bytes-tiny", "causal": true})"), Contains("causal true with masked words"));
  CHECK(of(R"("nemotron-3-super-120b-a12b")") == "");
  CHECK(of(R"("qwen3-next-80b-a3b")") == "");
  CHECK_THAT(of(R"({"preset": "mamba2-130m", "causal": false})"), Contains("causal false with state mixers"));
  CHECK_THAT(of(R"({"preset": "nemotron-h-8b", "branches": "parallel"})"), Contains("with state mixers"));
  CHECK(of(R"("falcon-mamba-7b")") == "");
  const std::string conv = R"({"preset": "llama-bytes-tiny", "mixer": "short_conv"})";
  CHECK(of(conv) == "");
  CHECK_THAT(why(R"("cp": 2, "model": )" + conv), Contains("cp 2 with mixer short_conv") && Contains("need cp 1"));
  CHECK_THAT(why(R"("document_lengths": 9, "model": )" + conv), Contains("with state mixers"));
  const std::string lightning = R"({"preset": "llama-bytes-tiny", "mixer": "lightning")";
  CHECK(of(lightning + "}") == "");
  CHECK_THAT(of(lightning + R"(, "mtp_layers": 1})"), Contains("behind lightning attention"));
  CHECK_THAT(of(R"({"preset": "llama-bytes-tiny", "branches": "parallel_mixers"})"),
             Contains("a layer without a state mixer"));
  CHECK_THAT(of(R"({"preset": "llama-bytes-tiny", "bias": true, "multipliers": {"attention": 2}})"),
             Contains("with biases"));
  CHECK_THAT(of(R"({"preset": "llama-bytes-tiny", "activation": "silu", "multipliers": {"gates": 2}})"),
             Contains("of gates"));
  CHECK_THAT(of(R"({"preset": "llama-bytes-tiny", "layers_of": [{"every": 2, "norm_place": "post"}]})"),
             Contains("post of some layers"));
  CHECK(why(R"("model": "mamba-130m", "tp": 64)") == "");
  const auto cut = strategies::why_not(point_of(R"({"seq": 64, "model": "mamba-130m", "tp": 128})"));
  CHECK_THAT(cut.value().reason, Contains("tp 128 does not divide") && Contains("need tp 64"));
  CHECK_THAT(why(R"("model": "mamba-130m", "cp": 2)"), Contains("cp 2 with mixer mamba") && Contains("need cp 1"));
  CHECK_THAT(why(R"("model": "mamba-130m", "document_lengths": 9)"), Contains("with state mixers"));
  const auto laid = [](const std::string& fields) {
    const auto refusal = strategies::why_not(point_of(R"({"seq": 64, "model": "nemotron-h-8b", )" + fields + "}"));
    return refusal ? refusal->reason : "";
  };
  CHECK(laid(R"("tp": 8)") == "");
  CHECK_THAT(laid(R"("tp": 16)"), Contains("tp 16 does not divide the 8 groups of state mixers"));
  CHECK(laid(R"("cp": 2, "attention": "flash")") == "");
  CHECK(laid(R"("cp": 16, "attention": "flash", "seq": 128)") == "");
  CHECK_THAT(laid(R"("cp": 3, "attention": "flash", "seq": 96)"),
             Contains("cp 3 does not divide the 128 heads of state"));
  CHECK_THAT(laid(R"("cp": 32, "tp": 8, "attention": "flash", "seq": 128)"), Contains("cp 32 does not divide the 16"));
  CHECK_THAT(laid(R"("recompute": "alternate_products")"), Contains("state mixers or a hybrid_pattern"));
  CHECK(of(R"({"preset": "gpt-bytes-tiny", "bias": false, "tied_embedding": false})") == "");
}
