// Fields of former specs, which are read still.
#include <algorithm>
#include <limits>

#include "engine/framework/framework.h"
#include "engine/point/field_readers.h"
#include "engine/point/field_rows.h"
#include "engine/point/field_table.h"
#include "engine/point/field_values.h"

namespace mbench {
namespace {

using field_rows::row;
using nlohmann::json;
using nlohmann::ordered_json;

// A field of former specs, which is part of `framework` now.
Field former_word(const char* key, const char* doc, std::vector<FieldChoice> choices,
                  std::function<std::string&(FormerWords&)> word, std::string otherwise) {
  const bool flag = otherwise == "true" || otherwise == "false";
  Field field;
  field.about = {key, FieldKind::layout, {BearsOn::micro_batch, BearsOn::state}, false, "", doc, choices, "framework"};
  field.read = [=](Point& p, const json& value, const std::string& where) {
    std::vector<std::string> names;
    for (const FieldChoice& choice : choices) names.push_back(choice.name);
    const std::string text = flag                ? (read_bool(value, where) ? "true" : "false")
                             : value.is_string() ? value.get<std::string>()
                                                 : value.dump();
    if (!flag && std::find(names.begin(), names.end(), text) == names.end())
      fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value), nearest_choice(text, names));
    auto words = former_words(p.framework);
    if (!words)
      fail(ErrorKind::bad_input, where, "got {} with framework {}, need it within framework", short_json(value),
           name_of(p.framework));
    if (const std::string now = word(*words); text == (now.empty() ? otherwise : now)) return;
    word(*words) = text;
    std::erase_if(words->options, [](const auto& option) {
      return former_default(option.first) && option.second == former_default(option.first);
    });
    p.framework = from_former(*words, where);
  };
  field.write = [=](const Point& p) -> ordered_json {
    FormerWords words = former_words(p.framework).value_or(FormerWords());
    const std::string text = word(words).empty() ? otherwise : word(words);
    return flag ? ordered_json(text == "true") : ordered_json(text);
  };
  field.reset = [=, read = field.read](Point& p) { read(p, flag ? json(otherwise == "true") : json(otherwise), key); };
  field.schema = flag ? ordered_json{{"type", "boolean"}} : choices_schema(choices);
  field.schema["description"] = doc;
  field.schema["deprecated"] = true;
  return field;
}

// A field of former specs whose member a part of another field is now.
Field former(const char* part_of, Field field) {
  field.about.part_of = part_of;
  field.schema["deprecated"] = true;
  return field;
}

std::vector<Field> make_former_fields() {
  using enum FieldKind;
  using enum BearsOn;
  using P = Point;
  std::vector<Field> fields;
  fields.push_back(former_word(
      "graph", "Former word: what a step keeps. `framework` says it now.",
      {{"eager", "As Megatron-LM on PyTorch did in 2022: `{\"preset\": \"megatron-2022\", \"host\": \"mbench\"}`."},
       {"fused", "This engine's own way: `mbench`."},
       {"megatron_core", "As Megatron-Core does: `{\"preset\": \"megatron-core\", \"host\": \"mbench\"}`."}},
      [](FormerWords& words) -> std::string& { return words.graph; }, "fused"));
  fields.push_back(former(
      "precision", row("gradients_in_f32", training, {micro_batch, state}, &P::gradients_in_f32, flag(), "",
                       "fp16 gradients accumulate and are reduced in f32 (`--accumulate-allreduce-grads-in-fp32`).")));
  fields.push_back(
      former("precision", row("gradients_in_bf16", training, {micro_batch, state}, &P::gradients_in_bf16, flag(), "",
                              "bf16 gradients accumulate and are reduced in bf16 (`--grad-reduce-in-bf16`).")));
  fields.push_back(
      former("precision", row("moments_in_bf16", training, {state, update}, &P::moments_in_bf16, flag(), "",
                              "Adam's moments of 16-bit weights are bf16 (`--exp-avg-dtype`, `--exp-avg-sq-dtype`).")));
  fields.push_back(
      former("precision",
             row("main_weights_in_bf16", training, {micro_batch, state, update}, &P::main_weights_in_bf16, flag(), "",
                 "With `precision: bf16`: there are no f32 main weights, and the optimizer updates bf16 weights, "
                 "rounded to nearest (a PyTorch model in "
                 "bf16 under `AdamW(fused=True)`). Needs `optimizer: adamw`, without `offload`.")));
  fields.push_back(
      former("precision", row("fp8_recipe", training, {micro_batch, state}, &P::fp8_recipe,
                              choice_without(Fp8Recipe::mxfp8), "", "With `precision: fp8`: where scales come from.")));
  fields.push_back(
      former("precision", row("fp8_parameters", training, {micro_batch, state, update}, &P::fp8_parameters, flag(), "",
                              "With `precision: fp8`: the weights of its GEMMs [live in FP8 "
                              "only](../spec.md#weights-in-fp8-alone) (`--fp8-param-gather`).")));
  fields.push_back(
      former("precision", row("first_layers_in_bf16", training, {micro_batch, state}, &P::first_layers_in_bf16,
                              count(0, kMostLayersInBf16), "layers",
                              "With `precision` fp8 and nvfp4: so many layers at the start whose GEMMs stay "
                              "in bf16 (`--num-layers-at-start-in-bf16`).")));
  fields.push_back(former(
      "precision", row("last_layers_in_bf16", training, {micro_batch, state}, &P::last_layers_in_bf16,
                       count(0, kMostLayersInBf16), "layers", "The same at the end (`--num-layers-at-end-in-bf16`).")));
  for (const FrameworkOption& option : all_framework_options()) {
    const char* otherwise = former_default(option.name);
    if (!otherwise) continue;
    std::vector<FieldChoice> choices;
    for (const FrameworkChoice& choice : option.choices) choices.push_back({choice.name, choice.doc});
    fields.push_back(former_word(
        option.name.c_str(), "Former word: an option of `framework`.", std::move(choices),
        [name = option.name](FormerWords& words) -> std::string& { return words.options[name]; }, otherwise));
  }
  return fields;
}

}  // namespace

const std::vector<Field>& former_fields() {
  static const std::vector<Field> table = make_former_fields();
  return table;
}

}  // namespace mbench
