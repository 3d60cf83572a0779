// Specs by name: those that come with the program.
#pragma once
#include <string>
#include <vector>

namespace mbench::cli {

// The path itself where there is such a file or folder; of a bare name ("quickstart", "search/llama-3-70b-64") the spec of the
// installed configs, or of those of the sources that this program was built from. bad_input naming the nearest for what is neither.
std::string find_spec(const std::string& path);

}  // namespace mbench::cli
