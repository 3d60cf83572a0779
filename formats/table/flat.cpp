#include "formats/table/flat.h"

#include <algorithm>

#include "engine/base/json_reader.h"
#include "engine/framework/framework.h"
#include "engine/point/fields.h"
#include "engine/point/model_parts.h"
#include "engine/point/point.h"

namespace mbench::formats {
namespace {

// Of state mixers that do not say theirs (engine/point/architecture.cpp).
constexpr std::int64_t kConvWidth = 4, kMambaChunk = 256, kDeltaChunk = 64;

// Positions of a chunk of a model's scans where it does not say.
std::int64_t usual_chunk(const ModelSpec& m) {
  return m.mixes(MixerKind::mamba2) || m.mixes(MixerKind::lightning) ? kMambaChunk : kDeltaChunk;
}

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json flat_model(const ModelSpec& m) {
  ordered_json out(model_identity(m));
  out.erase("family");  // a name for parts, which all follow
  const bool latent = m.parts().attention_form == AttentionForm::latent,
             rotary = m.any_layer([](const ModelParts&layer) { return layer.position == PositionKind::rotary; });
  out["kv_heads"] = m.kv_heads == 0 ? m.heads : m.kv_heads;
  if (latent)
    out["q_lora_rank"] = m.q_lora_rank;
  else
    out["head_dim"] = m.head_dim();
  bool dense = true;  // whether a token meets a block that no router chose
  if (m.experts > 0) {
    out["expert_ffn"] = m.expert_ffn == 0 ? m.ffn : m.expert_ffn;
    // So many shared experts are one that is as wide.
    const std::int64_t one = m.expert_ffn == 0 ? m.ffn : m.expert_ffn, shared = m.shared_width();
    out["shared_experts"] = shared % one == 0 ? shared / one : 1;
    if (shared > 0) out["shared_expert_ffn"] = shared;
    out["dense_layers"] = m.dense_layers;
    const bool all =
        m.dense_layers == 0 && m.hybrid_pattern.find('-') == std::string::npos &&
        std::none_of(m.layers_of.begin(), m.layers_of.end(), [](const LayerRule& rule) { return rule.dense; });
    if (all) out["ffn"] = out["expert_ffn"];  // no layer has it
    dense = !all || shared > 0;
  }
  out["mtp_layers"] = m.mtp_layers;
  out["labels"] = m.labels;
  if (m.has_state_mixers()) {
    out["conv_width"] = m.conv_width == 0 ? kConvWidth : m.conv_width;
    if (m.state_chunk == 0 && (m.has_scans() || m.mixes(MixerKind::lightning))) out["state_chunk"] = usual_chunk(m);
  }
  for (const PartField& part : part_fields()) out[part.key] = part.write(m.parts());
  ModelParts biased = m.parts();  // with those of what no layer has as the others are
  if (m.experts == 0) {
    out.erase("routing");
    biased.bias.experts = biased.bias.dense, biased.bias.router = false;
    if (biased.bias != Biases(true)) biased.bias.experts = false;
  }
  if (!dense) biased.bias.dense = biased.bias.experts;
  for (const PartField& part : part_fields())
    if (std::string_view(part.key) == "bias") out["bias"] = part.write(biased);
  if (!rotary && !latent) out.erase("rope");
  if (m.parts().scan_norm == ScanNorm::none) out.erase("scan_norm_eps");
  if (m.mtp_layers == 0) out.erase("mtp_loss_scaling_factor"), out.erase("mtp_use_repeated_layer");
  return out;
}

// With every option that its preset has.
ordered_json flat_framework(const FrameworkSpec& framework) {
  ordered_json out = {{"preset", framework.preset}, {"host", framework_part(framework, "host")}};
  if (const FrameworkFile* preset = find_builtin(framework.preset))
    for (const FrameworkOption& option : preset->options()) out[option.name] = framework_part(framework, option.name);
  for (const auto& [option, value] : framework.options) out[option] = framework_part(framework, option);
  return out;
}

ordered_json flat_precision(const PrecisionSpec& precision) {
  const ordered_json written = write_precision(precision);
  ordered_json out = {};
  for (const char* key : {"gradients", "moments", "main_weights", "fp8_recipe", "fp8_parameters",
                          "first_layers_in_bf16", "last_layers_in_bf16"})
    out[key] = precision_part(precision, key);
  if (written.is_object()) out.update(written);
  out["preset"] = name_of(precision.precision);  // and not mxfp8, which the recipe says
  return out;
}

}  // namespace

void set_field(ordered_json& object, std::string_view path, const json& value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (dot == std::string_view::npos) {
    object[key] = ordered_json(value);
    return;
  }
  if (!object.contains(key)) object[key] = ordered_json::object();
  set_field(object[key], path.substr(dot + 1), value);
}

const ordered_json* find_field_of(const ordered_json& object, std::string_view path) {
  const std::size_t dot = path.find('.');
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(path.substr(0, dot)));
  if (found == object.end()) return nullptr;
  return dot == std::string_view::npos ? &*found : find_field_of(*found, path.substr(dot + 1));
}

ordered_json flat_point(const Point& point) {
  ordered_json out = point_to_json(point);
  out["model"] = flat_model(point.model);
  out["framework"] = flat_framework(point.framework);
  out["precision"] = flat_precision(point);
  // What pads to the same number of rows is the same.
  const std::int64_t multiple = point.vocab_multiple_used();
  out["vocab_multiple"] =
      point.model.padded_vocab(point.tp, multiple) == point.model.padded_vocab(point.tp, 1) ? 1 : multiple;
  return out;
}

std::vector<std::string> differences(const ordered_json& wanted, const ordered_json& got, const std::string& path) {
  if (wanted == got) return {};
  if (!wanted.is_object() || !got.is_object())
    return {fmt::format("{} {} (it would be {})", path, short_json(json(wanted)), short_json(json(got)))};
  std::vector<std::string> all;
  const auto add = [&](const std::string& key) {
    if (key == "name") return;  // a label
    const ordered_json none;
    const auto one = wanted.find(key), other = got.find(key);
    const std::vector<std::string> more = differences(
        one == wanted.end() ? none : *one, other == got.end() ? none : *other, path.empty() ? key : path + "." + key);
    all.insert(all.end(), more.begin(), more.end());
  };
  for (const auto& [key, value] : wanted.items()) add(key);
  for (const auto& [key, value] : got.items())
    if (!wanted.contains(key)) add(key);
  return all;
}

std::vector<std::string> lost_fields(const ordered_json& wanted, const ordered_json& got) {
  std::vector<std::string> all;
  for (const PointField& field : point_fields()) {
    const bool elsewhere = field.kind == FieldKind::limit || field.kind == FieldKind::place;
    if (elsewhere || field.key == "iterations" || field.key == "warmup" || field.key == "data" ||
        field.key == "strategy")
      continue;
    const std::vector<std::string> more = differences(wanted.at(field.key), got.at(field.key), field.key);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

ordered_json tidy_spec(const ordered_json& spec, const std::string& where) {
  ordered_json fields = spec;
  for (const char* key : {"$schema", "name", "tables", "published"}) fields.erase(key);
  Point point = point_from_json(json(fields), where);
  ordered_json plain = point_to_json(Point()), out = ordered_json::object();
  // What attention and experts have as a dense model would, they need not say.
  ModelSpec& m = point.model;
  if (m.kv_heads == m.heads) m.kv_heads = 0;
  if (m.head_size != 0 && m.hidden % m.heads == 0 && m.head_size == m.hidden / m.heads) m.head_size = 0;
  if (m.experts > 0 && m.expert_ffn == m.ffn) m.expert_ffn = 0;
  if (m.conv_width == kConvWidth) m.conv_width = 0;
  if (m.state_chunk == usual_chunk(m)) m.state_chunk = 0;
  out["model"] = write_model(m);
  for (const auto& [key, value] : spec.items()) {
    const PointField* field = find_field(key);
    if (key == "model") continue;
    const ordered_json shortest = key == "framework"   ? write_framework(point.framework)
                                  : key == "precision" ? write_precision(point)
                                                       : value;
    if (!field || field->reported || !plain.contains(key) || plain.at(key) != shortest) out[key] = shortest;
  }
  return out;
}

}  // namespace mbench::formats
