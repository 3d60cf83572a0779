#include "engine/sim/machine/axis.h"

#include "engine/base/json_reader.h"

namespace mbench::sim {

std::vector<double> read_positive_numbers(const nlohmann::json& value, const std::string& where, bool ascending) {
  if (!value.is_array() || value.empty())
    fail(ErrorKind::bad_input, where, "got {}, need an array of numbers above 0", short_json(value));
  std::vector<double> out;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", where, i);
    const double x = read_number(value[i], path, 0, 1e30);
    if (!(x > 0)) fail(ErrorKind::bad_input, path, "got {}, need a number above 0", x);
    if (ascending && !out.empty() && x <= out.back())
      fail(ErrorKind::bad_input, path, "got {} after {}, need them ascending", x, out.back());
    out.push_back(x);
  }
  return out;
}

}  // namespace mbench::sim
