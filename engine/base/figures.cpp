#include "engine/base/figures.h"

namespace mbench {

Figure read_figure(const nlohmann::json& value, const std::string& where, double high) {
  ObjectReader object(value, where);
  Figure f;
  f.value = read_number(object.require("value", "the figure, a number above 0"), object.path("value"), 0, high);
  if (!(f.value > 0)) fail(ErrorKind::bad_input, object.path("value"), "got {}, need a number above 0", f.value);
  f.source = read_string(object.require("source", "where the figure comes from"), object.path("source"));
  if (f.source.empty())
    fail(ErrorKind::bad_input, object.path("source"), "got nothing, need where the figure comes from");
  object.refuse_unknown();
  return f;
}

}  // namespace mbench
