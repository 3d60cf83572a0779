#include "explain/changes.h"

#include "engine/base/embedded.h"
#include "engine/base/json_reader.h"

namespace mbench::explain_files {
const EmbeddedFiles& files();
}

namespace mbench::explain {
namespace {

Change read_change(const nlohmann::ordered_json& row) {
  Change change{row.at("what"), row.at("confirm"), row.value("if", std::string()), {}, {}, {}};
  const auto none = nlohmann::ordered_json::object();
  const auto set = row.value("set", none), scale = row.value("scale", none), as = row.value("as", none);
  for (const auto& [field, value] : set.items()) change.set.emplace_back(field, nlohmann::json(value));
  for (const auto& [figure, factor] : scale.items()) change.scale.emplace_back(figure, factor.get<double>());
  for (const auto& [figure, other] : as.items()) change.as.emplace_back(figure, other.get<std::string>());
  return change;
}

}  // namespace

const Changes& changes() {
  static const Changes all = [] {
    const nlohmann::ordered_json file = parse_json(explain_files::files().at("changes"), "changes.json");
    Changes read;
    for (const auto& row : file.at("changes")) read.simulated.push_back(read_change(row));
    for (const auto& row : file.at("measured_only")) read.measured_only.push_back(read_change(row));
    for (const auto& [part, confirm] : file.at("parts").items()) read.confirm_part[part] = confirm;
    return read;
  }();
  return all;
}

}  // namespace mbench::explain
