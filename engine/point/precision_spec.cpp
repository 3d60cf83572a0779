#include "engine/point/precision_spec.h"

#include "engine/base/json_reader.h"
#include "engine/point/field_values.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kMxfp8 = "mxfp8";

// A type of something that is f32 unless it is bf16.
bool read_in_bf16(const json& value, const std::string& where) {
  if (value == "f32") return false;
  if (value == "bf16") return true;
  fail(ErrorKind::bad_input, where, "no such choice, got {}, need f32 or bf16", short_json(value));
}

void read_preset(PrecisionSpec& spec, const json& value, const std::string& where) {
  if (value == kMxfp8) {
    spec.precision = Precision::fp8, spec.fp8_recipe = Fp8Recipe::mxfp8;
    return;
  }
  for (const NamedChoice<Precision>& choice : choices_of<Precision>())
    if (value == choice.name) {
      spec.precision = choice.value;
      // A recipe that was said by the name goes with it.
      if (spec.fp8_recipe == Fp8Recipe::mxfp8 && choice.value != Precision::fp8)
        spec.fp8_recipe = Fp8Recipe::tensorwise;
      return;
    }
  std::vector<std::string> names;
  for (const FieldChoice& preset : precision_presets()) names.push_back(preset.name);
  fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value),
       nearest_choice(value.is_string() ? value.get<std::string>() : value.dump(), names));
}

bool is_mxfp8(const PrecisionSpec& spec) {
  return spec.precision == Precision::fp8 && spec.fp8_recipe == Fp8Recipe::mxfp8;
}

std::string preset_of(const PrecisionSpec& spec) {
  return is_mxfp8(spec) ? kMxfp8 : std::string(name_of(spec.precision));
}

// Gradients have the type of 16-bit fp16 weights, or f32; a flag says where they have not.
void read_gradients(PrecisionSpec& spec, const json& value, const std::string& where) {
  const bool fp16 = spec.precision == Precision::fp16;
  spec.gradients_in_f32 = fp16 && value == "f32";
  spec.gradients_in_bf16 = !fp16 && value == "bf16";
  if (!spec.gradients_in_f32 && !spec.gradients_in_bf16 && value != usual_gradients(spec.precision))
    fail(ErrorKind::bad_input, where, "no such choice with preset {}, got {}, need {}", name_of(spec.precision),
         short_json(value), fp16 ? "fp16 or f32" : "f32 or bf16");
}

std::int64_t read_layers(const json& value, const std::string& where) {
  return read_int(value, where, 0, kMostLayersInBf16);
}

const char* type_name(bool in_bf16) {
  return in_bf16 ? "bf16" : "f32";
}

// A key of the object: how a spec says it, and what it says.
struct Part {
  const char* key;
  void (*read)(PrecisionSpec&, const json&, const std::string& where);
  ordered_json (*write)(const PrecisionSpec&);
};
const Part kParts[] = {
    {"preset", read_preset, [](const PrecisionSpec& s) -> ordered_json { return preset_of(s); }},
    {"gradients", read_gradients,
     [](const PrecisionSpec& s) -> ordered_json {
       return s.gradients_in_f32 ? "f32" : s.gradients_in_bf16 ? "bf16" : usual_gradients(s.precision);
     }},
    {"moments",
     [](PrecisionSpec& s, const json& v, const std::string& where) { s.moments_in_bf16 = read_in_bf16(v, where); },
     [](const PrecisionSpec& s) -> ordered_json { return type_name(s.moments_in_bf16); }},
    {"main_weights",
     [](PrecisionSpec& s, const json& v, const std::string& where) { s.main_weights_in_bf16 = read_in_bf16(v, where); },
     [](const PrecisionSpec& s) -> ordered_json { return type_name(s.main_weights_in_bf16); }},
    {"fp8_recipe",
     [](PrecisionSpec& s, const json& v, const std::string& where) { s.fp8_recipe = read_named<Fp8Recipe>(v, where); },
     [](const PrecisionSpec& s) -> ordered_json { return name_of(s.fp8_recipe); }},
    {"fp8_parameters",
     [](PrecisionSpec& s, const json& v, const std::string& where) { s.fp8_parameters = read_bool(v, where); },
     [](const PrecisionSpec& s) -> ordered_json { return s.fp8_parameters; }},
    {"first_layers_in_bf16",
     [](PrecisionSpec& s, const json& v, const std::string& where) { s.first_layers_in_bf16 = read_layers(v, where); },
     [](const PrecisionSpec& s) -> ordered_json { return s.first_layers_in_bf16; }},
    {"last_layers_in_bf16",
     [](PrecisionSpec& s, const json& v, const std::string& where) { s.last_layers_in_bf16 = read_layers(v, where); },
     [](const PrecisionSpec& s) -> ordered_json { return s.last_layers_in_bf16; }},
};

const Part* find_part(const std::string& key) {
  for (const Part& part : kParts)
    if (key == part.key) return &part;
  return nullptr;
}

}  // namespace

const char* usual_gradients(Precision preset) {
  return preset == Precision::fp16 ? "fp16" : "f32";
}

void set_precision_part(PrecisionSpec& spec, const std::string& part, const json& value, const std::string& where) {
  if (const Part* found = find_part(part)) return found->read(spec, value, where);
  std::vector<std::string> keys;
  for (const Part& each : kParts) keys.emplace_back(each.key);
  fail(ErrorKind::bad_input, where, "unknown key, got \"{}\", {}", part, nearest_choice(part, keys));
}

ordered_json precision_part(const PrecisionSpec& spec, const std::string& part) {
  const Part* found = find_part(part);
  return found ? found->write(spec) : ordered_json(nullptr);
}

void read_precision(PrecisionSpec& spec, const json& value, const std::string& where) {
  if (!value.is_object()) {
    read_preset(spec, value, where);
    return;
  }
  ObjectReader reader(value, where);
  PrecisionSpec read;
  reader.require("preset", "the precision of weights and activations");
  for (const Part& part : kParts)
    if (const json* given = reader.find(part.key)) part.read(read, *given, reader.path(part.key));
  // What a preset does not have can be written all the same, as a point that is refused has it.
  const auto flag = [&](const char* key, bool& member) {
    if (const json* given = reader.find(key)) member = read_bool(*given, reader.path(key));
  };
  flag("gradients_in_f32", read.gradients_in_f32);
  flag("gradients_in_bf16", read.gradients_in_bf16);
  reader.refuse_unknown();
  spec = read;
}

ordered_json write_precision(const PrecisionSpec& spec) {
  ordered_json object = {{"preset", preset_of(spec)}};
  const bool fp16 = spec.precision == Precision::fp16;
  if (spec.gradients_in_f32 && fp16 && !spec.gradients_in_bf16)
    object["gradients"] = "f32";
  else if (spec.gradients_in_bf16 && !fp16 && !spec.gradients_in_f32)
    object["gradients"] = "bf16";
  else {
    if (spec.gradients_in_f32) object["gradients_in_f32"] = true;
    if (spec.gradients_in_bf16) object["gradients_in_bf16"] = true;
  }
  if (spec.moments_in_bf16) object["moments"] = "bf16";
  if (spec.main_weights_in_bf16) object["main_weights"] = "bf16";
  if (spec.fp8_recipe != Fp8Recipe::tensorwise && !is_mxfp8(spec)) object["fp8_recipe"] = name_of(spec.fp8_recipe);
  if (spec.fp8_parameters) object["fp8_parameters"] = true;
  if (spec.first_layers_in_bf16 != 0) object["first_layers_in_bf16"] = spec.first_layers_in_bf16;
  if (spec.last_layers_in_bf16 != 0) object["last_layers_in_bf16"] = spec.last_layers_in_bf16;
  return object.size() == 1 ? object.at("preset") : object;
}

std::vector<FieldChoice> precision_presets() {
  std::vector<FieldChoice> all = documented<Precision>();
  all.push_back({kMxfp8, "`fp8` with `fp8_recipe: mxfp8`: MX's scales of 32 elements, on Blackwell and CDNA 4."});
  return all;
}

ordered_json precision_schema() {
  const auto described = [](ordered_json schema, const char* doc) {
    schema["description"] = doc;
    return schema;
  };
  const auto names = [](std::initializer_list<const char*> values) {
    ordered_json all = ordered_json::array();
    for (const char* value : values) all.push_back(value);
    return ordered_json{{"enum", std::move(all)}};
  };
  ordered_json properties = {
      {"preset", described(choices_schema(precision_presets()), "Types of weights, activations and GEMMs.")},
      {"gradients",
       described(names({"f32", "bf16", "fp16"}),
                 "In which type gradients accumulate and are reduced. Default: fp16 with fp16, else f32.")},
      {"moments",
       described(names({"f32", "bf16"}), "Adam's moments of 16-bit weights (--exp-avg-dtype, --exp-avg-sq-dtype).")},
      {"main_weights",
       described(names({"f32", "bf16"}), "bf16: no f32 main weights; the optimizer updates bf16 weights.")},
      {"fp8_recipe", described(choices_schema(documented<Fp8Recipe>()), "With fp8: where scales come from.")},
      {"fp8_parameters",
       described({{"type", "boolean"}}, "With fp8: the weights of its GEMMs live in FP8 only (--fp8-param-gather).")},
      {"first_layers_in_bf16", described(range_schema("integer", 0, kMostLayersInBf16),
                                         "With fp8 and nvfp4: so many layers at the start whose GEMMs stay in bf16 "
                                         "(--num-layers-at-start-in-bf16).")},
      {"last_layers_in_bf16",
       described(range_schema("integer", 0, kMostLayersInBf16), "The same at the end (--num-layers-at-end-in-bf16).")},
      {"gradients_in_f32", {{"type", "boolean"}}},
      {"gradients_in_bf16", {{"type", "boolean"}}}};
  return any_of(choices_schema(precision_presets()), {{"type", "object"},
                                                      {"properties", std::move(properties)},
                                                      {"required", {"preset"}},
                                                      {"additionalProperties", false}});
}

}  // namespace mbench
