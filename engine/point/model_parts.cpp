#include "engine/point/model_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "engine/base/json_reader.h"
#include "engine/base/names.h"

namespace mbench {
namespace {

using nlohmann::json;

constexpr Choices<NormKind, 2> kNorms = {{{"layer_norm", NormKind::layer_norm}, {"rms_norm", NormKind::rms_norm}}};
constexpr Choices<NormPlace, 4> kNormPlaces = {{{"pre", NormPlace::pre},
                                                {"post", NormPlace::post},
                                                {"sandwich", NormPlace::sandwich},
                                                {"output", NormPlace::output}}};
constexpr Choices<Branches, 4> kBranches = {{{"sequential", Branches::sequential},
                                             {"parallel", Branches::parallel},
                                             {"parallel_norms", Branches::parallel_norms},
                                             {"parallel_mixers", Branches::parallel_mixers}}};
constexpr Choices<Activation, 11> kActivations = {{{"gelu", Activation::gelu},
                                                   {"gelu_erf", Activation::gelu_erf},
                                                   {"swiglu", Activation::swiglu},
                                                   {"squared_relu", Activation::squared_relu},
                                                   {"relu", Activation::relu},
                                                   {"silu", Activation::silu},
                                                   {"geglu", Activation::geglu},
                                                   {"geglu_erf", Activation::geglu_erf},
                                                   {"reglu", Activation::reglu},
                                                   {"clamped_swiglu", Activation::clamped_swiglu},
                                                   {"xielu", Activation::xielu}}};
constexpr Choices<PositionKind, 4> kPositions = {{{"learned", PositionKind::learned},
                                                  {"rotary", PositionKind::rotary},
                                                  {"alibi", PositionKind::alibi},
                                                  {"none", PositionKind::none}}};
constexpr Choices<RopeScaling, 5> kRopeScalings = {{{"llama3", RopeScaling::llama3},
                                                    {"linear", RopeScaling::linear},
                                                    {"dynamic", RopeScaling::dynamic},
                                                    {"yarn", RopeScaling::yarn},
                                                    {"longrope", RopeScaling::longrope}}};
constexpr Choices<MixerKind, 6> kMixers = {{{"attention", MixerKind::attention},
                                            {"mamba2", MixerKind::mamba2},
                                            {"gated_delta", MixerKind::gated_delta},
                                            {"mamba", MixerKind::mamba},
                                            {"short_conv", MixerKind::short_conv},
                                            {"lightning", MixerKind::lightning}}};
constexpr Choices<ScanNorm, 3> kScanNorms = {
    {{"none", ScanNorm::none}, {"without_weights", ScanNorm::without_weights}, {"rms_norm", ScanNorm::rms_norm}}};
constexpr Choices<StateNorm, 3> kStateNorms = {
    {{"gated", StateNorm::gated}, {"before_gate", StateNorm::before_gate}, {"none", StateNorm::none}}};
constexpr Choices<AttentionForm, 2> kAttentionForms = {
    {{"multi_head", AttentionForm::multi_head}, {"latent", AttentionForm::latent}}};
constexpr Choices<Objective, 2> kObjectives = {
    {{"next_token", Objective::next_token}, {"masked_words_and_order", Objective::masked_words_and_order}}};

constexpr Choices<RouterScore, 2> kRouterScores = {
    {{"softmax", RouterScore::softmax}, {"sigmoid", RouterScore::sigmoid}}};
constexpr Choices<GroupScore, 2> kGroupScores = {{{"best", GroupScore::best}, {"best_two", GroupScore::best_two}}};

constexpr Choices<Weighted, 2> kWeighted = {{{"output", Weighted::output}, {"input", Weighted::input}}};

PartField also(const char* key, PartField part) {
  part.also = key;
  return part;
}

// The same part, which layers may differ in.
template <class T>
PartField by_layer(PartField part, T ModelParts::*field) {
  part.copy = [field](ModelParts& to, const ModelParts& from) { to.*field = from.*field; };
  return part;
}

template <class Enum, std::size_t N>
PartField choice(const char* key, Enum ModelParts::*field, const Choices<Enum, N>& choices, bool optional = false) {
  return {key,
          [field, &choices](ModelParts& parts, const json& value, const std::string& where) {
            parts.*field = read_choice(value, where, choices);
          },
          [field, &choices](const ModelParts& parts) { return json(choice_name(parts.*field, choices)); }, optional};
}

PartField flag(const char* key, bool ModelParts::*field, bool optional = false) {
  return {key,
          [field](ModelParts& parts, const json& value, const std::string& where) {
            parts.*field = read_bool(value, where);
          },
          [field](const ModelParts& parts) { return json(parts.*field); }, optional};
}

PartField count(const char* key, std::int64_t ModelParts::*field, std::int64_t high, bool optional = false) {
  return {key,
          [field, high](ModelParts& parts, const json& value, const std::string& where) {
            parts.*field = read_int(value, where, 0, high);
          },
          [field](const ModelParts& parts) { return json(parts.*field); }, optional};
}

PartField number(const char* key, double ModelParts::*field, double low, double high, bool optional = false) {
  return {key,
          [=](ModelParts& parts, const json& value, const std::string& where) {
            parts.*field = read_number(value, where, low, high);
          },
          [field](const ModelParts& parts) { return json(parts.*field); }, optional};
}

struct BiasName {
  const char* name;
  bool Biases::*field;
};
constexpr BiasName kBiases[] = {{"qkv", &Biases::qkv},       {"proj", &Biases::proj},
                                {"dense", &Biases::dense},   {"experts", &Biases::experts},
                                {"router", &Biases::router}, {"logits", &Biases::logits}};

// true, false, or a list of the layers that have one.
void read_bias(ModelParts& parts, const json& value, const std::string& where) {
  if (!value.is_array()) {
    parts.bias = read_bool(value, where);
    return;
  }
  parts.bias = false;
  std::vector<std::string> names;
  for (const BiasName& bias : kBiases) names.emplace_back(bias.name);
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", where, i), name = read_string(value[i], path);
    const auto found =
        std::find_if(std::begin(kBiases), std::end(kBiases), [&](const BiasName& bias) { return name == bias.name; });
    if (found == std::end(kBiases))
      fail(ErrorKind::bad_input, path, "no such layer, got \"{}\", {}", name, nearest_choice(name, names));
    parts.bias.*found->field = true;
  }
}

json write_bias(const ModelParts& parts) {
  if (parts.bias == Biases(true)) return true;
  if (!parts.bias.any()) return false;
  json names = json::array();
  for (const BiasName& bias : kBiases)
    if (parts.bias.*bias.field) names.push_back(bias.name);
  return names;
}

constexpr Choices<QkNorm, 4> kQkNorms = {{{"all_heads", QkNorm::all_heads},
                                          {"without_weights", QkNorm::without_weights},
                                          {"layer_norm", QkNorm::layer_norm},
                                          {"layer_norm_by_head", QkNorm::layer_norm_by_head}}};

// true, false, or one of those.
void read_qk_norm(ModelParts& parts, const json& value, const std::string& where) {
  if (value.is_string())
    parts.qk_norm = read_choice(value, where, kQkNorms);
  else
    parts.qk_norm = read_bool(value, where) ? QkNorm::each_head : QkNorm::none;
}

json write_qk_norm(const ModelParts& parts) {
  if (parts.qk_norm == QkNorm::none || parts.qk_norm == QkNorm::each_head) return parts.qk_norm == QkNorm::each_head;
  return choice_name(parts.qk_norm, kQkNorms);
}

void read_temperature(ModelParts& parts, const json& value, const std::string& where) {
  ObjectReader object(value, where);
  AttentionTemperature t;
  t.scale = read_number(object.require("scale", "how much a logarithm adds; 0 is none"), object.path("scale"), 0, 1e6);
  if (const json* floor = object.find("floor")) t.floor = read_int(*floor, object.path("floor"), 1, 1 << 30);
  if (const json* first = object.find("first")) t.first = read_int(*first, object.path("first"), 0, 1);
  object.refuse_unknown();
  parts.attention_temperature = t.scale == 0 ? AttentionTemperature() : t;
}

json write_temperature(const ModelParts& parts) {
  const AttentionTemperature& t = parts.attention_temperature;
  if (t.scale == 0) return {{"scale", 0}};
  json out = {{"scale", t.scale}, {"floor", t.floor}};
  if (t.first != 1) out["first"] = t.first;
  return out;
}

struct RopeNumber {
  const char* key;
  double RopeSpec::*field;
  double low, high;
};
constexpr RopeNumber kRope[] = {{"base", &RopeSpec::base, 1, 1e12}, {"fraction", &RopeSpec::fraction, 0, 1}};
constexpr RopeNumber kScaling[] = {{"factor", &RopeSpec::factor, 1, 1e6},
                                   {"low_frequency_factor", &RopeSpec::low_frequency_factor, 1e-6, 1e6},
                                   {"high_frequency_factor", &RopeSpec::high_frequency_factor, 1e-6, 1e6}};
constexpr std::int64_t kMostPositions = std::int64_t{1} << 40;

void read_numbers(std::span<const RopeNumber> numbers, ObjectReader& object, RopeSpec& rope) {
  for (const RopeNumber& n : numbers)
    if (const json* given = object.find(n.key)) rope.*n.field = read_number(*given, object.path(n.key), n.low, n.high);
}

// A factor for each pair of a head's rotated columns; how many these are, model_heads.cpp knows.
std::vector<double> read_pairs(ObjectReader& scaling, const char* key) {
  const std::string where = scaling.path(key);
  const json& list = scaling.require(key, "of longrope, a factor for each pair of rotated columns");
  if (!list.is_array() || list.empty())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need a list of numbers", short_json(list));
  std::vector<double> factors;
  for (std::size_t i = 0; i < list.size(); ++i)
    factors.push_back(read_number(list[i], fmt::format("{}[{}]", where, i), 1e-6, 1e6));
  return factors;
}

void read_rope(ModelParts& parts, const json& value, const std::string& where) {
  ObjectReader object(value, where);
  RopeSpec rope;
  read_numbers(kRope, object, rope);
  if (const json* given = object.find("scaling")) {
    ObjectReader scaling(*given, object.path("scaling"));
    scaling.require("factor", "how many times slower");
    if (const json* type = scaling.find("type")) rope.scaling = read_choice(*type, scaling.path("type"), kRopeScalings);
    const bool yarn = rope.scaling == RopeScaling::yarn, longrope = rope.scaling == RopeScaling::longrope;
    if (const json* factor = yarn || longrope ? scaling.find("attention_factor") : nullptr)
      rope.attention_factor = read_number(*factor, scaling.path("attention_factor"), 0, 1e6);
    if (longrope) {
      rope.short_factors = read_pairs(scaling, "short_factors");
      rope.long_factors = read_pairs(scaling, "long_factors");
    }
    if (yarn) {
      rope.high_frequency_factor = 32;
      if (const json* whole = scaling.find("truncate")) rope.truncate = read_bool(*whole, scaling.path("truncate"));
    }
    read_numbers(longrope ? std::span(kScaling).first(1) : std::span(kScaling), scaling, rope);
    if (const json* positions = scaling.find("original_positions"))
      rope.original_positions = read_int(*positions, scaling.path("original_positions"), 1, kMostPositions);
    scaling.refuse_unknown();
    if (rope.high_frequency_factor < rope.low_frequency_factor)
      fail(ErrorKind::bad_input, scaling.path("high_frequency_factor"), "got {}, need at least the low one, {}",
           rope.high_frequency_factor, rope.low_frequency_factor);
  }
  object.refuse_unknown();
  parts.rope = rope;
}

json write_rope(const ModelParts& parts) {
  const RopeSpec& rope = parts.rope;
  json out = json::object();
  for (const RopeNumber& n : kRope) out[n.key] = rope.*n.field;
  if (!rope.scaled()) return out;
  json& scaling = out["scaling"];
  scaling["original_positions"] = rope.original_positions;
  if (rope.scaling != RopeScaling::llama3) scaling["type"] = choice_name(rope.scaling, kRopeScalings);
  if (rope.attention_factor != 0) scaling["attention_factor"] = rope.attention_factor;
  if (rope.scaling == RopeScaling::longrope) {
    scaling["factor"] = rope.factor;
    scaling["short_factors"] = rope.short_factors;
    scaling["long_factors"] = rope.long_factors;
    return out;
  }
  for (const RopeNumber& n : kScaling) scaling[n.key] = rope.*n.field;
  if (!rope.truncate) scaling["truncate"] = false;
  return out;
}

struct RoutingNumber {
  const char* key;
  double RoutingSpec::*field;
  double high;
};
constexpr RoutingNumber kRoutingNumbers[] = {{"scale", &RoutingSpec::scale, 1e6},
                                             {"balance_loss", &RoutingSpec::balance_loss, 1e6},
                                             {"z_loss", &RoutingSpec::z_loss, 1e6},
                                             {"correction_speed", &RoutingSpec::correction_speed, 1}};

void read_routing(ModelParts& parts, const json& value, const std::string& where) {
  ObjectReader object(value, where);
  RoutingSpec r;
  if (const json* given = object.find("score")) r.score = read_choice(*given, object.path("score"), kRouterScores);
  if (const json* given = object.find("normalise")) r.normalise = read_bool(*given, object.path("normalise"));
  for (const RoutingNumber& n : kRoutingNumbers)
    if (const json* given = object.find(n.key)) r.*n.field = read_number(*given, object.path(n.key), 0, n.high);
  if (const json* given = object.find("groups"))
    r.groups = r.chosen_groups = read_int(*given, object.path("groups"), 1, 1 << 16);
  if (const json* given = object.find("chosen_groups"))
    r.chosen_groups = read_int(*given, object.path("chosen_groups"), 1, r.groups);
  if (const json* given = object.find("group_score"))
    r.group_score = read_choice(*given, object.path("group_score"), kGroupScores);
  if (const json* given = object.find("weighted")) r.weighted = read_choice(*given, object.path("weighted"), kWeighted);
  object.refuse_unknown();
  parts.routing = r;
}

json write_routing(const ModelParts& parts) {
  const RoutingSpec& r = parts.routing;
  json out = {{"score", name_of(r.score)}, {"normalise", r.normalise}};
  for (const RoutingNumber& n : kRoutingNumbers) out[n.key] = r.*n.field;
  if (r.weighted != Weighted::output) out["weighted"] = name_of(r.weighted);
  if (r.groups == 1) return out;
  out["groups"] = r.groups;
  out["chosen_groups"] = r.chosen_groups;
  out["group_score"] = name_of(r.group_score);
  return out;
}

}  // namespace

const std::vector<PartField>& part_fields() {
  static const std::vector<PartField> table = {
      choice("norm", &ModelParts::norm, kNorms),
      by_layer(choice("norm_place", &ModelParts::norm_place, kNormPlaces), &ModelParts::norm_place),
      choice("activation", &ModelParts::activation, kActivations),
      by_layer(choice("position", &ModelParts::position, kPositions), &ModelParts::position),
      choice("attention_form", &ModelParts::attention_form, kAttentionForms),
      choice("objective", &ModelParts::objective, kObjectives),
      flag("causal", &ModelParts::causal),
      {"bias", read_bias, write_bias},
      flag("tied_embedding", &ModelParts::tied_embedding),
      by_layer({"qk_norm", read_qk_norm, write_qk_norm, true}, &ModelParts::qk_norm),
      count("token_types", &ModelParts::token_types, 1 << 16),
      number("norm_eps", &ModelParts::norm_eps, 0, 1),
      by_layer({"rope", read_rope, write_rope, true}, &ModelParts::rope),
      {"routing", read_routing, write_routing, true},
      number("mtp_loss_scaling_factor", &ModelParts::mtp_loss_scaling_factor, 0, 1e6, true),
      flag("mtp_use_repeated_layer", &ModelParts::mtp_use_repeated_layer, true),
      choice("branches", &ModelParts::branches, kBranches, true),
      flag("norm_beta", &ModelParts::norm_beta, true),
      flag("norm_gamma", &ModelParts::norm_gamma, true),
      flag("embedding_norm", &ModelParts::embedding_norm, true),
      number("embedding_scale", &ModelParts::embedding_scale, 0, 1e6, true),
      number("residual_scale", &ModelParts::residual_scale, 0, 1e6, true),
      number("logit_scale", &ModelParts::logit_scale, 0, 1e6, true),
      by_layer(number("attention_scale", &ModelParts::attention_scale, 0, 1e6, true), &ModelParts::attention_scale),
      number("logit_softcap", &ModelParts::logit_softcap, 0, 1e6, true),
      by_layer(number("attention_softcap", &ModelParts::attention_softcap, 0, 1e6, true),
               &ModelParts::attention_softcap),
      by_layer(also("sliding_window", count("window", &ModelParts::window, kMostPositions, true)), &ModelParts::window),
      by_layer(count("attention_chunk", &ModelParts::attention_chunk, kMostPositions, true),
               &ModelParts::attention_chunk),
      by_layer({"attention_temperature", read_temperature, write_temperature, true},
               &ModelParts::attention_temperature),
      by_layer(flag("attention_sinks", &ModelParts::attention_sinks, true), &ModelParts::attention_sinks),
      by_layer(choice("mixer", &ModelParts::mixer, kMixers, true), &ModelParts::mixer),
      choice("scan_norm", &ModelParts::scan_norm, kScanNorms, true),
      number("scan_norm_eps", &ModelParts::scan_norm_eps, 0, 1, true),
      choice("state_norm", &ModelParts::state_norm, kStateNorms, true),
      number("inner_norm_eps", &ModelParts::inner_norm_eps, 0, 1, true),
      flag("negative_eigenvalues", &ModelParts::negative_eigenvalues, true),
      {"multipliers", read_multipliers, write_multipliers, true},
      by_layer(flag("attention_gate", &ModelParts::attention_gate, true), &ModelParts::attention_gate),
      flag("shared_gate", &ModelParts::shared_gate, true)};
  return table;
}

namespace {

std::vector<std::string> keys_by_layer() {
  std::vector<std::string> keys = {"every", "from", "until", "experts"};
  for (const PartField& part : part_fields())
    if (part.copy) keys.push_back(part.key);
  return keys;
}

LayerRule read_rule(const ModelSpec& m, const json& value, const std::string& where) {
  ObjectReader object(value, where);
  LayerRule rule;
  rule.parts = m.parts();
  const auto layers = [&](const char* key, std::int64_t low, std::int64_t high, std::int64_t usual) {
    const json* given = object.find(key);
    return given ? read_int(*given, object.path(key), low, high) : usual;
  };
  rule.every = layers("every", 1, m.layers, 1);
  rule.from = layers("from", 0, m.layers - 1, 0);
  rule.until = layers("until", rule.from + 1, m.layers, 0);
  if (const json* experts = object.find("experts")) {
    if (m.experts == 0)
      fail(ErrorKind::bad_input, object.path("experts"),
           "of a model without experts, got {}, need \"experts\" of the model too", short_json(*experts));
    read_int(*experts, object.path("experts"), 0, 0);
    rule.dense = true;
  }
  for (const PartField& part : part_fields())
    if (const json* given = find_part(object, part)) {
      if (!part.copy)
        fail(ErrorKind::bad_input, object.path(part.key), "all layers have the same, need one of {}",
             fmt::join(keys_by_layer(), ", "));
      part.read(rule.parts, *given, object.path(part.key));
      rule.keys.push_back(part.key);
    }
  object.refuse_unknown();
  if (rule.keys.empty() && !rule.dense)
    fail(ErrorKind::bad_input, where, "got {}, which changes no part, need one of {}", short_json(value),
         fmt::join(keys_by_layer(), ", "));
  return rule;
}

}  // namespace

std::vector<LayerRule> read_layers_of(const ModelSpec& m, const json& value, const std::string& where) {
  if (!value.is_array())
    fail(ErrorKind::bad_input, where,
         "wrong type, got {}, need a list of objects as {{\"every\": 2, \"window\": 4096}}", short_json(value));
  std::vector<LayerRule> rules;
  for (std::size_t i = 0; i < value.size(); ++i)
    rules.push_back(read_rule(m, value[i], fmt::format("{}[{}]", where, i)));
  return rules;
}

json write_layers_of(const ModelSpec& m) {
  json out = json::array();
  for (const LayerRule& rule : m.layers_of) {
    json one = json::object();
    if (rule.every != 1) one["every"] = rule.every;
    if (rule.from != 0) one["from"] = rule.from;
    if (rule.until != 0) one["until"] = rule.until;
    if (rule.dense) one["experts"] = 0;
    for (const PartField& part : part_fields())
      if (std::find(rule.keys.begin(), rule.keys.end(), part.key) != rule.keys.end())
        one[part.key] = part.write(rule.parts);
    out.push_back(one);
  }
  return out;
}

const json* find_part(ObjectReader& object, const PartField& part) {
  const json* given = object.find(part.key);
  if (part.also.empty()) return given;
  const json* other = object.find(part.also);
  if (given && other)
    fail(ErrorKind::bad_input, object.path(part.also), "stands for \"{}\", which is there too, need one of them",
         part.key);
  return given ? given : other;
}

std::string_view name_of(NormKind v) {
  return choice_name(v, kNorms);
}
std::string_view name_of(NormPlace v) {
  return choice_name(v, kNormPlaces);
}
std::string_view name_of(Branches v) {
  return choice_name(v, kBranches);
}
std::string_view name_of(Activation v) {
  return choice_name(v, kActivations);
}
std::string_view name_of(PositionKind v) {
  return choice_name(v, kPositions);
}
std::string_view name_of(ScanNorm v) {
  return choice_name(v, kScanNorms);
}
std::string_view name_of(StateNorm v) {
  return choice_name(v, kStateNorms);
}
std::string_view name_of(MixerKind v) {
  return choice_name(v, kMixers);
}
std::string_view name_of(AttentionForm v) {
  return choice_name(v, kAttentionForms);
}
std::string_view name_of(Objective v) {
  return choice_name(v, kObjectives);
}
std::string_view name_of(RouterScore v) {
  return choice_name(v, kRouterScores);
}
std::string_view name_of(GroupScore v) {
  return choice_name(v, kGroupScores);
}
std::string_view name_of(Weighted v) {
  return choice_name(v, kWeighted);
}

}  // namespace mbench
