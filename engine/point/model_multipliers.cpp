#include <iterator>

#include "engine/base/json_reader.h"
#include "engine/point/model_parts.h"

namespace mbench {
namespace {

using nlohmann::json;

struct Factor {
  const char* key;
  double Multipliers::*field;
};
constexpr Factor kFactors[] = {{"attention", &Multipliers::attention},
                               {"state", &Multipliers::state},
                               {"feed_forward", &Multipliers::feed_forward},
                               {"gates", &Multipliers::gates}};

}  // namespace

void read_multipliers(ModelParts& parts, const json& value, const std::string& where) {
  ObjectReader object(value, where);
  Multipliers m;
  for (const Factor& f : kFactors)
    if (const json* given = object.find(f.key)) m.*f.field = read_number(*given, object.path(f.key), 0, 1e6);
  if (const json* given = object.find("state_inputs")) {
    const std::string path = object.path("state_inputs");
    if (!given->is_array() || given->size() != m.state_inputs.size())
      fail(ErrorKind::bad_input, path, "got {}, need {} numbers, of gates, inputs, B, C and steps", short_json(*given),
           m.state_inputs.size());
    for (std::size_t i = 0; i < m.state_inputs.size(); ++i)
      m.state_inputs[i] = read_number((*given)[i], fmt::format("{}[{}]", path, i), 0, 1e6);
  }
  object.refuse_unknown();
  parts.multipliers = m;
}

json write_multipliers(const ModelParts& parts) {
  const Multipliers& m = parts.multipliers;
  json out = json::object();
  for (const Factor& f : kFactors)
    if (m.*f.field != 1) out[f.key] = m.*f.field;
  if (m.state_inputs != Multipliers().state_inputs) out["state_inputs"] = m.state_inputs;
  return out;
}

}  // namespace mbench
