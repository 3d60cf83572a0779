// How the GPUs of a machine reach each other, in the words of `nvidia-smi topo -m`: "NV18" for 18 NVLinks, "PIX", "PXB", "PHB", "NODE",
// "SYS". "XGMI" is the word of `rocm-smi --showtopo`. "X" is a GPU itself, "?" an unknown link.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

using LinkMatrix = std::vector<std::vector<std::string>>;  // [from, to]

// Whether a word names a link between two GPUs. "X" and "?" do not.
bool names_a_link(std::string_view word);
// The words that do, for messages.
std::string link_words();

// For people: the matrix and a legend of its words.
std::string describe(const LinkMatrix& links);

}  // namespace mbench
