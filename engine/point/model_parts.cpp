#include "engine/point/model_parts.h"

#include <span>

#include "engine/base/json_reader.h"

namespace mbench {
namespace {

using nlohmann::json;

constexpr Choices<NormKind, 2> kNorms = {
    {{"layer_norm", NormKind::layer_norm}, {"rms_norm", NormKind::rms_norm}}};
constexpr Choices<NormPlace, 2> kNormPlaces = {{{"pre", NormPlace::pre}, {"post", NormPlace::post}}};
constexpr Choices<Activation, 4> kActivations = {{{"gelu", Activation::gelu},
                                                  {"gelu_erf", Activation::gelu_erf},
                                                  {"swiglu", Activation::swiglu},
                                                  {"squared_relu", Activation::squared_relu}}};
constexpr Choices<PositionKind, 2> kPositions = {
    {{"learned", PositionKind::learned}, {"rotary", PositionKind::rotary}}};
constexpr Choices<AttentionForm, 2> kAttentionForms = {
    {{"multi_head", AttentionForm::multi_head}, {"latent", AttentionForm::latent}}};
constexpr Choices<Objective, 2> kObjectives = {
    {{"next_token", Objective::next_token}, {"masked_words_and_order", Objective::masked_words_and_order}}};

constexpr Choices<RouterScore, 2> kRouterScores = {
    {{"softmax", RouterScore::softmax}, {"sigmoid", RouterScore::sigmoid}}};
constexpr Choices<GroupScore, 2> kGroupScores = {
    {{"best", GroupScore::best}, {"best_two", GroupScore::best_two}}};

template <class Enum, std::size_t N>
PartField choice(const char* key, Enum ModelParts::*field, const Choices<Enum, N>& choices) {
  return {key,
          [field, &choices](ModelParts& parts, const json& value, const std::string& where) {
            parts.*field = read_choice(value, where, choices);
          },
          [field, &choices](const ModelParts& parts) { return json(choice_name(parts.*field, choices)); }};
}

PartField flag(const char* key, bool ModelParts::*field, bool optional = false) {
  return {key,
          [field](ModelParts& parts, const json& value, const std::string& where) {
            parts.*field = read_bool(value, where);
          },
          [field](const ModelParts& parts) { return json(parts.*field); }, optional};
}

PartField count(const char* key, std::int64_t ModelParts::*field, std::int64_t high) {
  return {key,
          [field, high](ModelParts& parts, const json& value, const std::string& where) {
            parts.*field = read_int(value, where, 0, high);
          },
          [field](const ModelParts& parts) { return json(parts.*field); }};
}

PartField number(const char* key, double ModelParts::*field, double low, double high, bool optional = false) {
  return {key,
          [=](ModelParts& parts, const json& value, const std::string& where) {
            parts.*field = read_number(value, where, low, high);
          },
          [field](const ModelParts& parts) { return json(parts.*field); }, optional};
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
    if (const json* given = object.find(n.key))
      rope.*n.field = read_number(*given, object.path(n.key), n.low, n.high);
}

void read_rope(ModelParts& parts, const json& value, const std::string& where) {
  ObjectReader object(value, where);
  RopeSpec rope;
  read_numbers(kRope, object, rope);
  if (const json* given = object.find("scaling")) {
    ObjectReader scaling(*given, object.path("scaling"));
    scaling.require("factor", "how many times slower");
    read_numbers(kScaling, scaling, rope);
    if (const json* positions = scaling.find("original_positions"))
      rope.original_positions = read_int(*positions, scaling.path("original_positions"), 1, kMostPositions);
    scaling.refuse_unknown();
    if (rope.high_frequency_factor <= rope.low_frequency_factor)
      fail(ErrorKind::bad_input, scaling.path("high_frequency_factor"),
           "got {}, need more than the low one, {}", rope.high_frequency_factor, rope.low_frequency_factor);
  }
  object.refuse_unknown();
  parts.rope = rope;
}

json write_rope(const ModelParts& parts) {
  const RopeSpec& rope = parts.rope;
  json out = json::object();
  for (const RopeNumber& n : kRope) out[n.key] = rope.*n.field;
  if (rope.factor == 1) return out;
  json& scaling = out["scaling"];
  for (const RopeNumber& n : kScaling) scaling[n.key] = rope.*n.field;
  scaling["original_positions"] = rope.original_positions;
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
  if (const json* given = object.find("score"))
    r.score = read_choice(*given, object.path("score"), kRouterScores);
  if (const json* given = object.find("normalise")) r.normalise = read_bool(*given, object.path("normalise"));
  for (const RoutingNumber& n : kRoutingNumbers)
    if (const json* given = object.find(n.key))
      r.*n.field = read_number(*given, object.path(n.key), 0, n.high);
  if (const json* given = object.find("groups"))
    r.groups = r.chosen_groups = read_int(*given, object.path("groups"), 1, 1 << 16);
  if (const json* given = object.find("chosen_groups"))
    r.chosen_groups = read_int(*given, object.path("chosen_groups"), 1, r.groups);
  if (const json* given = object.find("group_score"))
    r.group_score = read_choice(*given, object.path("group_score"), kGroupScores);
  object.refuse_unknown();
  parts.routing = r;
}

json write_routing(const ModelParts& parts) {
  const RoutingSpec& r = parts.routing;
  json out = {{"score", name_of(r.score)}, {"normalise", r.normalise}};
  for (const RoutingNumber& n : kRoutingNumbers) out[n.key] = r.*n.field;
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
      choice("norm_place", &ModelParts::norm_place, kNormPlaces),
      choice("activation", &ModelParts::activation, kActivations),
      choice("position", &ModelParts::position, kPositions),
      choice("attention_form", &ModelParts::attention_form, kAttentionForms),
      choice("objective", &ModelParts::objective, kObjectives),
      flag("causal", &ModelParts::causal),
      flag("bias", &ModelParts::bias),
      flag("tied_embedding", &ModelParts::tied_embedding),
      flag("qk_norm", &ModelParts::qk_norm, true),
      count("token_types", &ModelParts::token_types, 1 << 16),
      number("norm_eps", &ModelParts::norm_eps, 0, 1),
      {"rope", read_rope, write_rope, true},
      {"routing", read_routing, write_routing, true},
      number("mtp_loss_scaling_factor", &ModelParts::mtp_loss_scaling_factor, 0, 1e6, true)};
  return table;
}

std::string_view name_of(NormKind v) {
  return choice_name(v, kNorms);
}
std::string_view name_of(NormPlace v) {
  return choice_name(v, kNormPlaces);
}
std::string_view name_of(Activation v) {
  return choice_name(v, kActivations);
}
std::string_view name_of(PositionKind v) {
  return choice_name(v, kPositions);
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

}  // namespace mbench
