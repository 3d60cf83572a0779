// Names as people write them: "A100-80GB" for a machine, "meta-llama/Llama-2-7b-hf" for a model.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

// The lower-case words of a name, between "-", "_", "/" and spaces.
std::vector<std::string> words_of_name(std::string_view name);

// Of `names`, those that begin with the first word of `got` and have each other one in its order, or one that begins so: "a100-80gb" is in "A100-SXM4-80GB". Where one of them begins all
// others it is that one alone: "H200" is "H200-SXM5-141GB" and not "H200-SXM5-141GB-4". A maker's words at the front have no meaning: "4090" is "RTX-4090".
std::vector<std::string> names_with(std::string_view got, const std::vector<std::string>& names);

// Of `names`, the longest whose words stand in `got` in their order, where nothing else of it has meaning for sizes: an owner, "hf", "instruct". Empty: none.
std::string name_within(std::string_view got, const std::vector<std::string>& names);

// "need one of ...; did you mean ...?", the nearest by its first word first: of "A100-60GB" an A100, however its end is written.
std::string nearest_name(std::string_view got, const std::vector<std::string>& names);

}  // namespace mbench
