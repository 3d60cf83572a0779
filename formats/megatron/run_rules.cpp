// What several flags of Megatron-LM say of the run together.
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/json_reader.h"
#include "engine/point/pipeline_layout.h"
#include "formats/megatron/expert_rules.h"
#include "formats/table/rules.h"

namespace mbench::formats {
namespace {

// One at each end unless counts are given; without the flag counts mean nothing.
void read_layers_in_bf16(Reading& r) {
  const bool some = r.flag("--first-last-layers-bf16");
  const json first = r.value("--num-layers-at-start-in-bf16", 1), last = r.value("--num-layers-at-end-in-bf16", 1);
  if (!some) return;
  r.set("precision.first_layers_in_bf16", first);
  r.set("precision.last_layers_in_bf16", last);
}
void read_fp4(Reading& r) {
  read_layers_in_bf16(r);
  const json format = r.value("--fp4-format"), recipe = r.value("--fp4-recipe", "nvfp4");
  const bool weights = r.flag("--fp4-param-gather") || r.flag("--fp4-param");
  if (format.is_null() || format == json(false)) return;
  if (*r.get("precision.preset") == "fp8") return r.lack("--fp4-format", "FP8 and FP4 together");
  if (format != "e2m1" || recipe != "nvfp4")
    return r.lack(format != "e2m1" ? "--fp4-format" : "--fp4-recipe", "another format of 4 bits");
  if (weights)
    r.lack(r.flag("--fp4-param-gather") ? "--fp4-param-gather" : "--fp4-param", "weights that live in NVFP4 only");
  r.set("precision.preset", "nvfp4");
}
void read_precision(Reading& r) {
  const bool bf16 = r.flag("--bf16"), fp16 = r.flag("--fp16"),
             weights = r.flag("--fp8-param-gather") || r.flag("--fp8-param");
  const json fp8 = r.value("--fp8-format"), recipe = r.value("--fp8-recipe", "delayed");
  r.set("precision.preset", !fp8.is_null() && fp8 != json(false) ? "fp8" : bf16 ? "bf16" : fp16 ? "fp16" : "f32");
  if (*r.get("precision.preset") == "fp8") {
    if (recipe != "tensorwise" && recipe != "delayed" && recipe != "blockwise" && recipe != "mxfp8")
      r.lack("--fp8-recipe", "another recipe");
    else
      r.set("precision.fp8_recipe", recipe);
    const bool reuses = r.flag("--reuse-grad-buf-for-mxfp8-param-ag");
    if (weights && recipe == "mxfp8" && !reuses)
      r.lack(r.flag("--fp8-param-gather") ? "--fp8-param-gather" : "--fp8-param",
             "weights in MXFP8 only, without --reuse-grad-buf-for-mxfp8-param-ag");
    else
      r.set("precision.fp8_parameters", weights);
  }
  read_fp4(r);
  if (r.flag("--grad-reduce-in-bf16")) r.set("precision.gradients", "bf16");
  if (fp16 && r.flag("--accumulate-allreduce-grads-in-fp32")) r.set("precision.gradients", "f32");
  const json first = r.value("--exp-avg-dtype", "fp32"), second = r.value("--exp-avg-sq-dtype", "fp32");
  if (first != second || (first != "fp32" && first != "bf16"))
    r.lack(first == "fp32" ? "--exp-avg-sq-dtype" : "--exp-avg-dtype", "moments of other types");
  if (first == "bf16") r.set("precision.moments", "bf16");
}
void write_precision(Writing& w) {
  const json precision = w.at("precision.preset"), gradients = w.at("precision.gradients");
  if (precision == "bf16" || precision == "fp8" || precision == "nvfp4") w.put("--bf16", true);
  if (precision == "nvfp4") {
    w.put("--fp4-format", "e2m1");
    w.put("--fp4-recipe", "nvfp4");
  }
  if (precision == "fp16") w.put("--fp16", true);
  if (precision == "fp8") {
    const json recipe = w.at("precision.fp8_recipe");
    if (recipe == "rowwise") return w.cannot("precision.fp8_recipe");
    w.put("--fp8-format", recipe == "blockwise" || recipe == "mxfp8" ? "e4m3" : "hybrid");
    w.put("--fp8-recipe", recipe);
    if (w.at("precision.fp8_parameters") == true) {
      w.put("--fp8-param-gather", true);
      if (recipe == "mxfp8") w.put("--reuse-grad-buf-for-mxfp8-param-ag", true);
    }
  }
  const json first = w.at("precision.first_layers_in_bf16"), last = w.at("precision.last_layers_in_bf16");
  if (first != 0 || last != 0) {
    w.put("--first-last-layers-bf16", true);
    w.put("--num-layers-at-start-in-bf16", first);
    w.put("--num-layers-at-end-in-bf16", last);
  }
  if (gradients == "bf16") w.put("--grad-reduce-in-bf16", true);
  if (precision == "fp16" && gradients == "f32") w.put("--accumulate-allreduce-grads-in-fp32", true);
  if (w.at("precision.moments") != "bf16") return;
  w.put("--use-precision-aware-optimizer", true);
  w.put("--exp-avg-dtype", "bf16");
  w.put("--exp-avg-sq-dtype", "bf16");
}

constexpr std::pair<const char*, const char*> kCapturedParts[] = {{"attn", "attention"},
                                                                  {"mlp", "mlp"},
                                                                  {"moe", "moe"},
                                                                  {"moe_router", "moe_router"},
                                                                  {"moe_preprocess", "moe_preprocess"}};

// Whole steps as one CUDA graph, or a graph for parts of each layer. Without parts, or with the former "full", it is of whole layers.
void read_capture(Reading& r) {
  const bool local = r.flag("--enable-cuda-graph"), external = r.flag("--external-cuda-graph");
  const json way = r.value("--cuda-graph-impl", local      ? "local"
                                                : external ? "transformer_engine"
                                                           : "none"),
             former = r.value("--cuda-graph-scope"), now = r.value("--cuda-graph-modules");
  const std::string key = now.is_null() ? "--cuda-graph-scope" : "--cuda-graph-modules";
  const json scope = now.is_null() ? former : now;
  if (way == "none") return;
  if (way == "full_iteration") return r.set("capture", true);
  if (way != "local" && way != "transformer_engine") return r.lack("--cuda-graph-impl", "other CUDA graphs");
  const json parts = scope.is_null() ? json::array() : scope.is_array() ? scope : json::array({scope});
  if (parts == json::array({"full_iteration"})) return r.set("capture", true);
  if (parts.empty() || parts == json::array({"full"})) return r.set("capture", "layer");
  std::vector<std::string> captured;
  for (const json& part : parts) {
    const auto found = std::find_if(std::begin(kCapturedParts), std::end(kCapturedParts),
                                    [&](const auto& each) { return part == each.first; });
    if (found == std::end(kCapturedParts))
      return r.lack(key, fmt::format("CUDA graphs of {}", short_json(part)), parts);
    captured.emplace_back(found->second);
  }
  r.set("capture", fmt::format("{}", fmt::join(captured, "+")));
}
void write_capture(Writing& w) {
  const json capture = w.at("capture");
  if (capture == false) return;
  if (capture == true) {
    w.put("--cuda-graph-impl", "local");
    w.put("--cuda-graph-scope", "full_iteration");
    return;
  }
  w.put("--cuda-graph-impl", "transformer_engine");
  w.put("--te-rng-tracker", true);
  if (capture == "layer") return w.put("--cuda-graph-scope", "full");
  const std::string text = "+" + capture.get<std::string>() + "+";
  json scope = json::array();
  for (const auto& [theirs, ours] : kCapturedParts)
    if (text.find(fmt::format("+{}+", ours)) != std::string::npos) scope.push_back(theirs);
  w.put("--cuda-graph-scope", scope);
}

// Parts of layers, or whole ones by Transformer Engine, of which a process takes the first of the model.
void read_activation_offload(Reading& r) {
  const json fraction = r.value("--activation-offload-fraction", 1),
             delta = r.value("--delta-offload-bytes-across-pp-ranks", 0),
             names = r.value("--offload-modules", json::array()),
             least = r.value("--min-offloaded-tensor-size", 1 << 20),
             layers = r.value("--cpu-offloading-num-layers", 0);
  const bool fine = r.flag("--fine-grained-activation-offloading");
  for (const char* key : {"--delay-offload-until-cuda-graph", "--fine-grained-offloading-max-inflight-offloads"})
    r.ignore(key);
  if (layers.is_number_integer() && layers > 0 && !fine)
    return r.set("offload_activations", fmt::format("layers:{}", layers.get<std::int64_t>()));
  if (!fine) return;
  if (fraction != 1) return r.lack("--activation-offload-fraction", "a part of the groups of activations", 1);
  if (delta != 0) return r.lack("--delta-offload-bytes-across-pp-ranks", "stages that offload less", 0);
  const json parts = names.is_array() ? names : json::array({names});
  std::string joined;
  for (const json& part : parts) {
    if (!part.is_string() || part == "fused_group_mlp" || part == "gdp_qkv")
      return r.lack("--offload-modules", fmt::format("activations of {} in host memory", short_json(part)), parts);
    joined += (joined.empty() ? "" : "+") + part.get<std::string>();
  }
  if (joined.empty()) return r.lack("--offload-modules", "no activations in host memory", parts);
  r.set("offload_activations", joined);
  r.set("min_offloaded_tensor_size", least);
}
void write_activation_offload(Writing& w) {
  const std::string what = w.at("offload_activations").get<std::string>();
  if (what == "none") return;
  const json least = w.at("min_offloaded_tensor_size");
  if (what.starts_with("layers:")) {
    if (w.number("pp") > 1) return w.cannot("offload_activations", "whole layers take one stage");
    if (w.at("recompute") != "none") return w.cannot("offload_activations", "whole layers take recompute none");
    if (least != 0) return w.cannot("min_offloaded_tensor_size", "of whole layers");
    return w.put("--cpu-offloading-num-layers", std::stoll(what.substr(what.find(':') + 1)));
  }
  json parts = json::array();
  for (std::size_t begin = 0; begin <= what.size();) {
    const std::size_t end = std::min(what.find('+', begin), what.size());
    parts.push_back(what.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto has = [&](const char* part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); };
  if (has("attn_proj") && !has("core_attn"))
    return w.cannot("offload_activations", "attn_proj takes core_attn with it, which keeps the same tensor");
  w.put("--fine-grained-activation-offloading", true);
  w.put("--offload-modules", parts);
  w.put("--min-offloaded-tensor-size", least);
}

// Which kernels.
void read_attention(Reading& r) {
  const json backend = r.value("--attention-backend");
  const bool flash = r.flag("--use-flash-attn"), local = r.value("--transformer-impl") == "local";
  if (!backend.is_null() && backend != "auto" && backend != "flash" && backend != "fused" && backend != "unfused" &&
      backend != "local")
    r.lack("--attention-backend", "another backend");
  const bool core =
      backend == "unfused" || backend == "local" || ((backend.is_null() || backend == "auto") && local && !flash);
  r.set("attention", core ? "core" : "flash");
  // "auto" and "fused" are cuDNN's on Hopper and later. Which FlashAttention is installed no flag says.
  if (backend == "flash" || (!core && flash)) r.set("framework.attention_kernels", "flash_attention_2");
}
void write_attention(Writing& w) {
  const bool core = w.at("attention") == "core", cudnn = w.at("framework.attention_kernels") == "cudnn";
  const char* cudnns = w.at("framework.transformer_engine") == true ? "auto" : "fused";
  w.put("--attention-backend", core ? "unfused" : cudnn ? cudnns : "flash");
}

void read_cross_entropy(Reading& r) {
  const bool fused = r.flag("--cross-entropy-loss-fusion");
  const json how = r.value("--cross-entropy-fusion-impl", "native");
  if (how != "native" && how != "te") r.lack("--cross-entropy-fusion-impl", "another fusion");
  r.set("framework.cross_entropy_fusion", fused ? how : json("none"));
}
void write_cross_entropy(Writing& w) {
  const json how = w.at("framework.cross_entropy_fusion");
  if (how != "te" && how != "native" && how != "none") return w.cannot("framework.cross_entropy_fusion");
  if (how == "none") return;
  w.put("--cross-entropy-loss-fusion", true);
  w.put("--cross-entropy-fusion-impl", how);
}

constexpr std::pair<const char*, const char*> kRegions[] = {
    {"core_attn", "core_attention"}, {"mla_up_proj", "mla_up_proj"}, {"mlp", "mlp"}, {"moe", "moe"},
    {"moe_act", "moe_act"},          {"layernorm", "norm"}};

void read_recompute(Reading& r) {
  const bool activations = r.flag("--recompute-activations") || r.flag("--checkpoint-activations");
  const json granularity = r.value("--recompute-granularity", activations ? json("selective") : json()),
             method = r.value("--recompute-method"), layers = r.value("--recompute-num-layers"),
             modules = r.value("--recompute-modules", "core_attn");
  if (granularity.is_null()) return r.set("recompute", "none");
  if (granularity == "full") {
    r.set("recompute", "full");
    if (method == "block") return r.set("recompute_layers", layers.is_null() ? json(1) : layers);
    if (!layers.is_null() && layers != 1) r.lack("--recompute-num-layers", "layers that are made again together");
    return;
  }
  if (granularity != "selective") return r.lack("--recompute-granularity", "another granularity");
  std::vector<std::string> regions;
  for (const json& module : modules.is_array() ? modules : json::array({modules})) {
    const auto found =
        std::find_if(std::begin(kRegions), std::end(kRegions), [&](const auto& each) { return module == each.first; });
    if (found == std::end(kRegions))
      return r.lack("--recompute-modules", fmt::format("{} made again", short_json(module)), modules);
    regions.push_back(found->second);
  }
  r.set("recompute", fmt::format("{}", fmt::join(regions, "+")));
}
void write_recompute(Writing& w) {
  std::string text = w.at("recompute").get<std::string>();
  if (text == "none") return;
  if (text == "full") {
    w.put("--recompute-granularity", "full");
    const double some = w.number("recompute_layers");
    w.put("--recompute-method", some > 0 ? "block" : "uniform");
    w.put("--recompute-num-layers", some > 0 ? w.at("recompute_layers") : json(1));
    return;
  }
  w.put("--recompute-granularity", "selective");
  if (text == "selective") text = "core_attention";
  json modules = json::array();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string region = text.substr(begin, end - begin);
    const auto found =
        std::find_if(std::begin(kRegions), std::end(kRegions), [&](const auto& each) { return region == each.second; });
    if (found == std::end(kRegions)) return w.cannot("recompute");
    modules.push_back(found->first);
    begin = end + 1;
  }
  w.put("--recompute-modules", modules);
}

// Chunks of a stage by their number, or by the layers of each.
std::int64_t chunks_of(Reading& r, std::int64_t layers, std::int64_t stages) {
  if (r.value("--num-layers-per-virtual-pipeline-stage").is_null())
    return r.value("--num-virtual-stages-per-pipeline-rank").is_null()
               ? 1
               : r.whole("--num-virtual-stages-per-pipeline-rank", 16384);
  const std::int64_t chunk = stages * r.whole("--num-layers-per-virtual-pipeline-stage", 16384);
  if (layers % chunk != 0)
    fail(ErrorKind::bad_input, r.file(), "{} layers on {} stages are no whole number of chunks, got {}", layers, stages,
         r.quoted("--num-layers-per-virtual-pipeline-stage"));
  return layers / chunk;
}

constexpr const char *kLayout = "--pipeline-model-parallel-layout",
                     *kEmbedding = "--account-for-embedding-in-pipeline-split",
                     *kLoss = "--account-for-loss-in-pipeline-split";

// As cut by hand, which says how many chunks a stage has. The number of these.
std::int64_t read_layout(Reading& r, std::int64_t stages) {
  const std::string where = r.find(kLayout)->where, text = pipeline_layout_values().read(r.value(kLayout), where);
  const auto count = static_cast<std::int64_t>(parse_pipeline_layout(text, where).size());
  for (const char* other : {kEmbedding, kLoss})
    if (r.flag(other)) fail(ErrorKind::bad_input, where, "{} with {}, got both, need one of them", kLayout, other);
  const json said = r.value("--num-virtual-stages-per-pipeline-rank");
  if (count % stages != 0 || (!said.is_null() && said != count / stages))
    fail(ErrorKind::bad_input, where, "{} of {} stages on {} ranks{}, need a multiple of the ranks", kLayout, count,
         stages, said.is_null() ? "" : fmt::format(" with {}", r.quoted("--num-virtual-stages-per-pipeline-rank")));
  r.set("pipeline_layout", text);
  return count / stages;
}

// The embedding, the head or both count as a layer, and stages come out even (Megatron-Core: get_num_layers_to_build). With both it is
// what mbench makes of them; with one it is a layout.
void count_ends(Reading& r, std::int64_t layers, std::int64_t all) {
  const bool embedding = r.flag(kEmbedding), loss = r.flag(kLoss);
  if (!embedding && !loss) return;
  const std::int64_t parts = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (parts % all != 0)
    fail(ErrorKind::bad_input, r.file(), "{} layers and {} are no multiple of the {} stages, got {}", layers,
         embedding && loss ? "both ends" : "an end", all, r.quoted(embedding ? kEmbedding : kLoss));
  if (embedding && loss) return;
  PipelineLayout layout(static_cast<std::size_t>(all));
  for (StageParts& stage : layout) stage.layers = parts / all;
  (embedding ? layout.front() : layout.back()).layers -= 1;
  layout.front().embedding = layout.back().loss = true;
  const auto depths = r.get("model.mtp_layers");
  layout.back().depths = depths && depths->is_number() ? depths->get<std::int64_t>() : 0;
  if (all > 1) r.set("pipeline_layout", str(layout));
}

void read_pipeline(Reading& r) {
  const std::int64_t layers = r.whole("--num-layers", 16384), stages = r.whole("--pipeline-model-parallel-size", 32768);
  const bool by_hand = !r.value(kLayout).is_null();
  const std::int64_t count = by_hand ? read_layout(r, stages) : chunks_of(r, layers, stages);
  if (!by_hand) count_ends(r, layers, stages * count);
  r.set("schedule", count > 1 ? "interleaved" : "1f1b");
  r.set("virtual_stages", count);
}
void write_pipeline(Writing& w) {
  const auto layers = static_cast<std::int64_t>(w.number("model.layers")),
             chunks = static_cast<std::int64_t>(w.number("virtual_stages")),
             stages = static_cast<std::int64_t>(w.number("pp"));
  if (const json schedule = w.at("schedule"); schedule != "interleaved" && schedule != "1f1b") w.cannot("schedule");
  if (const json layout = w.at("pipeline_layout"); layout.is_string() && layout != "") return w.put(kLayout, layout);
  if (chunks > 1) w.put("--num-virtual-stages-per-pipeline-rank", chunks);
  const std::int64_t all = chunks * stages;
  if (layers % all == 0 || w.number("first_stage_layers") > 0 || w.number("last_stage_layers") > 0) return;
  if ((layers + 2) % all != 0) {
    PipelineLayout layout = even_layout(layers, 0, all);
    layout.back().depths = static_cast<std::int64_t>(w.number("model.mtp_layers"));
    return w.cannot(
        "pp", fmt::format("{} layers and both ends are no multiple of the {} stages, need pipeline_layout {}", layers,
                          all, str(layout)));
  }
  w.put(kEmbedding, true);
  w.put(kLoss, true);
}

// The distributed optimizer, whose weights are fetched; without it nothing is.
void read_state(Reading& r) {
  const bool sharded = r.flag("--use-distributed-optimizer"), fetched = r.flag("--overlap-param-gather");
  r.set("zero", sharded ? 1 : 0);
  if (sharded) r.set("overlap_param_gather", fetched);
  // Only the precision-aware optimizer leaves the f32 main weights to the one that is offloaded. Else the device has them too.
  const bool sixteen = r.flag("--bf16") || r.flag("--fp16"), precise = r.flag("--use-precision-aware-optimizer");
  const double share = r.number("--optimizer-offload-fraction", 1);
  const bool offloaded = r.flag("--optimizer-cpu-offload") && share > 0;
  r.set("offload", !offloaded ? "none" : sixteen && !precise ? "moments" : "optimizer");
  if (offloaded && share != 1) r.set("offload_fraction", share);
}
void write_offload(Writing& w, bool sharded) {
  const json what = w.at("offload");
  if (what == "none") return;
  if (what != "optimizer" && what != "moments") return w.cannot("offload");
  const bool precise = w.at("precision.moments") == "bf16";  // whose flag is written
  if (what == "moments" && precise)
    return w.cannot("offload", "with moments in bf16 the device keeps no f32 main weights");
  if (what == "optimizer" && !sharded) return w.cannot("offload", "that takes the distributed optimizer, zero 1");
  w.put("--optimizer-cpu-offload", true);
  w.put("--optimizer-offload-fraction", w.at("offload_fraction"));
  if (what == "optimizer" && !precise) w.put("--use-precision-aware-optimizer", true);
}
void write_state(Writing& w) {
  const json zero = w.at("zero");
  if (zero != 0 && zero != 1) w.cannot("zero");
  if (zero == 1) w.put("--use-distributed-optimizer", true);
  if (zero == 1 && w.at("overlap_param_gather") == true) w.put("--overlap-param-gather", true);
  write_offload(w, zero == 1);
}

// Data-parallel ranks are what is left of those that start. "ranks" is how many the launcher starts.
void read_ranks(Reading& r) {
  const json ranks = r.value("ranks");
  const std::int64_t one = r.whole("--tensor-model-parallel-size", 32768) *
                           r.whole("--pipeline-model-parallel-size", 32768) * r.whole("--context-parallel-size", 32768);
  std::int64_t dp = 1;
  if (ranks.is_null()) {
    r.note("how many ranks start is not said: dp 1, or --set dp=N");
  } else {
    const std::int64_t world = r.whole("ranks", std::int64_t{1} << 48);
    if (world % one != 0)
      fail(ErrorKind::bad_input, r.file(),
           "{} ranks start, need a multiple of tp x pp x cp, which is {}: mbench import ... --var NAME=VALUE sets the "
           "variable that has the nodes",
           world, one);
    dp = world / one;
  }
  r.set("dp", dp);
  const json samples = r.value("--global-batch-size");
  r.set("global_batch", samples.is_null() ? json(r.whole("--micro-batch-size", 1 << 20) * dp) : samples);
}
void write_ranks(Writing& w) {
  w.put("ranks", static_cast<std::int64_t>(w.number("tp") * w.number("pp") * w.number("cp") * w.number("dp")));
  w.put("--global-batch-size", w.at("global_batch"));
}

}  // namespace

const std::vector<Rule>& megatron_run_rules() {
  static const std::vector<Rule> rules = {
      {"megatron_precision", read_precision, write_precision},
      {"megatron_capture", read_capture, write_capture},
      {"megatron_activation_offload", read_activation_offload, write_activation_offload},
      {"megatron_attention", read_attention, write_attention},
      {"megatron_cross_entropy", read_cross_entropy, write_cross_entropy},
      {"megatron_recompute", read_recompute, write_recompute},
      {"megatron_pipeline", read_pipeline, write_pipeline},
      {"megatron_state", read_state, write_state},
      expert_ranks_rule(),
      {"megatron_ranks", read_ranks, write_ranks}};
  return rules;
}

}  // namespace mbench::formats
