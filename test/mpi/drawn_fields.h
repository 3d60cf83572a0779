// What a drawn layout is made of: of each field of the spec the values that it may get, and where it may get them. A field is drawn or
// it is named here with the reason why it is not.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mbench::test {

struct DrawnField {
  std::string key;
  nlohmann::json values;  // what stands more than once is drawn more often
  // Whether it may have another value than its default, by what was drawn before it: most candidates can be then.
  bool (*may)(const nlohmann::json& drawn);
};
// In the order in which they are drawn, behind the axes of the mesh and the model.
const std::vector<DrawnField>& drawn_fields();
// Those that random_layouts() draws by itself.
const std::vector<std::string>& drawn_first();

struct FixedField {
  std::string key, reason;
};
const std::vector<FixedField>& fixed_fields();
// Choices of drawn fields that are not drawn: "precision tf32".
const std::vector<FixedField>& fixed_choices();
// Keys of a model, by path, that the drawn models have one value of.
const std::vector<FixedField>& fixed_model_keys();

// Models, and numbers of layers.
const nlohmann::json& drawn_models();

}  // namespace mbench::test
