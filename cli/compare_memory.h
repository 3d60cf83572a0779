// mbench compare --memory A B: which tensors at the peak came, went or grew from one run to the other.
#pragma once
#include <string>
#include <vector>

namespace mbench::cli {

struct MemoryComparison {
  std::string from, to;             // specs, result files or folders of sweeps; one point of each
  std::vector<std::string> filter;  // field=value: of the points of both
  std::vector<std::string> set;     // field=value: that the second has
  std::string on = "cpu", format = "md";
};

// The text in that format, md or json. Throws bad_input where a side has not one point; unsupported where nothing is known of its tensors.
std::string compare_memory(const MemoryComparison& args);

}  // namespace mbench::cli
