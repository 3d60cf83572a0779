#include "engine/spec/point.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/spec/point_builder.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr Choices<Recompute, 3> kRecomputes = {
    {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}};
constexpr Choices<ScheduleKind, 3> kSchedules = {{{"gpipe", ScheduleKind::gpipe},
                                                  {"1f1b", ScheduleKind::one_f_one_b},
                                                  {"interleaved", ScheduleKind::interleaved}}};
constexpr Choices<Precision, 5> kPrecisions = {{{"f32", Precision::f32},
                                                {"tf32", Precision::tf32},
                                                {"bf16", Precision::bf16},
                                                {"fp16", Precision::fp16},
                                                {"fp8", Precision::fp8}}};
constexpr Choices<AttentionKind, 2> kAttentions = {
    {{"core", AttentionKind::core}, {"flash", AttentionKind::flash}}};
constexpr Choices<Graph, 3> kGraphs = {
    {{"eager", Graph::eager}, {"fused", Graph::fused}, {"captured", Graph::captured}}};
constexpr Choices<Replicas, 2> kReplicas = {
    {{"ranks", Replicas::ranks}, {"single_process", Replicas::single_process}}};
constexpr Choices<Offload, 3> kOffloads = {
    {{"none", Offload::none}, {"optimizer", Offload::optimizer}, {"all", Offload::all}}};
// FairScale's names: optimizer state sharding, with sharded gradients too, fully sharded.
constexpr Choices<std::int64_t, 3> kZeroBundles = {{{"oss", 1}, {"oss+sdp", 2}, {"fsdp", 3}}};

// Bounds that keep every product of sizes (world, parameters, FLOPs) inside 64 bits.
constexpr std::int64_t kMaxAxis = 32768;
constexpr std::int64_t kMaxCount = 16777216;

std::int64_t read_zero(const json& value, const std::string& where) {
  if (value.is_string()) return read_choice(value, where, kZeroBundles);
  return read_int(value, where, 0, 3);
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
  return value.is_number_integer() ? read_uint(value, where)
                                   : static_cast<std::uint64_t>(read_number(value, where, 0, 1e18));
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
    if (!text.is_string() && !text.is_number())
      fail(ErrorKind::bad_input, path, "wrong type, got {}, need a string or a number", short_json(text));
    env[name] = text.is_string() ? text.get<std::string>() : text.dump();
  }
  return env;
}

// One field of a point: its key, how it is read and how it is written.
struct Field {
  std::string key;
  void (*read)(Point&, const json&, const std::string& where);
  ordered_json (*write)(const Point&);
};

#define MBENCH_FIELD(name, reader)                                                                   \
  Field {                                                                                            \
#name, [](Point & p, const json& v,                                                              \
              const std::string&                                                                     \
                  where) { p.name = (reader); }, [](const Point& p) { return ordered_json(p.name); } \
  }
#define MBENCH_COUNT(name, low, high) MBENCH_FIELD(name, read_int(v, where, low, high))
#define MBENCH_CHOICE(name, choices)                                                                           \
  Field {                                                                                                      \
#name, [](Point& p, const json& v, const std::string& where) { p.name = read_choice(v, where, choices); },   \
        [](const Point& p) { return ordered_json(name_of(p.name)); } \
  }

std::string read_strategy(const json& value, const std::string& where) {
  if (value.is_string() && value.get_ref<const std::string&>().empty())
    return "";  // as a point writes "none named"
  std::vector<std::string> names;
  for (const Strategy& s : strategies()) names.emplace_back(s.name);
  if (!value.is_string() || std::find(names.begin(), names.end(), value.get<std::string>()) == names.end())
    fail(ErrorKind::bad_input, where, "no such strategy, got {}, {}", short_json(value),
         nearest_choice(value.is_string() ? value.get<std::string>() : value.dump(), names));
  return value.get<std::string>();
}

const std::vector<Field>& fields() {
  static const std::vector<Field> table = {
      {"model", [](Point& p, const json& v, const std::string& where) { p.model = read_model(v, where); },
       [](const Point& p) { return write_model(p.model); }},
      MBENCH_COUNT(seq, 1, kMaxCount),
      MBENCH_COUNT(micro_batch, 1, 1 << 20),
      MBENCH_COUNT(global_batch, 1, kMaxCount),
      MBENCH_COUNT(iterations, 1, kMaxCount),
      MBENCH_COUNT(warmup, 0, kMaxCount),
      MBENCH_FIELD(seed, read_uint(v, where)),
      MBENCH_FIELD(dropout, read_number(v, where, 0, 0.999)),
      MBENCH_COUNT(tp, 1, kMaxAxis),
      MBENCH_COUNT(pp, 1, kMaxAxis),
      MBENCH_COUNT(dp, 1, kMaxAxis),
      MBENCH_COUNT(cp, 1, kMaxAxis),
      MBENCH_COUNT(ep, 1, kMaxAxis),
      MBENCH_CHOICE(replicas, kReplicas),
      MBENCH_FIELD(sequence_parallel, read_bool(v, where)),
      MBENCH_CHOICE(recompute, kRecomputes),
      MBENCH_FIELD(strategy, read_strategy(v, where)),
      MBENCH_CHOICE(schedule, kSchedules),
      MBENCH_COUNT(virtual_stages, 1, 16384),
      MBENCH_FIELD(zero, read_zero(v, where)),
      MBENCH_CHOICE(offload, kOffloads),
      MBENCH_CHOICE(precision, kPrecisions),
      MBENCH_FIELD(gradients_in_f32, read_bool(v, where)),
      MBENCH_CHOICE(attention, kAttentions),
      MBENCH_CHOICE(graph, kGraphs),
      MBENCH_FIELD(data, read_data(v, where)),
      MBENCH_FIELD(learning_rate, read_number(v, where)),
      MBENCH_COUNT(lr_warmup, 0, kMaxCount),
      MBENCH_FIELD(weight_decay, read_number(v, where)),
      MBENCH_FIELD(clip_grad, read_number(v, where)),
      MBENCH_FIELD(memory_limit, read_memory_limit(v, where)),
      MBENCH_FIELD(max_seconds, read_number(v, where)),
      MBENCH_FIELD(env, read_env(v, where)),
      MBENCH_FIELD(framework, read_string(v, where)),
      MBENCH_FIELD(device, read_device(v, where)),
  };
  return table;
}

#undef MBENCH_CHOICE
#undef MBENCH_COUNT
#undef MBENCH_FIELD

}  // namespace

std::string_view name_of(Recompute v) {
  return choice_name(v, kRecomputes);
}
std::string_view name_of(ScheduleKind v) {
  return choice_name(v, kSchedules);
}
std::string_view name_of(Precision v) {
  return choice_name(v, kPrecisions);
}
std::string_view name_of(AttentionKind v) {
  return choice_name(v, kAttentions);
}
std::string_view name_of(Graph v) {
  return choice_name(v, kGraphs);
}
std::string_view name_of(Replicas v) {
  return choice_name(v, kReplicas);
}
std::string_view name_of(Offload v) {
  return choice_name(v, kOffloads);
}

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> table = {{"baseline", false, Recompute::none},
                                              {"sequence_parallel", true, Recompute::none},
                                              {"selective", false, Recompute::selective},
                                              {"sequence_parallel+selective", true, Recompute::selective},
                                              {"full", false, Recompute::full}};
  return table;
}

const std::vector<std::string>& point_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const Field& field : fields()) names.push_back(field.key);
    return names;
  }();
  return keys;
}

void PointBuilder::set(const std::string& key, const json& value, const std::string& where) {
  for (const Field& field : fields()) {
    if (field.key != key) continue;
    field.read(point_, value, where);
    where_[key] = where;
    return;
  }
  fail(ErrorKind::bad_input, where, "unknown key, got \"{}\", {}", key, nearest_choice(key, point_keys()));
}

Point PointBuilder::finish(const std::string& where) const {
  if (!where_.contains("model"))
    fail(ErrorKind::bad_input, where, "\"model\" is missing, need the name of a preset or an object");
  Point point = point_;
  for (const Strategy& s : strategies()) {
    if (point.strategy != s.name) continue;
    if (where_.contains("sequence_parallel") && point.sequence_parallel != s.sequence_parallel)
      fail(ErrorKind::bad_input, where_.at("sequence_parallel"),
           "contradicts the strategy \"{}\", got {}, need {} or no strategy", s.name, point.sequence_parallel,
           s.sequence_parallel);
    if (where_.contains("recompute") && point.recompute != s.recompute)
      fail(ErrorKind::bad_input, where_.at("recompute"),
           "contradicts the strategy \"{}\", got \"{}\", need \"{}\" or no strategy", s.name,
           name_of(point.recompute), name_of(s.recompute));
    point.sequence_parallel = s.sequence_parallel;
    point.recompute = s.recompute;
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
  for (const Field& field : fields()) out[field.key] = field.write(point);
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
