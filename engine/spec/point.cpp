#include "engine/spec/point.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/base/json_reader.h"
#include "engine/spec/point_builder.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr Choices<ScheduleKind, 3> kSchedules = {{{"gpipe", ScheduleKind::gpipe},
                                                  {"1f1b", ScheduleKind::one_f_one_b},
                                                  {"interleaved", ScheduleKind::interleaved}}};
constexpr Choices<Precision, 5> kPrecisions = {{{"f32", Precision::f32},
                                                {"tf32", Precision::tf32},
                                                {"bf16", Precision::bf16},
                                                {"fp16", Precision::fp16},
                                                {"fp8", Precision::fp8}}};
constexpr Choices<Fp8Recipe, 3> kFp8Recipes = {{{"tensorwise", Fp8Recipe::tensorwise},
                                                {"delayed", Fp8Recipe::delayed},
                                                {"blockwise", Fp8Recipe::blockwise}}};
constexpr Choices<OptimizerKind, 4> kOptimizers = {{{"adamw", OptimizerKind::adamw},
                                                    {"adamw8bit", OptimizerKind::adamw8bit},
                                                    {"adafactor", OptimizerKind::adafactor},
                                                    {"sgd", OptimizerKind::sgd}}};
constexpr Choices<AttentionKind, 2> kAttentions = {
    {{"core", AttentionKind::core}, {"flash", AttentionKind::flash}}};
constexpr Choices<CpCommunication, 3> kCpCommunications = {{{"all_gather", CpCommunication::all_gather},
                                                            {"ring", CpCommunication::ring},
                                                            {"all_to_all", CpCommunication::all_to_all}}};
constexpr Choices<TpGathers, 2> kTpGathers = {{{"block", TpGathers::block}, {"product", TpGathers::product}}};
constexpr Choices<EpCommunication, 3> kEpCommunications = {{{"all_to_all", EpCommunication::all_to_all},
                                                            {"all_gather", EpCommunication::all_gather},
                                                            {"flex", EpCommunication::flex}}};
constexpr Choices<Graph, 3> kGraphs = {{{"eager", Graph::eager},
                                        {"fused", Graph::fused},
                                        {"megatron_core", Graph::megatron_core}}};
constexpr Choices<CrossEntropyFusion, 5> kCrossEntropyFusions = {{{"none", CrossEntropyFusion::none},
                                                                  {"native", CrossEntropyFusion::native},
                                                                  {"te", CrossEntropyFusion::te},
                                                                  {"torch", CrossEntropyFusion::torch},
                                                                  {"torch_16bit", CrossEntropyFusion::torch_16bit}}};
constexpr Choices<Replicas, 2> kReplicas = {
    {{"ranks", Replicas::ranks}, {"single_process", Replicas::single_process}}};
constexpr Choices<Offload, 3> kOffloads = {
    {{"none", Offload::none}, {"optimizer", Offload::optimizer}, {"all", Offload::all}}};
// Optimizer state sharding, with sharded data parallelism too (FairScale), fully sharded (PyTorch). The others are numbers.
constexpr Choices<Zero, 3> kNamedZeros = {
    {{"oss", Zero::oss}, {"oss+sdp", Zero::oss_sdp}, {"fsdp", Zero::fsdp}}};

// Bounds that keep every product of sizes (world, parameters, FLOPs) inside 64 bits.
constexpr std::int64_t kMaxAxis = 32768;
constexpr std::int64_t kMaxCount = 16777216;

Zero read_zero(const json& value, const std::string& where) {
  if (value.is_string()) return read_choice(value, where, kNamedZeros);
  return static_cast<Zero>(read_int(value, where, 0, 3));
}

std::string read_data(const json& value, const std::string& where) {
  const std::string data = read_string(value, where);
  const auto names_file = [&](std::string_view scheme) { return data.starts_with(scheme) && data != scheme; };
  if (data != "synthetic" && !names_file("text:") && !names_file("tokens:"))
    fail(ErrorKind::bad_input, where, "no such data, got {}, need synthetic, text:FILE or tokens:FILE",
         short_json(value));
  return data;
}

std::string read_device(const json& value, const std::string& where) {
  const std::string device = read_string(value, where);
  const bool sim = device.starts_with("sim:");
  const std::size_t x = device.find('x', 4);
  const bool sized = sim && x != std::string::npos && x > 4 && x + 1 < device.size() &&
                     std::all_of(device.begin() + 4, device.begin() + static_cast<std::ptrdiff_t>(x),
                                 [](char c) { return c >= '0' && c <= '9'; });
  if (device != "cpu" && device != "cuda" && !sized)
    fail(ErrorKind::bad_input, where, "no such device, got {}, need cpu, cuda or sim:<N>x<MACHINE>",
         short_json(value));
  return device;
}

std::uint64_t read_memory_limit(const json& value, const std::string& where) {
  if (value.is_string()) return parse_bytes(value.get<std::string>(), where);
  if (!value.is_number())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need bytes or a size such as \"2GiB\"",
         short_json(value));
  return static_cast<std::uint64_t>(read_number(value, where, 0, 1e18));
}

std::map<std::string, std::string> read_env(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of names and texts",
         short_json(value));
  std::map<std::string, std::string> env;
  for (const auto& [name, text] : value.items()) {
    const std::string path = where + "." + name;
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos)
      fail(ErrorKind::bad_input, path, "no name for an environment variable, got \"{}\"", name);
    if (text.is_string() && text.get_ref<const std::string&>().find('\0') != std::string::npos)
      fail(ErrorKind::bad_input, path,
           "no value for an environment variable, got a U+0000 in {}, which ends it", short_json(text));
    if (!text.is_string() && !text.is_number())
      fail(ErrorKind::bad_input, path, "wrong type, got {}, need a string or a number", short_json(text));
    env[name] = text.is_string() ? text.get<std::string>() : text.dump();
  }
  return env;
}

std::map<std::string, double> read_machine(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of figures by their path",
         short_json(value));
  std::map<std::string, double> figures;
  for (const auto& [path, figure] : value.items())
    figures[path] = read_number(figure, where + "." + path, std::numeric_limits<double>::lowest());
  return figures;
}

// What a field may hold: readers, which refuse anything else at `where`.

// A reader and what it takes as a JSON Schema.
template <class F>
struct Described {
  F read;
  ordered_json schema;
};
template <class F>
Described(F, ordered_json) -> Described<F>;

ordered_json range_schema(const char* type, ordered_json low, ordered_json high) {
  return {{"type", type}, {"minimum", std::move(low)}, {"maximum", std::move(high)}};
}

template <class Enum, std::size_t N>
ordered_json names_schema(const Choices<Enum, N>& choices) {
  ordered_json names = ordered_json::array();
  for (const auto& [name, value] : choices) names.push_back(name);
  return {{"enum", std::move(names)}};
}

auto count(std::int64_t low, std::int64_t high) {
  return Described{[=](const json& value, const std::string& where) { return read_int(value, where, low, high); },
                   range_schema("integer", low, high)};
}

auto number(double low = 0, double high = std::numeric_limits<double>::max()) {
  return Described{[=](const json& value, const std::string& where) { return read_number(value, where, low, high); },
                   range_schema("number", low, high)};
}

auto flag() {
  return Described{read_bool, ordered_json{{"type", "boolean"}}};
}

// What any text may stand for as far as a schema can tell.
template <class F>
auto text(F read) {
  return Described{read, ordered_json{{"type", "string"}}};
}

template <class F>
auto matching(F read, const char* pattern) {
  return Described{read, ordered_json{{"type", "string"}, {"pattern", pattern}}};
}

template <class Enum, std::size_t N>
auto choice(const Choices<Enum, N>& choices) {
  return Described{
      [&choices](const json& value, const std::string& where) { return read_choice(value, where, choices); },
      names_schema(choices)};
}

ordered_json strategy_schema() {
  ordered_json names = ordered_json::array({""});
  for (const Bundle& b : bundles()) names.push_back(b.name);
  return {{"enum", names}};
}

ordered_json any_of(ordered_json a, ordered_json b) {
  return {{"anyOf", ordered_json::array({std::move(a), std::move(b)})}};
}

ordered_json object_of(ordered_json values) {
  return {{"type", "object"}, {"additionalProperties", std::move(values)}};
}

std::string read_strategy(const json& value, const std::string& where) {
  if (value.is_string() && value.get_ref<const std::string&>().empty())
    return "";  // as a point writes "none named"
  std::vector<std::string> names;
  for (const Bundle& b : bundles()) names.emplace_back(b.name);
  if (!value.is_string() || std::find(names.begin(), names.end(), value.get<std::string>()) == names.end())
    fail(ErrorKind::bad_input, where, "no such strategy, got {}, {}", short_json(value),
         nearest_choice(value.is_string() ? value.get<std::string>() : value.dump(), names));
  return value.get<std::string>();
}

template <class T>
ordered_json written(const T& value) {
  if constexpr (std::is_same_v<T, Zero>)
    return value <= Zero::stage_3 ? ordered_json(static_cast<int>(value)) : ordered_json(name_of(value));
  else if constexpr (std::is_enum_v<T>)
    return name_of(value);
  else if constexpr (std::is_same_v<T, ModelSpec>)
    return write_model(value);
  else if constexpr (std::is_same_v<T, RouterMode>)
    return str(value);
  else if constexpr (std::is_same_v<T, Recompute>)
    return name_of(value);
  else
    return value;
}

// One field of a point: what it is about, how it is read and written, and how a point is rid of it.
struct Field {
  PointField about;
  std::function<void(Point&, const json&, const std::string& where)> read;
  std::function<ordered_json(const Point&)> write;
  std::function<void(Point&)> reset;  // to the default
  ordered_json schema;                // of its values
};

template <class T, class F>
Field field(const char* key, FieldKind kind, T Point::*member, Described<F> values) {
  return {{key, kind, false},
          [=, reader = values.read](Point& p, const json& value, const std::string& where) {
            p.*member = reader(value, where);
          },
          [=](const Point& p) { return written(p.*member); },
          [=](Point& p) { p.*member = Point().*member; },
          std::move(values.schema)};
}

// One that every report tells, even where it is at its default.
Field told(Field field) {
  field.about.told = true;
  return field;
}

const std::vector<Field>& fields() {
  using enum FieldKind;
  using P = Point;
  static const std::vector<Field> table = {
      told(field("model", model, &P::model, Described{read_model, model_schema()})),
      told(field("seq", training, &P::seq, count(1, kMaxCount))),
      told(field("micro_batch", training, &P::micro_batch, count(1, 1 << 20))),
      told(field("global_batch", training, &P::global_batch, count(1, kMaxCount))),
      told(field("iterations", training, &P::iterations, count(1, kMaxCount))),
      told(field("warmup", training, &P::warmup, count(0, kMaxCount))),
      field("seed", training, &P::seed, Described{read_uint, ordered_json{{"type", "integer"}, {"minimum", 0}}}),
      field("dropout", training, &P::dropout, number(0, 0.999)),
      told(field("tp", layout, &P::tp, count(1, kMaxAxis))),
      told(field("pp", layout, &P::pp, count(1, kMaxAxis))),
      told(field("dp", layout, &P::dp, count(1, kMaxAxis))),
      field("cp", layout, &P::cp, count(1, kMaxAxis)),
      field("cp_communication", layout, &P::cp_communication, choice(kCpCommunications)),
      field("ep", layout, &P::ep, count(1, kMaxAxis)),
      field("etp", layout, &P::etp, count(0, kMaxAxis)),
      field("ep_communication", layout, &P::ep_communication, choice(kEpCommunications)),
      field("router", training, &P::router,
            matching([](const json& value, const std::string& where) { return read_router(read_string(value, where), where); },
                     "^(balanced|learned|capacity:.+)$")),
      field("replicas", layout, &P::replicas, choice(kReplicas)),
      field("sequence_parallel", layout, &P::sequence_parallel, flag()),
      field("vocab_parallel", layout, &P::vocab_parallel, flag()),
      field("tp_gathers", layout, &P::tp_gathers, choice(kTpGathers)),
      field("tp_comm_overlap", layout, &P::tp_comm_overlap, flag()),
      field("recompute", layout, &P::recompute, Described{read_recompute, recompute_schema()}),
      field("recompute_layers", layout, &P::recompute_layers, count(0, 16384)),
      field("strategy", layout, &P::strategy, Described{read_strategy, strategy_schema()}),
      field("schedule", layout, &P::schedule, choice(kSchedules)),
      field("virtual_stages", layout, &P::virtual_stages, count(1, 16384)),
      field("micro_batch_group", layout, &P::micro_batch_group, count(0, kMaxCount)),
      field("first_stage_layers", layout, &P::first_stage_layers, count(0, 16384)),
      field("last_stage_layers", layout, &P::last_stage_layers, count(0, 16384)),
      field("defer_embedding_wgrad", layout, &P::defer_embedding_wgrad, flag()),
      field("wgrad_deferral_limit", layout, &P::wgrad_deferral_limit, count(0, kMaxCount)),
      field("zero", layout, &P::zero, Described{read_zero, any_of(range_schema("integer", 0, 3), names_schema(kNamedZeros))}),
      field("optimizer_instances", layout, &P::optimizer_instances, count(1, kMaxAxis)),
      field("overlap_grad_reduce", layout, &P::overlap_grad_reduce, flag()),
      field("overlap_param_gather", layout, &P::overlap_param_gather, flag()),
      field("fsdp_no_sync", layout, &P::fsdp_no_sync, flag()),
      field("offload", layout, &P::offload, choice(kOffloads)),
      told(field("precision", training, &P::precision, choice(kPrecisions))),
      field("gradients_in_f32", training, &P::gradients_in_f32, flag()),
      field("gradients_in_bf16", training, &P::gradients_in_bf16, flag()),
      field("moments_in_bf16", training, &P::moments_in_bf16, flag()),
      field("main_weights_in_bf16", training, &P::main_weights_in_bf16, flag()),
      field("fp8_recipe", training, &P::fp8_recipe, choice(kFp8Recipes)),
      field("fp8_parameters", training, &P::fp8_parameters, flag()),
      told(field("attention", training, &P::attention, choice(kAttentions))),
      told(field("graph", layout, &P::graph, choice(kGraphs))),
      field("cross_entropy_fusion", layout, &P::cross_entropy_fusion, choice(kCrossEntropyFusions)),
      field("gradient_accumulation_fusion", layout, &P::gradient_accumulation_fusion, flag()),
      field("grouped_experts", layout, &P::grouped_experts, flag()),
      field("mask_in_batch", layout, &P::mask_in_batch, flag()),
      field("transformer_engine", layout, &P::transformer_engine, flag()),
      field("rope_fusion", layout, &P::rope_fusion, flag()),
      field("deterministic", layout, &P::deterministic, flag()),
      field("capture", layout, &P::capture, flag()),
      told(field("data", training, &P::data, matching(read_data, "^(synthetic|(text|tokens):(.|\\n)+)$"))),
      field("loader_workers", layout, &P::loader_workers, count(0, 1024)),
      field("pinned", layout, &P::pinned, flag()),
      field("optimizer", training, &P::optimizer, choice(kOptimizers)),
      field("fused_optimizer", layout, &P::fused_optimizer, flag()),
      field("learning_rate", training, &P::learning_rate, number()),
      field("lr_warmup", training, &P::lr_warmup, count(0, kMaxCount)),
      field("weight_decay", training, &P::weight_decay, number()),
      field("clip_grad", training, &P::clip_grad, number()),
      field("memory_limit", limit, &P::memory_limit,
            Described{read_memory_limit, any_of(range_schema("number", 0, 1e18), ordered_json{{"type", "string"}})}),
      field("max_seconds", limit, &P::max_seconds, number()),
      field("env", place, &P::env,
            Described{read_env, object_of(ordered_json{{"type", ordered_json::array({"string", "number"})}})}),
      field("ranks_per_node", place, &P::ranks_per_node, count(0, kMaxAxis)),
      field("framework", place, &P::framework, text(read_string)),
      field("machine", place, &P::machine, Described{read_machine, object_of(ordered_json{{"type", "number"}})}),
      told(field("device", place, &P::device, matching(read_device, "^(cpu|cuda|sim:[0-9]+x.+)$"))),
  };
  return table;
}

const Field* field_named(const std::string& key) {
  for (const Field& field : fields())
    if (field.about.key == key) return &field;
  return nullptr;
}

}  // namespace

std::string_view name_of(ScheduleKind v) {
  return choice_name(v, kSchedules);
}
std::string_view name_of(Precision v) {
  return choice_name(v, kPrecisions);
}
std::string_view name_of(Fp8Recipe v) {
  return choice_name(v, kFp8Recipes);
}
std::string_view name_of(OptimizerKind v) {
  return choice_name(v, kOptimizers);
}
std::string_view name_of(AttentionKind v) {
  return choice_name(v, kAttentions);
}
std::string_view name_of(TpGathers v) {
  return choice_name(v, kTpGathers);
}
std::string_view name_of(CpCommunication v) {
  return choice_name(v, kCpCommunications);
}
std::string_view name_of(EpCommunication v) {
  return choice_name(v, kEpCommunications);
}
std::string_view name_of(Graph v) {
  return choice_name(v, kGraphs);
}
std::string_view name_of(CrossEntropyFusion v) {
  return choice_name(v, kCrossEntropyFusions);
}
std::string_view name_of(Replicas v) {
  return choice_name(v, kReplicas);
}
std::string name_of(Zero v) {
  return v <= Zero::stage_3 ? fmt::format("{}", static_cast<int>(v))
                            : std::string(choice_name(v, kNamedZeros));
}
std::string_view name_of(Offload v) {
  return choice_name(v, kOffloads);
}

const std::vector<Bundle>& bundles() {
  static const auto bundle = [](const char* name, bool sequence_parallel, const Recompute& recompute) {
    return Bundle{name, {{"sequence_parallel", sequence_parallel}, {"recompute", name_of(recompute)}}};
  };
  static const std::vector<Bundle> table = {bundle("baseline", false, Recompute::none),
                                            bundle("sequence_parallel", true, Recompute::none),
                                            bundle("selective", false, Recompute::selective),
                                            bundle("sequence_parallel+selective", true, Recompute::selective),
                                            bundle("full", false, Recompute::full)};
  return table;
}

const std::vector<std::string>& bundled_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const auto& [key, value] : bundles().front().fields.items()) names.push_back(key);
    return names;
  }();
  return keys;
}

const std::vector<PointField>& point_fields() {
  static const std::vector<PointField> all = [] {
    std::vector<PointField> about;
    for (const Field& field : fields()) about.push_back(field.about);
    return about;
  }();
  return all;
}

const std::vector<std::string>& point_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const Field& field : fields()) names.push_back(field.about.key);
    return names;
  }();
  return keys;
}

Point without(Point point, std::initializer_list<FieldKind> kinds) {
  for (const Field& field : fields())
    if (std::find(kinds.begin(), kinds.end(), field.about.kind) != kinds.end()) field.reset(point);
  return point;
}

ordered_json point_schema() {
  ordered_json properties = ordered_json::object();
  for (const Field& field : fields()) properties[field.about.key] = field.schema;
  return properties;
}

void PointBuilder::set(const std::string& key, const json& value, const std::string& where) {
  set_point_field(point_, key, value, where);
  where_[key] = where;
}

void set_point_field(Point& point, const std::string& key, const json& value, const std::string& where) {
  if (const Field* field = field_named(key)) return field->read(point, value, where);
  if (key.starts_with(kMachineField)) {
    point.machine[key.substr(kMachineField.size())] =
        read_number(value, where, std::numeric_limits<double>::lowest());
    return;
  }
  fail(ErrorKind::bad_input, where, "unknown key, got \"{}\", {}", key, nearest_choice(key, point_keys()));
}

Point PointBuilder::finish(const std::string& where) const {
  if (!where_.contains("model"))
    fail(ErrorKind::bad_input, where, "\"model\" is missing, need the name of a preset or an object");
  Point point = point_;
  for (const Bundle& bundle : bundles()) {
    if (point.strategy != bundle.name) continue;
    const ordered_json given = point_to_json(point);
    for (const auto& [key, value] : bundle.fields.items()) {
      if (where_.contains(key) && given.at(key) != value)
        fail(ErrorKind::bad_input, where_.at(key),
             "contradicts the strategy \"{}\", got {}, need {} or no strategy", bundle.name,
             given.at(key).dump(), value.dump());
      field_named(key)->read(point, value, where);
    }
  }
  return point;
}

Point point_from_json(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of point fields",
         short_json(value));
  PointBuilder builder;
  for (const auto& [key, field] : value.items()) builder.set(key, field, where + "." + key);
  return builder.finish(where);
}

ordered_json point_to_json(const Point& point) {
  ordered_json out = ordered_json::object();
  out.get_ref<ordered_json::object_t&>().reserve(fields().size());  // growing copies
  for (const Field& field : fields()) out[field.about.key] = field.write(point);
  return out;
}

std::string point_id(const Point& point) {
  // json, not ordered_json: its keys are sorted, so the order of declaration does not count either.
  const Point plain;
  const ordered_json all = point_to_json(point), defaults = point_to_json(plain);
  json canonical = json::object();
  for (const auto& [key, value] : all.items())
    if (key != "model" && key != "strategy" && value != defaults.at(key)) canonical[key] = json(value);
  canonical["model"] = model_identity(point.model);
  return fmt::format("{:016x}", fnv1a(canonical.dump(-1, ' ', false, json::error_handler_t::replace)));
}

}  // namespace mbench
