#include "engine/base/printed_part.h"

#include <string_view>

namespace mbench {

std::string printed_name(TimePart part) {
  if (part == TimePart::gemms) return "GEMMs";
  const std::string_view name = name_of(part), prefix = "communication_";
  return name.starts_with(prefix) ? std::string(name.substr(prefix.size())) + " communication" : std::string(name);
}

}  // namespace mbench
