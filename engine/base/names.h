// Names as people write them: "A100-80GB" for a machine, "meta-llama/Llama-2-7b-hf" for a model.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

// The lower-case words of a name, between "-", "_", "/" and spaces.
std::vector<std::string> words_of_name(std::string_view name);

// Those of `names` that match `got`: they begin with its first word and have its other words in order, or words that begin so. "a100-80gb"
// matches "A100-SXM4-80GB". If one match is a prefix of all others, it is the only one: "H200" gives "H200-SXM5-141GB" and not
// "H200-SXM5-141GB-4". A maker's words at the front have no meaning: "4090" matches "RTX-4090".
std::vector<std::string> names_with(std::string_view got, const std::vector<std::string>& names);

// The longest of `names` whose words stand in `got` in order, where the rest of `got` does not bear on sizes: an owner, "hf", "instruct".
// Empty: none.
std::string name_within(std::string_view got, const std::vector<std::string>& names);

// "need one of ...; did you mean ...?", names with the same first word first: for "A100-60GB" an A100, whatever follows.
std::string nearest_name(std::string_view got, const std::vector<std::string>& names);

}  // namespace mbench
