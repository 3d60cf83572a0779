// The arguments that Megatron-LM prints of itself, every one with its value, as a script would say them.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace mbench::formats {

// "num_layers", "24" is "--num-layers 24"; what is False or None is not said, but for flags that turn something off.
std::string script_of(const std::vector<std::pair<std::string, std::string>>& arguments);

}  // namespace mbench::formats
