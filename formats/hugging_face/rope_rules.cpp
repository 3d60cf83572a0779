// Angles of rotary positions: base, fraction, and a scaling, which version 5 has in one object, or in one for each kind of layer.
#include <algorithm>
#include <cmath>

#include "engine/base/json_reader.h"
#include "formats/hugging_face/rules.h"

namespace mbench::formats {
namespace {

// Of every scaling: their key and ours.
struct Name {
  const char *theirs, *ours;
};
constexpr Name kFactor = {"factor", "factor"}, kPositions = {"original_max_position_embeddings", "original_positions"},
               kMagnitude = {"attention_factor", "attention_factor"};

// The members of a scaling of that type, llama3 where a spec names none.
std::vector<Name> names_of(const json& type) {
  if (type == "llama3")
    return {kFactor,
            kPositions,
            {"low_freq_factor", "low_frequency_factor"},
            {"high_freq_factor", "high_frequency_factor"}};
  if (type == "yarn")
    return {kFactor,
            kPositions,
            {"beta_slow", "low_frequency_factor"},
            {"beta_fast", "high_frequency_factor"},
            kMagnitude,
            {"truncate", "truncate"}};
  if (type == "longrope")
    return {kFactor, kPositions, {"short_factor", "short_factors"}, {"long_factor", "long_factors"}, kMagnitude};
  return {kFactor, kPositions};
}

bool says(const json& value) {
  return value.is_number() && value != 0;
}

// YaRN's factor on magnitudes for a length that is `factor` times as long (transformers: yarn_get_mscale).
double grown(double factor, double by) {
  return factor <= 1 ? 1 : 0.1 * by * std::log(factor) + 1;
}

// Latent attention multiplies scores by the square of that, of mscale_all_dim (transformers: yarn_apply_mscale).
double scale_of_scores(double factor, double all_dim, double width) {
  const double magnitude = grown(factor, all_dim);
  return magnitude * magnitude / std::sqrt(width);
}

void read_mscale(Reading& r, const json& scaling, json& ours) {
  const json mscale = member(scaling, "mscale"), all = member(scaling, "mscale_all_dim");
  const double factor = ours["factor"].get<double>();
  if (says(mscale) && says(all) && !ours.contains("attention_factor"))
    ours["attention_factor"] = as_number(grown(factor, mscale.get<double>()) / grown(factor, all.get<double>()));
  const auto plain = r.get("model.qk_nope_head_dim"), turned = r.get("model.qk_rope_head_dim");
  if (!says(all) || factor <= 1 || !plain || !turned || !plain->is_number() || !turned->is_number()) return;
  r.set("model.attention_scale",
        scale_of_scores(factor, all.get<double>(), plain->get<double>() + turned->get<double>()));
}

// The mscale_all_dim that gives the scale of scores, with few digits where that gives the same.
void write_mscale(Writing& w, json& theirs) {
  const double scale = w.number("model.attention_scale");
  if (scale == 0 || w.at("model.attention_form") != "latent") return;
  const double width = w.number("model.qk_nope_head_dim") + w.number("model.qk_rope_head_dim");
  const double factor = theirs.value("factor", 1.0);
  const double all = factor <= 1 || theirs.value("rope_type", "") != "yarn"
                         ? 0
                         : (std::sqrt(scale * std::sqrt(width)) - 1) / (0.1 * std::log(factor));
  if (all <= 0) return w.cannot("model.attention_scale");
  const double few = std::round(all * 1e9) / 1e9;
  theirs["mscale_all_dim"] = scale_of_scores(factor, few, width) == scale ? few : all;
}

// Phi's older names of longrope.
json type_of(const json& scaling) {
  json type = member(scaling, "rope_type");
  if (type.is_null()) type = member(scaling, "type");
  const bool lists = scaling.is_object() && scaling.contains("short_factor");
  if (type == "deepseek_yarn") return "yarn";
  return type == "su" || (type == "yarn" && lists) ? json("longrope") : type;
}

// Angles of longrope: two lists, and the length that decides between them. Phi has that beside the scaling, where it counts; and no factor.
void read_lists(Reading& r, const json& scaling, const json& absent, json& ours) {
  if (const json original = r.value("original_max_position_embeddings", absent); original.is_number())
    ours["original_positions"] = original;
  const auto positions = r.get("model.positions");
  if (!ours.contains("original_positions") && positions) ours["original_positions"] = *positions;
  const json original = member(ours, "original_positions");
  if (!ours.contains("factor") && positions && positions->is_number() && says(original))
    ours["factor"] = as_number(std::max(1.0, positions->get<double>() / original.get<double>()));
  const json near = member(scaling, "short_mscale"), far = member(scaling, "long_mscale");
  if (near != far) return r.lack("rope_scaling", "angles of another magnitude where sequences are long");
  if (says(near)) ours["attention_factor"] = near;
}

// `original`: the length before scaling where no key says it, of a class that has one.
void read_rope_from(Reading& r, const json& original) {
  json together = r.value("rope_parameters");
  if (const json full = member(together, "full_attention"); full.is_object()) together = full;
  const json scaling = together.is_object() ? together : r.value("rope_scaling");
  if (const json base = member(together, "rope_theta"); base.is_number()) r.set("model.rope.base", base);
  if (const json part = member(together, "partial_rotary_factor"); part.is_number()) r.set("model.rope.fraction", part);
  const json type = type_of(scaling);
  if (type.is_null() || type == "default") {
    if (!together.is_object() && !scaling.is_null() && type.is_null())
      r.note(
          fmt::format("rope_scaling {} names no type: left out, angles do not change the cost", short_json(scaling)));
    return;
  }
  if (type == "llama3") {
    for (const Name& name : names_of(type))
      if (const json value = member(scaling, name.theirs); !value.is_null())
        r.set(fmt::format("model.rope.scaling.{}", name.ours), value);
    return;
  }
  if (type != "linear" && type != "dynamic" && type != "yarn" && type != "longrope") {
    r.note(fmt::format("{} {} turns by other angles at the same cost: left out",
                       together.is_object() ? "rope_parameters" : "rope_scaling", short_json(type)));
    return;
  }
  json ours = {{"type", type}};
  for (const Name& name : names_of(type))
    if (const json value = member(scaling, name.theirs); !value.is_null()) ours[name.ours] = value;
  if (type == "longrope") read_lists(r, scaling, original, ours);
  if (!member(ours, "factor").is_number()) return;
  const auto positions = r.get("model.positions");
  if (!ours.contains("original_positions") && positions) ours["original_positions"] = *positions;
  if (type == "yarn") read_mscale(r, scaling, ours);
  if (const json alpha = member(scaling, "alpha"); !alpha.is_null())
    r.note(fmt::format("the alpha {} of a scaling is left out: it turns by other angles at the same cost",
                       short_json(alpha)));
  r.set("model.rope.scaling", ours);
}
void read_rope(Reading& r) {
  read_rope_from(r, nullptr);
}

json longrope_of(Writing& w) {
  const json scaling = w.at("model.rope.scaling");
  return member(scaling, "type") == "longrope" ? scaling : json();
}

void write_rope_scaling(Writing& w) {
  const json scaling = w.at("model.rope.scaling");
  json theirs = scaling.is_null() ? json::object() : rope_scaling_of(scaling);
  write_mscale(w, theirs);
  if (!scaling.is_null()) w.put("rope_scaling", theirs);
}
// Only Phi's classes turn a part of a head's columns by lists of factors.
void write_rope(Writing& w) {
  if (!longrope_of(w).is_null() && w.number("model.rope.fraction") != 1) w.cannot("model.rope.fraction");
  write_rope_scaling(w);
}

// Phi-3's class has a length before scaling also where its config does not say it.
void read_rope_of_phi3(Reading& r) {
  read_rope_from(r, 4096);
}
void write_rope_of_phi3(Writing& w) {
  write_rope_scaling(w);
  if (const json scaling = longrope_of(w); !scaling.is_null())
    w.put("original_max_position_embeddings", scaling.at("original_positions"));
}

// Phi-3.5-MoE says the magnitude of its angles twice, for short and for long sequences.
void write_rope_of_phimoe(Writing& w) {
  const json scaling = longrope_of(w);
  if (scaling.is_null()) return write_rope_scaling(w);
  json theirs = rope_scaling_of(scaling);
  const json magnitude = member(scaling, "attention_factor");
  theirs.erase("attention_factor");
  if (!says(magnitude)) w.cannot("model.rope.scaling", "an attention_factor");
  theirs["short_mscale"] = theirs["long_mscale"] = magnitude;
  w.put("rope_scaling", theirs);
}

// GPT-J turns so many columns of a head.
void read_rotary_dim(Reading& r) {
  const json columns = r.value("rotary_dim", 64);
  const auto hidden = r.get("model.hidden"), heads = r.get("model.heads");
  if (!columns.is_number() || !hidden || !heads || !hidden->is_number() || !heads->is_number()) return;
  r.set("model.rope.fraction", columns.get<double>() * heads->get<double>() / hidden->get<double>());
}
void write_rotary_dim(Writing& w) {
  w.put("rotary_dim",
        static_cast<std::int64_t>(std::lround(w.number("model.rope.fraction") * w.number("model.head_dim"))));
}

// The same of MiniMax-M2, where it is given; the fraction of version 5 counts as ever.
void read_rotary_dim_of_head(Reading& r) {
  const json columns = r.value("rotary_dim");
  if (const auto width = r.get("model.head_dim"); columns.is_number() && width && width->is_number())
    r.set("model.rope.fraction", columns.get<double>() / width->get<double>());
}
// GPT-OSS turns by YaRN's angles where nothing else is said.
void read_rope_of_gpt_oss(Reading& r) {
  if (!r.value("rope_parameters").is_null() || !r.value("rope_scaling").is_null()) return read_rope(r);
  r.set("model.rope.scaling", {{"type", "yarn"},
                               {"factor", 32},
                               {"original_positions", 4096},
                               {"low_frequency_factor", 1},
                               {"high_frequency_factor", 32},
                               {"truncate", false}});
}
void write_rope_of_gpt_oss(Writing& w) {
  if (w.at("model.rope.scaling").is_null()) return w.put("rope_scaling", {{"rope_type", "default"}});
  write_rope(w);
}

// Apertus turns by LLaMA 3.1's where nothing else is said, and is written as GPT-OSS is.
void read_rope_of_apertus(Reading& r) {
  if (!r.value("rope_parameters").is_null() || !r.value("rope_scaling").is_null()) return read_rope(r);
  r.set("model.rope.scaling",
        {{"factor", 8}, {"low_frequency_factor", 1}, {"high_frequency_factor", 4}, {"original_positions", 8192}});
}

// CWM turns by LLaMA 3.1's, 16 times more slowly, where nothing else is said.
void read_rope_of_cwm(Reading& r) {
  if (!r.value("rope_parameters").is_null() || !r.value("rope_scaling").is_null()) return read_rope(r);
  r.set("model.rope.scaling",
        {{"factor", 16}, {"low_frequency_factor", 1}, {"high_frequency_factor", 4}, {"original_positions", 8192}});
}

// Ministral 3 turns by YaRN's angles too where nothing else is said. Its queries grow with their position, by an entry among the angles' parameters.
void read_rope_of_ministral3(Reading& r) {
  json rope = r.value("rope_parameters");
  if (!rope.is_object()) rope = r.value("rope_scaling");
  if (rope.is_object()) {
    read_rope(r);
  } else {
    rope = {{"original_max_position_embeddings", 16384}, {"llama_4_scaling_beta", 0.1}};
    r.set("model.rope.scaling", {{"type", "yarn"},
                                 {"factor", 16},
                                 {"original_positions", 16384},
                                 {"low_frequency_factor", 1},
                                 {"high_frequency_factor", 32},
                                 {"attention_factor", 1}});
  }
  const json beta = member(rope, "llama_4_scaling_beta"), floor = member(rope, "original_max_position_embeddings");
  if (beta.is_number() && beta != 0 && floor.is_number())
    r.set("model.attention_temperature", {{"scale", beta}, {"floor", floor}, {"first", 0}});
}

}  // namespace

json rope_from(const json& parameters, const json& positions) {
  if (!parameters.is_object()) return json();
  json rope = json::object();
  if (const json base = member(parameters, "rope_theta"); base.is_number()) rope["base"] = base;
  if (const json part = member(parameters, "partial_rotary_factor"); part.is_number() && part != 1)
    rope["fraction"] = part;
  const json type = type_of(parameters);
  if (type != "llama3" && type != "linear" && type != "yarn") return rope;
  json scaling = json::object();
  if (type != "llama3") scaling["type"] = type;
  for (const Name& name : names_of(type))
    if (const json value = member(parameters, name.theirs); !value.is_null()) scaling[name.ours] = value;
  if (!scaling.contains("original_positions")) scaling["original_positions"] = positions;
  if (scaling.contains("factor")) rope["scaling"] = scaling;
  return rope;
}

json rope_parameters_of(const json& rope) {
  const json scaling = member(rope, "scaling"), base = member(rope, "base"), part = member(rope, "fraction");
  json theirs = scaling.is_null() ? json{{"rope_type", "default"}} : rope_scaling_of(scaling);
  theirs["rope_theta"] = base.is_null() ? json(10000) : base;
  if (!part.is_null() && part != 1) theirs["partial_rotary_factor"] = part;
  return theirs;
}

json rope_scaling_of(const json& scaling) {
  json type = member(scaling, "type");
  if (type.is_null()) type = "llama3";
  json theirs = {{"rope_type", type}};
  for (const Name& name : names_of(type))
    if (const json value = member(scaling, name.ours); !value.is_null()) theirs[name.theirs] = value;
  return theirs;
}

const std::vector<Rule>& rope_rules() {
  static const std::vector<Rule> rules = {{"rope", read_rope, write_rope},
                                          {"rope_of_phi3", read_rope_of_phi3, write_rope_of_phi3},
                                          {"rope_of_phimoe", read_rope, write_rope_of_phimoe},
                                          {"rotary_dim", read_rotary_dim, write_rotary_dim},
                                          {"rotary_dim_of_head", read_rotary_dim_of_head, write_nothing},
                                          {"rope_of_gpt_oss", read_rope_of_gpt_oss, write_rope_of_gpt_oss},
                                          {"rope_of_apertus", read_rope_of_apertus, write_rope_of_gpt_oss},
                                          {"rope_of_cwm", read_rope_of_cwm, write_rope_of_gpt_oss},
                                          {"rope_of_ministral3", read_rope_of_ministral3, write_nothing}};
  return rules;
}

}  // namespace mbench::formats
