// How the GPUs of a machine reach each other, in the words of `nvidia-smi topo -m`: "NV18" so many NVLinks, "PIX", "PXB",
// "PHB", "NODE", "SYS"; "XGMI" in that of `rocm-smi --showtopo`; "X" for itself, "?" where it is not told.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

using LinkMatrix = std::vector<std::vector<std::string>>;  // [from, to]

// Whether that is a word for the way between two GPUs. "X" and "?" are none.
bool names_a_link(std::string_view word);
// What those are, for messages.
std::string link_words();

// As a person reads it: the matrix and a legend of the words that it has.
std::string describe(const LinkMatrix& links);

}  // namespace mbench
