// Hugging Face's trainer_state.json: losses and gradient norms of the steps that were logged, and the time of the whole run.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "formats/logs/log.h"

namespace mbench::formats {

bool is_trainer_state(std::string_view text);
Log read_trainer_state(const nlohmann::ordered_json& state, const std::string& file);

}  // namespace mbench::formats
