// The arguments that Megatron-LM prints of itself, every one with its value, as a script would say them.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mbench::formats {

// The flag of a Python name: "num_layers" is --num-layers, "fp8" --fp8-format.
std::string flag_of(std::string_view name);
// The flag that sets such a name to False: --disable-bias-linear for add_bias_linear, --no-NAME for others. Empty where the trainer has
// none.
std::string flag_against(std::string_view name);

// "num_layers", "24" is "--num-layers 24". False and None give no flag, except for flags that turn something off.
std::string script_of(const std::vector<std::pair<std::string, std::string>>& arguments);

}  // namespace mbench::formats
