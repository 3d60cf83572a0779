#include "engine/point/router.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench {

RouterMode read_router(const std::string& text, const std::string& where) {
  if (text == "balanced") return {Routing::balanced, 1};
  if (text == "balanced_local") return {Routing::balanced, 1, true};
  if (text == "learned") return {Routing::learned, 1};
  const std::string capacity = "capacity";
  if (!text.starts_with(capacity))
    fail(ErrorKind::bad_input, where, "no such router, got \"{}\", {}", text,
         nearest_choice(text, {"balanced", "balanced_local", "capacity:F", "learned"}));
  const char* begin = text.c_str() + std::min(text.size(), capacity.size() + 1);
  char* end = nullptr;
  const double factor = std::strtod(begin, &end);
  const bool number = text.size() > capacity.size() && text[capacity.size()] == ':' && end != begin && *end == '\0';
  if (!number || !std::isfinite(factor) || factor < 1 || factor > 1e6)
    fail(ErrorKind::bad_input, where,
         "no capacity factor, got \"{}\", need capacity:F with F of at least 1, such as capacity:1.25", text);
  return {Routing::capacity, factor};
}

std::string str(const RouterMode& mode) {
  switch (mode.routing) {
    case Routing::balanced:
      return mode.local ? "balanced_local" : "balanced";
    case Routing::capacity:
      return fmt::format("capacity:{}", mode.factor);
    case Routing::learned:
      return "learned";
  }
  return "?";
}

}  // namespace mbench
