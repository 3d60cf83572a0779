// What one key of a torchtitan TOML cannot say alone.
#include "formats/table/rules.h"

#include "engine/base/json_reader.h"
#include "engine/point/model_spec.h"
#include "engine/point/pipeline_layout.h"
#include "formats/torchtitan/torchtitan.h"

namespace mbench::formats {
namespace {

// A flavor is a preset; another one comes from a config.json beside.
void read_flavor(Reading& r) {
  const json name = r.value("model.name", "llama3"), flavor = r.value("model.flavor", "debugmodel");
  const std::string both = fmt::format("{}/{}", name.is_string() ? name.get<std::string>() : name.dump(),
                                       flavor.is_string() ? flavor.get<std::string>() : flavor.dump());
  const std::string_view preset = preset_of_flavor(both);
  if (preset.empty())
    return r.note(
        fmt::format("the flavor {} is none of mbench's presets: its sizes come from a config.json next to it", both));
  const ModelSpec& model = find_preset(std::string(preset), "model");
  r.set("model.preset", preset);
  if (const json seq = r.value("training.seq_len"); seq.is_number() && seq > model.positions)
    r.set("model.positions", seq);
}
void write_flavor(Writing& w) {
  const std::string_view both = flavor_of(w.at("model"));
  if (both.empty()) return w.cannot("model.layers", "the model is no flavor of torchtitan that is a preset of mbench");
  w.put("model.name", both.substr(0, both.find('/')));
  w.put("model.flavor", both.substr(both.find('/') + 1));
}

// What -1 shards are where the devices are known: what the other degrees leave of them.
std::optional<std::int64_t> rest_of_devices(Reading& r, const json& copies) {
  std::int64_t others = copies.is_number_integer() ? copies.get<std::int64_t>() : 1;
  for (const char* degree : {"parallelism.tensor_parallel_degree", "parallelism.pipeline_parallel_degree",
                             "parallelism.context_parallel_degree"})
    others *= r.whole(degree, 32768);
  if (r.devices <= 0 || others <= 0 || r.devices % others != 0) return std::nullopt;
  return r.devices / others;
}

// FSDP within the sharded ranks, copies between them; without sharding DDP. -1 is what is left of the devices, which no file says.
void read_data_ranks(Reading& r) {
  const json all = r.value("training.data_parallel_degree", -1);
  json shards = r.value("parallelism.data_parallel_shard_degree", r.value("training.data_parallel_shard_degree", all));
  const json copies =
      r.value("parallelism.data_parallel_replicate_degree", r.value("training.data_parallel_replicate_degree", 1));
  const json reshard = r.value("parallelism.fsdp_reshard_after_forward", "default"),
             local = r.value("training.local_batch_size", r.value("training.batch_size", 8)),
             global = r.value("training.global_batch_size", -1);
  if (reshard == "never") r.lack("parallelism.fsdp_reshard_after_forward", "weights that stay gathered");
  const bool open = shards == -1;
  if (const auto rest = open ? rest_of_devices(r, copies) : std::nullopt) {
    r.note(fmt::format("data_parallel_shard_degree -1 is {}: what the other degrees leave of {} devices", *rest,
                       r.devices));
    shards = *rest;
  } else if (open) {
    r.note(
        "how many devices share the state is not said (data_parallel_shard_degree -1): one, or --set dp=N --set "
        "global_batch=N");
    shards = 1;
  }
  const std::pair<const char*, const json&> counts[] = {
      {"data_parallel_shard_degree", shards}, {"data_parallel_replicate_degree", copies}, {"local_batch_size", local}};
  for (const auto& [key, each] : counts)
    if (!each.is_number_integer() || each < 1 || each > 1 << 20)
      fail(ErrorKind::bad_input, r.file(), "{}: got {}, need a whole number from 1", key, short_json(each));
  const std::int64_t dp = shards.get<std::int64_t>() * copies.get<std::int64_t>(),
                     cp = r.whole("parallelism.context_parallel_degree", 32768);
  r.set("dp", dp);
  r.set("zero", open || shards > 1 || cp > 1 ? json("fsdp") : json(0));
  if (shards > 1 && copies > 1) r.set("optimizer_instances", copies);
  const bool staged = r.value("parallelism.pipeline_parallel_degree") != 1;
  r.set("micro_batch", staged ? r.value("parallelism.pipeline_parallel_microbatch_size", 1) : local);
  r.set("global_batch", global == -1 ? json(local.get<std::int64_t>() * dp) : global);
}
void write_data_ranks(Writing& w) {
  const double dp = w.number("dp"), copies = w.number("optimizer_instances");
  const bool sharded = w.at("zero") == "fsdp";
  if (!sharded && w.at("zero") != 0) w.cannot("zero");
  w.put("parallelism.data_parallel_shard_degree", static_cast<std::int64_t>(sharded ? dp / copies : 1));
  w.put("parallelism.data_parallel_replicate_degree", static_cast<std::int64_t>(sharded ? copies : dp));
  w.put("training.local_batch_size",
        w.number("pp") > 1 ? json(static_cast<std::int64_t>(w.number("global_batch") / dp)) : w.at("micro_batch"));
  if (w.number("pp") > 1) w.put("parallelism.pipeline_parallel_microbatch_size", w.at("micro_batch"));
  w.put("training.global_batch_size", w.at("global_batch"));
}

void read_float8(Reading& r) {
  bool eight = r.flag("float8.enable_float8_linear"), mx = false;
  const json converters = r.value("model.converters", json::array());
  for (const json& each : converters.is_array() ? converters : json::array({converters})) {
    if (each == "float8" || each == "quantize.linear.float8") eight = true;
    if (each == "mx" || each == "quantize.linear.mx") mx = true;
  }
  const json recipe = r.value("float8.recipe_name", r.value("quantize.linear.float8.recipe_name"));
  const bool gathered =
      r.flag("float8.enable_fsdp_float8_all_gather") || r.flag("quantize.linear.float8.enable_fsdp_float8_all_gather");
  r.set("precision.preset", eight || mx ? "fp8" : "bf16");
  if (mx) {
    const json recipe_of_mx = r.value("quantize.linear.mx.recipe_name", r.value("mx.recipe_name", "mxfp8_cublas"));
    if (eight) return r.lack("model.converters", "float8 and mx together");
    if (!recipe_of_mx.is_string() || !recipe_of_mx.get<std::string>().starts_with("mxfp8_cublas"))
      return r.lack("quantize.linear.mx.recipe_name", "another recipe");
    return r.set("precision.fp8_recipe", "mxfp8");
  }
  if (!eight) return;
  const bool rowwise = recipe == "rowwise";
  if (!rowwise && !recipe.is_null() && recipe != "" && recipe != "tensorwise")
    r.lack("float8.recipe_name", "another recipe");
  r.set("precision.fp8_recipe", rowwise ? "rowwise" : "tensorwise");
  r.set("precision.fp8_parameters", gathered && !rowwise);  // torchao gathers no rows in FP8
}
void write_float8(Writing& w) {
  const json precision = w.at("precision.preset");
  if (precision == "bf16") return;
  if (precision != "fp8") return w.cannot("precision.preset");
  const json recipe = w.at("precision.fp8_recipe");
  if (recipe != "tensorwise" && recipe != "rowwise" && recipe != "mxfp8") return w.cannot("precision.fp8_recipe");
  if (recipe == "mxfp8") return w.put("model.converters", json::array({"quantize.linear.mx"}));
  w.put("model.converters", json::array({"quantize.linear.float8"}));  // as of 0.2
  if (recipe == "rowwise") w.put("quantize.linear.float8.recipe_name", "rowwise");
  if (w.at("precision.fp8_parameters") == true) w.put("quantize.linear.float8.enable_fsdp_float8_all_gather", true);
}

void read_checkpointing(Reading& r) {
  const json mode = r.value("activation_checkpoint.mode", "selective"),
             option = r.value("activation_checkpoint.selective_ac_option", "2");
  if (mode == "none" || mode == "full") return r.set("recompute", mode);
  if (mode == "selective" && option == "op") return r.set("recompute", "alternate_products");
  if (mode == "selective")
    return r.lack("activation_checkpoint.selective_ac_option", "every so many layers made again", "2");
  r.lack("activation_checkpoint.mode", "another choice of what is kept");
}
void write_checkpointing(Writing& w) {
  const json what = w.at("recompute");
  if (what != "none" && what != "full" && what != "alternate_products") return w.cannot("recompute");
  w.put("activation_checkpoint.mode", what == "alternate_products" ? json("selective") : what);
  if (what == "alternate_products") w.put("activation_checkpoint.selective_ac_option", "op");
}

// The key of then is of the months before embedding and head were wrapped as units of their own: compile.enable came in August 2025, they in
// July (pull request 1094).
constexpr const char *kCompile = "compile.enable", *kCompileThen = "training.compile";

void read_compile(Reading& r) {
  const Item *now = r.find(kCompile), *then = r.find(kCompileThen);
  const char* key = now == nullptr && then != nullptr ? kCompileThen : kCompile;
  if (r.value(key, false) != true)
    r.lack(key, "ops one by one, where forecasts of torchtitan are of compiled layers", false);
  r.set("framework.fsdp_ends", key == kCompileThen ? "joined" : "separate");
}
void write_compile(Writing& w) {
  if (w.at("framework.compiled") != "layers") w.cannot("framework.compiled");
  w.put(w.at("framework.fsdp_ends") == "joined" ? kCompileThen : kCompile, true);
}

// The loss is compiled with the model, since February 2025.
void read_loss(Reading& r) {
  const json parts = r.value("compile.components", json::array({"model", "loss"}));
  bool compiled = false;
  for (const json& each : parts.is_array() ? parts : json::array({parts})) compiled = compiled || each == "loss";
  r.set("framework.cross_entropy_fusion", compiled ? "compiled" : "torch");
}
void write_loss(Writing& w) {
  const json how = w.at("framework.cross_entropy_fusion");
  if (how != "compiled" && how != "torch") return w.cannot("framework.cross_entropy_fusion");
  if (how == "torch") w.put("compile.components", json::array({"model"}));
}

constexpr std::pair<const char*, const char*> kSchedules[] = {{"1F1B", "1f1b"},
                                                              {"GPipe", "gpipe"},
                                                              {"Interleaved1F1B", "interleaved"},
                                                              {"ZBVZeroBubble", "zbv"},
                                                              {"DualPipeV", "dualpipev"}};

constexpr const char *kFirstLess = "parallelism.pipeline_parallel_first_stage_less_layers",
                     *kLastLess = "parallelism.pipeline_parallel_last_stage_less_layers",
                     *kEach = "parallelism.pipeline_parallel_layers_per_stage";

// The stages as pipeline_layout has them; empty where a point has them by itself, and nothing where a stage would have none. The embedding
// counts as `first` layers and the head as `last`; what is left over goes to the first stages (pipeline_parallel.py,
// _generate_llm_fqn_per_model_part).
std::optional<std::string> layout_of(std::int64_t layers, std::int64_t stages, std::int64_t first, std::int64_t last) {
  const std::int64_t all = layers + first + last, each = all / stages, more = all % stages;
  if (each == 0 || first > each || last > each) return std::nullopt;
  PipelineLayout layout(static_cast<std::size_t>(stages));
  bool even = true;
  for (std::int64_t i = 0; i < stages; ++i) {
    StageParts& parts = layout[static_cast<std::size_t>(i)];
    parts.layers = each + (i < more ? 1 : 0) - (i == 0 ? first : 0) - (i == stages - 1 ? last : 0);
    even = even && parts.layers * stages == layers;
  }
  layout.front().embedding = layout.back().loss = true;
  // Without a layout a point's ends count as a layer each where the layers alone do not come out even.
  const bool by_itself = layers % stages != 0 && (layers + 2) % stages == 0 && layout == even_layout(layers, 0, stages);
  return even || by_itself ? "" : str(layout);
}

std::int64_t less_layers(Reading& r, const char* key) {
  const json less = r.value(key, 1);
  if (less.is_number_integer() && less >= 0 && less <= 32768) return less.get<std::int64_t>();
  fail(ErrorKind::bad_input, r.file(), "{} {}, need layers from 0", key, less.dump());
}

// Which layers each stage has, and how many stages a rank. Layers of a flavor that is no preset are not known here.
void read_stages(Reading& r, std::int64_t ranks, bool several) {
  const std::int64_t first = less_layers(r, kFirstLess), last = less_layers(r, kLastLess);
  const json each = r.value(kEach);
  std::int64_t of_rank = several ? 2 : 1;
  const auto preset = r.get("model.preset");
  if (!preset) {
    if (!each.is_null()) r.lack(kEach, "stages by their layers, of a flavor that is no preset");
    r.note("the flavor's layers are not known here: stages are forecast with as many layers each");
  } else {
    const std::int64_t layers = find_preset(preset->get<std::string>(), "model").layers;
    if (!each.is_null()) {
      const std::int64_t wanted = r.whole(kEach, 32768), stages = (layers + first + last + wanted - 1) / wanted;
      if (stages % ranks != 0 || (stages / ranks > 1) != several)
        fail(ErrorKind::bad_input, r.file(), "{} {} makes {} stages of {} layers, need {} of each of {} ranks", kEach,
             wanted, stages, layers, several ? "two or more" : "one", ranks);
      of_rank = stages / ranks;
    }
    const auto layout = layout_of(layers, ranks * of_rank, first, last);
    if (!layout)
      return r.lack("parallelism.pipeline_parallel_degree",
                    fmt::format("{} stages of {} layers, some without a layer", ranks * of_rank, layers));
    if (!layout->empty()) r.set("pipeline_layout", *layout);
  }
  if (several) r.set("virtual_stages", of_rank);
}

void write_stages(Writing& w) {
  const auto layers = static_cast<std::int64_t>(w.number("model.layers")),
             pp = static_cast<std::int64_t>(w.number("pp"));
  const bool several = w.at("schedule") != "1f1b" && w.at("schedule") != "gpipe";
  const std::int64_t stages = pp * (several ? static_cast<std::int64_t>(w.number("virtual_stages")) : 1);
  const json wanted = w.at("pipeline_layout");
  for (const auto& [first, last] :
       {std::pair(1, 1), std::pair(0, 0), std::pair(0, 1), std::pair(1, 0), std::pair(2, 2)}) {
    const auto layout = layout_of(layers, stages, first, last);
    if (!layout || json(*layout) != wanted) continue;
    if (first != 1) w.put(kFirstLess, first);
    if (last != 1) w.put(kLastLess, last);
    return;
  }
  w.cannot("pipeline_layout", "torchtitan cuts stages evenly, with the ends as layers");
}

void read_schedule(Reading& r) {
  const json schedule =
      r.value("parallelism.pipeline_parallel_schedule", r.value("experimental.pipeline_parallel_schedule", "1F1B"));
  const std::int64_t stages = r.whole("parallelism.pipeline_parallel_degree", 32768);
  if (stages == 1) return;
  for (const auto& [theirs, ours] : kSchedules)
    if (schedule == theirs) r.set("schedule", ours);
  if (!r.get("schedule")) return r.lack("parallelism.pipeline_parallel_schedule", "another schedule");
  read_stages(r, stages, schedule != "1F1B" && schedule != "GPipe");
}
void write_schedule(Writing& w) {
  if (w.number("pp") == 1) return;
  for (const auto& [theirs, ours] : kSchedules)
    if (w.at("schedule") == ours) w.put("parallelism.pipeline_parallel_schedule", theirs);
  write_stages(w);
}

// Ranks of a sequence and of experts, and tensor parallelism, which is with sequence parallelism.
void read_tensor(Reading& r) {
  r.set("sequence_parallel", r.value("parallelism.tensor_parallel_degree") != 1);
  const json rotated = r.value("parallelism.context_parallel_rotate_method",
                               r.value("experimental.context_parallel_rotate_method", "allgather"));
  if (rotated != "allgather" && rotated != "alltoall")
    r.lack("parallelism.context_parallel_rotate_method", "another way");
  if (r.value("parallelism.context_parallel_degree") != 1)
    r.set("cp_communication", rotated == "alltoall" ? "ring" : "all_gather");
  const json ep = r.value("parallelism.expert_parallel_degree", 1),
             etp = r.value("parallelism.expert_tensor_parallel_degree", 1);
  if (ep != 1) r.set("ep", ep), r.set("etp", etp);
}
void write_tensor(Writing& w) {
  if (w.number("cp") > 1) {
    if (w.at("cp_communication") == "all_to_all") w.cannot("cp_communication");
    w.put("parallelism.context_parallel_rotate_method", w.at("cp_communication") == "ring" ? "alltoall" : "allgather");
  }
  if (w.number("ep") <= 1) return;
  w.put("parallelism.expert_parallel_degree", w.at("ep"));
  w.put("parallelism.expert_tensor_parallel_degree", w.number("etp") == 0 ? w.at("tp") : w.at("etp"));
}

}  // namespace

const std::vector<Rule>& torchtitan_rules() {
  static const std::vector<Rule> rules = {
      {"titan_model", read_flavor, write_flavor},        {"titan_data", read_data_ranks, write_data_ranks},
      {"titan_precision", read_float8, write_float8},    {"titan_recompute", read_checkpointing, write_checkpointing},
      {"titan_compile", read_compile, write_compile},    {"titan_loss", read_loss, write_loss},
      {"titan_pipeline", read_schedule, write_schedule}, {"titan_tensor", read_tensor, write_tensor}};
  return rules;
}

}  // namespace mbench::formats
