// The device memory that a real run of a framework needs beyond what the simulated allocator holds. PyTorch's caching allocator keeps
// fragments that no tensor fits into. The figure and its source stand in the framework's file, under memory.margin; 0 where it has none.
#pragma once
#include <string>

namespace mbench {

// As a share of the memory that the allocator could have. bad_input at `where` if there is no such framework.
double memory_margin_of(const std::string& name_or_path, const std::string& where);

}  // namespace mbench
