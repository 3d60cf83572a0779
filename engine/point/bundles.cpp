#include "engine/point/bundles.h"

#include "engine/point/regions.h"

namespace mbench {

const std::vector<Bundle>& bundles() {
  static const auto bundle = [](const char* name, bool sequence_parallel, const Recompute& recompute) {
    return Bundle{name, {{"sequence_parallel", sequence_parallel}, {"recompute", name_of(recompute)}}};
  };
  static const std::vector<Bundle> table = {
      bundle("baseline", false, Recompute::none), bundle("sequence_parallel", true, Recompute::none),
      bundle("selective", false, Recompute::selective),
      bundle("sequence_parallel+selective", true, Recompute::selective), bundle("full", false, Recompute::full)};
  return table;
}

const std::vector<std::string>& bundled_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const auto& [key, value] : bundles().front().fields.items()) names.push_back(key);
    return names;
  }();
  return keys;
}

}  // namespace mbench
