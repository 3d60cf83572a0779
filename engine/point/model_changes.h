// A model as a preset and its changes: the fields "model.KEY", and the name that tables give it.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/point/model_spec.h"

namespace mbench {

// A size or part of the model as a field of its own: "model.kv_heads".
inline constexpr std::string_view kModelField = "model.";

// Sets several sizes and parts of a model at once, as its object would: heads and kv_heads must fit each other. `where` names the whole for
// messages.
void set_model_parts(ModelSpec& model, const std::map<std::string, nlohmann::json>& parts, const std::string& where);

// The value of one size or part; null where a model of this kind has none of that name.
nlohmann::ordered_json model_part(const ModelSpec& model, const std::string& key);

// "llama-2-13b", or "llama-2-13b (kv_heads 8, vocab 151936)" where a preset was changed. `positions` is omitted: it only bounds `seq`,
// which is printed.
std::string label_of(const ModelSpec& model);
// The same for what write_model wrote; the model's name where that is no preset's.
std::string label_of_model(const nlohmann::ordered_json& written);

}  // namespace mbench
