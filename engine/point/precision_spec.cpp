#include "engine/point/precision_spec.h"

#include "engine/base/json_reader.h"
#include "engine/point/field_values.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// A type of something that is f32 unless it is bf16.
bool read_in_bf16(ObjectReader& reader, const std::string& key) {
  const json* value = reader.find(key);
  if (!value || *value == "f32") return false;
  if (*value == "bf16") return true;
  fail(ErrorKind::bad_input, reader.path(key), "no such choice, got {}, need f32 or bf16", short_json(*value));
}

// Gradients have the type of 16-bit fp16 weights, or f32; a flag says where they have not.
void read_gradients(ObjectReader& reader, PrecisionSpec& spec) {
  const json* value = reader.find("gradients");
  if (!value) return;
  const bool fp16 = spec.precision == Precision::fp16;
  if (*value == "f32") spec.gradients_in_f32 = fp16;
  else if (*value == "bf16" && !fp16) spec.gradients_in_bf16 = true;
  else if (*value != "fp16" || !fp16)
    fail(ErrorKind::bad_input, reader.path("gradients"), "no such choice with preset {}, got {}, need {}", name_of(spec.precision),
         short_json(*value), fp16 ? "fp16 or f32" : "f32 or bf16");
}

}  // namespace

void read_precision(PrecisionSpec& spec, const json& value, const std::string& where) {
  if (!value.is_object()) {
    spec.precision = read_named<Precision>(value, where);
    return;
  }
  ObjectReader reader(value, where);
  PrecisionSpec read;
  read.precision = read_named<Precision>(reader.require("preset", "the precision of weights and activations"), reader.path("preset"));
  read_gradients(reader, read);
  // What a preset does not have can be written all the same, as a point that is refused has it.
  const auto flag = [&](const char* key, bool& member) {
    if (const json* given = reader.find(key)) member = read_bool(*given, reader.path(key));
  };
  flag("gradients_in_f32", read.gradients_in_f32);
  flag("gradients_in_bf16", read.gradients_in_bf16);
  read.moments_in_bf16 = read_in_bf16(reader, "moments");
  read.main_weights_in_bf16 = read_in_bf16(reader, "main_weights");
  if (const json* recipe = reader.find("fp8_recipe")) read.fp8_recipe = read_named<Fp8Recipe>(*recipe, reader.path("fp8_recipe"));
  flag("fp8_parameters", read.fp8_parameters);
  reader.refuse_unknown();
  spec = read;
}

ordered_json write_precision(const PrecisionSpec& spec) {
  ordered_json object = {{"preset", name_of(spec.precision)}};
  const bool fp16 = spec.precision == Precision::fp16;
  if (spec.gradients_in_f32 && fp16 && !spec.gradients_in_bf16) object["gradients"] = "f32";
  else if (spec.gradients_in_bf16 && !fp16 && !spec.gradients_in_f32) object["gradients"] = "bf16";
  else {
    if (spec.gradients_in_f32) object["gradients_in_f32"] = true;
    if (spec.gradients_in_bf16) object["gradients_in_bf16"] = true;
  }
  if (spec.moments_in_bf16) object["moments"] = "bf16";
  if (spec.main_weights_in_bf16) object["main_weights"] = "bf16";
  if (spec.fp8_recipe != Fp8Recipe::tensorwise) object["fp8_recipe"] = name_of(spec.fp8_recipe);
  if (spec.fp8_parameters) object["fp8_parameters"] = true;
  return object.size() == 1 ? object.at("preset") : object;
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
      {"preset", described(choices_schema(documented<Precision>()), "Types of weights, activations and matrix products.")},
      {"gradients", described(names({"f32", "bf16", "fp16"}), "In which type gradients accumulate and are reduced. Default: fp16 with fp16, else f32.")},
      {"moments", described(names({"f32", "bf16"}), "Adam's moments of 16-bit weights (--exp-avg-dtype, --exp-avg-sq-dtype).")},
      {"main_weights", described(names({"f32", "bf16"}), "bf16: no f32 main weights; the optimizer updates bf16 weights.")},
      {"fp8_recipe", described(choices_schema(documented<Fp8Recipe>()), "With fp8: where scales come from.")},
      {"fp8_parameters", described({{"type", "boolean"}}, "With fp8: the weights of its products live in FP8 alone (--fp8-param-gather).")},
      {"gradients_in_f32", {{"type", "boolean"}}},
      {"gradients_in_bf16", {{"type", "boolean"}}}};
  return any_of(choices_schema(documented<Precision>()),
                {{"type", "object"}, {"properties", std::move(properties)}, {"required", {"preset"}}, {"additionalProperties", false}});
}

}  // namespace mbench
