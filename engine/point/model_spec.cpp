#include "engine/point/model_spec.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"
#include "engine/base/names.h"
#include "engine/point/architecture.h"
#include "engine/point/model_heads.h"
#include "engine/point/model_parts.h"

namespace mbench {

namespace family_files {
const EmbeddedFiles& files();
}
namespace model_files {
const EmbeddedFiles& files();
}

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Bounds that keep every product of sizes (parameters, FLOPs) inside 64 bits.
constexpr std::int64_t kMaxSize = 16777216;

struct Size {
  const char* key;
  std::int64_t ModelSpec::*field;
  std::int64_t high;
};
// Every model has these; ffn alone may be left out.
constexpr Size kSizes[] = {{"layers", &ModelSpec::layers, 16384},  {"hidden", &ModelSpec::hidden, 1 << 20},
                           {"heads", &ModelSpec::heads, 1 << 16},  {"ffn", &ModelSpec::ffn, 1 << 22},
                           {"vocab", &ModelSpec::vocab, kMaxSize}, {"positions", &ModelSpec::positions, kMaxSize}};
// A dense model with full attention does not have these.
constexpr Size kOptionalSizes[] = {{"kv_heads", &ModelSpec::kv_heads, 1 << 16},
                                   {"head_dim", &ModelSpec::head_size, 1 << 16},
                                   {"experts", &ModelSpec::experts, 1 << 16},
                                   {"active_experts", &ModelSpec::active_experts, 1 << 16},
                                   {"shared_experts", &ModelSpec::shared_experts, 1 << 16},
                                   {"expert_ffn", &ModelSpec::expert_ffn, 1 << 22},
                                   {"shared_expert_ffn", &ModelSpec::shared_expert_ffn, 1 << 22},
                                   {"dense_layers", &ModelSpec::dense_layers, 16384},
                                   {"mtp_layers", &ModelSpec::mtp_layers, 64},
                                   {"labels", &ModelSpec::labels, 1 << 16},
                                   {"q_lora_rank", &ModelSpec::q_lora_rank, 1 << 20},
                                   {"kv_lora_rank", &ModelSpec::kv_lora_rank, 1 << 20},
                                   {"qk_nope_head_dim", &ModelSpec::qk_nope_head_dim, 1 << 16},
                                   {"qk_rope_head_dim", &ModelSpec::qk_rope_head_dim, 1 << 16},
                                   {"v_head_dim", &ModelSpec::v_head_dim, 1 << 16},
                                   {"state_heads", &ModelSpec::state_heads, 1 << 16},
                                   {"state_head_dim", &ModelSpec::state_head_dim, 1 << 16},
                                   {"state_groups", &ModelSpec::state_groups, 1 << 16},
                                   {"state_dim", &ModelSpec::state_dim, 1 << 16},
                                   {"dt_rank", &ModelSpec::dt_rank, 1 << 16},
                                   {"conv_width", &ModelSpec::conv_width, 8},
                                   {"state_chunk", &ModelSpec::state_chunk, 1024},
                                   {"moe_latent", &ModelSpec::moe_latent, 1 << 20}};
constexpr std::string_view kLetters = "MGSCL*-E";

const std::map<std::string, ModelParts>& families() {
  static const std::map<std::string, ModelParts> all = [] {
    std::map<std::string, ModelParts> found;
    for (const auto& [name, text] : family_files::files()) {
      const std::string where = "engine/point/families/" + name + ".json";
      const json file = parse_json(text, where);
      ObjectReader top(file, where + ": $");
      top.require("source", "where the family was published");
      ObjectReader parts(top.require("parts", "an object of parts"), top.path("parts"));
      ModelParts p;
      for (const PartField& field : part_fields())
        if (!field.optional)
          field.read(p, parts.require(field.key, "a part that every family names"), parts.path(field.key));
        else if (const json* given = parts.find(field.key))
          field.read(p, *given, parts.path(field.key));
      parts.refuse_unknown();
      top.refuse_unknown();
      found.emplace(name, p);
    }
    return found;
  }();
  return all;
}

std::string read_family(const json& value, const std::string& where) {
  const std::string name = read_string(value, where);
  if (!families().contains(name))
    fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value),
         nearest_choice(name, family_names()));
  return name;
}

// "hybrid_pattern", or what a preset has of it, for the layers that there are now.
void read_pattern(ObjectReader& object, ModelSpec& m) {
  const json* given = object.find("hybrid_pattern");
  const std::string where = object.path("hybrid_pattern");
  if (given) m.hybrid_pattern = read_string(*given, where);
  if (m.hybrid_pattern.empty()) return;
  if (const auto bad = m.hybrid_pattern.find_first_not_of(kLetters); bad != std::string::npos)
    fail(ErrorKind::bad_input, where,
         "letter {}, got \"{}\", need M Mamba-2, G Gated DeltaNet, S the first Mamba, C a short convolution, "
         "L lightning attention, * attention, - feed-forward or E experts",
         bad + 1, m.hybrid_pattern[bad]);
  if (static_cast<std::int64_t>(m.hybrid_pattern.size()) != m.layers)
    fail(ErrorKind::bad_input, where, "got {} letters, need one for each of {} layers", m.hybrid_pattern.size(),
         m.layers);
  const bool experts = m.hybrid_pattern.find('E') != std::string::npos;
  if (experts && m.experts == 0)
    fail(ErrorKind::bad_input, where, "got E of a model without experts, need \"experts\" too");
  if (!experts && m.experts > 0)
    fail(ErrorKind::bad_input, where, "got no E of a model with experts, need one at least");
  if (m.dense_layers > 0)
    fail(ErrorKind::bad_input, object.path("dense_layers"), "with hybrid_pattern, got {}, need 0, and letters -",
         m.dense_layers);
}

// Reads what `object` has of a model into `m`. `complete`: whether it must have every size.
void read_sizes(ObjectReader& object, bool complete, ModelSpec& m) {
  bool widened = false, ffn = false;
  for (const Size& s : kSizes) {
    const bool optional = s.field == &ModelSpec::ffn;
    const json* given = complete && !optional ? &object.require(s.key, "a whole number") : object.find(s.key);
    if (!given) continue;
    m.*s.field = read_int(*given, object.path(s.key), 1, s.high);
    widened = widened || s.field == &ModelSpec::hidden;
    ffn = ffn || optional;
  }
  if (widened && !ffn) m.ffn = 4 * m.hidden;
  for (const Size& s : kOptionalSizes)
    if (const json* given = object.find(s.key)) m.*s.field = read_int(*given, object.path(s.key), 0, s.high);
  read_pattern(object, m);
  if (m.labels == 1)
    fail(ErrorKind::bad_input, object.path("labels"),
         "one class of samples, got 1, need 2 or more, or 0, which predicts words");
  if (m.experts == 0) {
    for (const auto& [key, field] : {std::pair("active_experts", &ModelSpec::active_experts),
                                     {"shared_experts", &ModelSpec::shared_experts},
                                     {"expert_ffn", &ModelSpec::expert_ffn},
                                     {"shared_expert_ffn", &ModelSpec::shared_expert_ffn},
                                     {"dense_layers", &ModelSpec::dense_layers},
                                     {"moe_latent", &ModelSpec::moe_latent}})
      if (m.*field > 0)
        fail(ErrorKind::bad_input, object.path(key), "of an MoE, got {}, need \"experts\" too", m.*field);
    return;
  }
  if (m.active_experts < 1 || m.active_experts > m.experts)
    fail(ErrorKind::bad_input, object.path("active_experts"),
         "experts that a token visits, got {}, need 1 to {}, the experts there are", m.active_experts, m.experts);
  if (m.shared_expert_ffn > 0 && m.shared_experts == 0)
    fail(ErrorKind::bad_input, object.path("shared_expert_ffn"),
         "without a shared expert, got {}, need \"shared_experts\" of at least 1 too", m.shared_expert_ffn);
  if (m.dense_layers >= m.layers)
    fail(ErrorKind::bad_input, object.path("dense_layers"),
         "layers without experts, got {} of {}, need at most {}, or a model with experts 0", m.dense_layers, m.layers,
         m.layers - 1);
}

void read_parts(ObjectReader& object, ModelSpec& m) {
  ModelParts parts = m.parts();
  for (const PartField& field : part_fields())
    if (const json* given = find_part(object, field)) field.read(parts, *given, object.path(field.key));
  const RoutingSpec& r = parts.routing;
  const auto routing = [&](const char* key) { return object.path("routing") + "." + key; };
  if (m.experts > 0 && (r.groups < 1 || m.experts % r.groups != 0))
    fail(ErrorKind::bad_input, routing("groups"), "got {}, need a divisor of the {} experts, {}", r.groups, m.experts,
         nearest_divisors(r.groups, m.experts));
  if (m.experts > 0 && r.chosen_groups * (m.experts / r.groups) < m.active_experts)
    fail(ErrorKind::bad_input, routing("chosen_groups"),
         "got {} groups of {} experts, need at least {} to choose {} experts from", r.chosen_groups,
         m.experts / r.groups, (m.active_experts + m.experts / r.groups - 1) / (m.experts / r.groups),
         m.active_experts);
  if (m.experts > 0 && r.group_score == GroupScore::best_two && r.groups > 1 && m.experts / r.groups < 2)
    fail(ErrorKind::bad_input, routing("group_score"), "best_two of groups of one expert, need best");
  m.own_parts = parts == parts_of_family(m.family) ? std::nullopt : std::optional(parts);
  // Rules of a preset are of its parts: they are read again, onto those that there are now.
  const json* given = object.find("layers_of");
  if (given || !m.layers_of.empty())
    m.layers_of = read_layers_of(m, given ? *given : write_layers_of(m), object.path("layers_of"));
}

// Sizes and parts as a JSON object; of parts and optional sizes those that are not at their default.
template <class Json>
void write_all(const ModelSpec& m, Json& out) {
  out["family"] = m.family;
  for (const Size& s : kSizes) out[s.key] = m.*s.field;
  for (const Size& s : kOptionalSizes)
    if (m.*s.field != 0) out[s.key] = m.*s.field;
  if (!m.hybrid_pattern.empty()) out["hybrid_pattern"] = m.hybrid_pattern;
  if (!m.layers_of.empty()) out["layers_of"] = write_layers_of(m);
  if (!m.own_parts) return;
  for (const PartField& field : part_fields())
    if (const json own = field.write(*m.own_parts); own != field.write(parts_of_family(m.family))) out[field.key] = own;
}

}  // namespace

const ModelParts& ModelSpec::parts() const {
  return own_parts ? *own_parts : parts_of_family(family);
}

bool ModelSpec::has_experts(std::int64_t layer) const {
  if (experts == 0 || layer < dense_layers) return false;
  if (layer < static_cast<std::int64_t>(hybrid_pattern.size()))
    return hybrid_pattern[static_cast<std::size_t>(layer)] == 'E';
  return std::none_of(layers_of.begin(), layers_of.end(),
                      [&](const LayerRule& rule) { return rule.dense && rule.holds(layer); });
}

std::optional<MixerKind> ModelSpec::mixer_at(std::int64_t layer) const {
  if (layer >= static_cast<std::int64_t>(hybrid_pattern.size())) {
    MixerKind kind = parts().mixer;
    for (const LayerRule& rule : layers_of)
      if (rule.holds(layer) && std::find(rule.keys.begin(), rule.keys.end(), "mixer") != rule.keys.end())
        kind = rule.parts.mixer;
    return kind;
  }
  switch (hybrid_pattern[static_cast<std::size_t>(layer)]) {
    case 'M':
      return MixerKind::mamba2;
    case 'G':
      return MixerKind::gated_delta;
    case 'S':
      return MixerKind::mamba;
    case 'C':
      return MixerKind::short_conv;
    case 'L':
      return MixerKind::lightning;
    case '*':
      return MixerKind::attention;
    default:
      return std::nullopt;
  }
}

bool ModelSpec::mixes(MixerKind kind) const {
  if (kind == MixerKind::attention && parts().branches == Branches::parallel_mixers) return true;
  if (layers_of.empty() && hybrid_pattern.empty()) return layers + mtp_layers > 0 && parts().mixer == kind;
  for (std::int64_t layer = 0; layer < layers + mtp_layers; ++layer)
    if (mixer_at(layer) == kind) return true;
  return false;
}

std::vector<std::int64_t> ModelSpec::attention_chunks() const {
  if (!any_layer([](const ModelParts& l) { return l.attention_chunk > 0; })) return {0};
  std::set<std::int64_t> chunks;
  for (std::int64_t layer = 0; layer < layers + mtp_layers; ++layer)
    if (mixer_at(layer) == MixerKind::attention || parts().branches == Branches::parallel_mixers)
      chunks.insert(at_layer(layer).parts().attention_chunk);
  return {chunks.begin(), chunks.end()};
}

ModelSpec ModelSpec::at_layer(std::int64_t layer) const {
  ModelSpec own = *this;
  const bool lettered = layer < static_cast<std::int64_t>(hybrid_pattern.size());
  own.hybrid_pattern = lettered ? hybrid_pattern.substr(static_cast<std::size_t>(layer), 1) : "";
  if (!has_experts(layer)) own.experts = 0;
  own.dense_layers = 0;
  own.layers_of.clear();
  if (layers_of.empty()) return own;
  ModelParts changed = parts();
  for (const LayerRule& rule : layers_of)
    if (rule.holds(layer))
      for (const PartField& part : part_fields())
        if (part.copy && std::find(rule.keys.begin(), rule.keys.end(), part.key) != rule.keys.end())
          part.copy(changed, rule.parts);
  if (!(changed == parts())) own.own_parts = changed;
  return own;
}

const std::vector<std::string>& family_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, parts] : families()) all.push_back(name);
    return all;
  }();
  return names;
}

const ModelParts& parts_of_family(const std::string& family) {
  const auto it = families().find(family);
  if (it == families().end())
    fail(ErrorKind::internal, "model", "no family {}, {}", family, nearest_choice(family, family_names()));
  return it->second;
}

const std::vector<ModelSpec>& model_presets() {
  static const std::vector<ModelSpec> presets = [] {
    std::vector<ModelSpec> all;
    for (const auto& [file, text] : model_files::files()) {
      const std::string where = "engine/point/models/" + file + ".json";
      const json top = parse_json(text, where);
      ObjectReader reader(top, where + ": $");
      reader.require("source", "where the sizes were published");
      const std::string family = read_family(reader.require("family", "a family"), reader.path("family"));
      const json& models = reader.require("models", "an object of models by name");
      reader.refuse_unknown();
      for (const auto& [name, sizes] : models.items()) {
        ObjectReader object(sizes, reader.path("models." + name));
        ModelSpec m;
        m.name = name;
        m.family = family;
        read_sizes(object, true, m);
        read_parts(object, m);
        object.find("about");
        object.refuse_unknown();
        check_heads(m, reader.path("models." + name));
        all.push_back(m);
      }
    }
    return all;
  }();
  return presets;
}

const ModelSpec& find_preset(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const ModelSpec& m : model_presets()) {
    if (m.name == name) return m;
    names.push_back(m.name);
  }
  // By its name on Hugging Face.
  if (const std::string known = name_within(name, names); !known.empty()) return find_preset(known, where);
  fail(ErrorKind::bad_input, where, "no such model, got \"{}\", {}", name, nearest_choice(name, names));
}

ModelSpec read_model(const json& value, const std::string& where) {
  if (value.is_string()) return find_preset(value.get<std::string>(), where);
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need the name of a preset or an object", short_json(value));
  ObjectReader object(value, where);
  ModelSpec m;
  m.name = "custom";
  const json* preset = object.find("preset");
  if (preset) m = find_preset(read_string(*preset, object.path("preset")), object.path("preset"));
  if (const json* name = object.find("name")) m.name = read_string(*name, object.path("name"));
  if (const json* family = object.find("family")) {
    m.family = read_family(*family, object.path("family"));
    m.own_parts.reset();
  } else if (!preset) {
    object.require("family", fmt::format("one of {}, or \"preset\" with the model it starts from",
                                         fmt::join(family_names(), ", ")));
  }
  read_sizes(object, preset == nullptr, m);
  read_parts(object, m);
  object.refuse_unknown();
  check_heads(m, where);
  return m;
}

ordered_json model_schema() {
  ordered_json presets = ordered_json::array(), properties = ordered_json::object();
  for (const ModelSpec& m : model_presets()) presets.push_back(m.name);
  properties["preset"] = {{"enum", presets}};
  properties["name"] = {{"type", "string"}};
  properties["family"] = {{"enum", family_names()}};
  for (const Size& s : kSizes) properties[s.key] = {{"type", "integer"}, {"minimum", 1}, {"maximum", s.high}};
  for (const Size& s : kOptionalSizes) properties[s.key] = {{"type", "integer"}, {"minimum", 0}, {"maximum", s.high}};
  for (const PartField& field : part_fields())
    properties[field.key] = ordered_json::object();  // each part's reader knows
  for (const PartField& field : part_fields())
    if (!field.also.empty()) properties[field.also] = ordered_json::object();
  properties["hybrid_pattern"] = {{"type", "string"}};
  properties["layers_of"] = {{"type", "array"}, {"items", {{"type", "object"}}}};
  const auto required = [](const char* key) { return ordered_json{{"required", ordered_json::array({key})}}; };
  ordered_json object = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  object["anyOf"] = ordered_json::array({required("preset"), required("family")});
  return {{"anyOf", ordered_json::array({ordered_json{{"enum", presets}}, object})}};
}

ordered_json write_model(const ModelSpec& m) {
  for (const ModelSpec& preset : model_presets())
    if (preset == m) return m.name;
  ordered_json out = {{"name", m.name}};
  write_all(m, out);
  return out;
}

json model_identity(const ModelSpec& m) {
  json out = json::object();
  write_all(m, out);
  return out;
}

std::optional<std::int64_t> known_parameter_count(const ModelSpec& m, std::int64_t tp, std::int64_t multiple) {
  try {
    return parameter_count(m, tp, multiple);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::unsupported) throw;
    return std::nullopt;
  }
}

std::int64_t parameter_count(const ModelSpec& m, std::int64_t tp, std::int64_t multiple) {
  std::int64_t n = 0;
  for (const WeightSpec& w : weights_of(m, m.padded_vocab(tp, multiple)))
    if (!w.tied) n += w.shape.numel();
  return n;
}

}  // namespace mbench
