// The types in which a point's numbers are kept and multiplied.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/choices.h"

namespace mbench {

struct FieldChoice;

struct PrecisionSpec {
  Precision precision = Precision::f32;
  // fp16 gradients accumulate and are reduced in f32 (Megatron's --accumulate-allreduce-grads-in-fp32), as bf16's always are by default.
  // The other flag does the same in bf16 for bf16's (--grad-reduce-in-bf16).
  bool gradients_in_f32 = false;
  bool gradients_in_bf16 = false;
  bool moments_in_bf16 = false;       // Adam's, of 16-bit weights (--exp-avg-dtype, --exp-avg-sq-dtype)
  bool main_weights_in_bf16 = false;  // bf16 weights without f32 originals: the optimizer updates them as they are
  Fp8Recipe fp8_recipe = Fp8Recipe::tensorwise;  // of precision fp8
  bool fp8_parameters = false;  // of fp8 too: the weights of its GEMMs in FP8 only (--fp8-param-gather)
  // Of fp8 and nvfp4: so many layers whose GEMMs stay in bf16 (--first-last-layers-bf16, --num-layers-at-start-in-bf16).
  std::int64_t first_layers_in_bf16 = 0, last_layers_in_bf16 = 0;

  bool operator==(const PrecisionSpec&) const = default;
};

inline constexpr std::int64_t kMostLayersInBf16 = 16384;

// Reads a name, which changes `precision` only (mxfp8: the recipe too), or an object that gives everything: {"preset": "bf16", "gradients": "bf16", "moments":
// "bf16", "main_weights": "bf16", "fp8_recipe": "delayed", "fp8_parameters": true}. bad_input at `where` for anything else.
void read_precision(PrecisionSpec& spec, const nlohmann::json& value, const std::string& where);
// The name if all else is at its default.
nlohmann::ordered_json write_precision(const PrecisionSpec& spec);
nlohmann::ordered_json precision_schema();
// The names with which a precision or the `preset` of its object begins: those of Precision, and mxfp8, fp8 with that recipe.
std::vector<FieldChoice> precision_presets();

// Sets one key of that object, such as "gradients"; the others stay. bad_input at `where` for any other key, and for a value that it does
// not have.
void set_precision_part(PrecisionSpec& spec, const std::string& part, const nlohmann::json& value,
                        const std::string& where);
// The key's value, or the preset's where the object would omit it; null if there is no such key.
nlohmann::ordered_json precision_part(const PrecisionSpec& spec, const std::string& part);
// The default type of gradients: "fp16" with fp16, else "f32".
const char* usual_gradients(Precision preset);

}  // namespace mbench
