// The named bundles of fields that are the choices of the field `strategy`.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mbench {

// What the field `strategy` names: values of several other fields, set together.
struct Bundle {
  const char* name;
  nlohmann::ordered_json fields;  // the same ones in each bundle
};
const std::vector<Bundle>& bundles();
// The fields that a bundle sets, in their order.
const std::vector<std::string>& bundled_keys();

}  // namespace mbench
