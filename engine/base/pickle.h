// JSON as a Python pickle (protocol 2), for files that PyTorch's tools read. Objects become dicts, arrays lists, numbers ints and floats.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mbench {

std::string to_pickle(const nlohmann::json& value);

}  // namespace mbench
