// Figures that say where they come from, as in the files of machines and frameworks: {"value": 900, "source": "..."}.
#pragma once
#include <cmath>
#include <limits>
#include <string>

#include "engine/base/json_reader.h"

namespace mbench {

struct Figure {
  double value = 0;  // above 0
  std::string source;
};

// bad_input at `where` for a value of 0 or less or above `high`, and for a figure without a source.
Figure read_figure(const nlohmann::json& value, const std::string& where,
                   double high = std::numeric_limits<double>::max());

// An object of figures. A key that was never asked for is refused at the end.
class Figures {
 public:
  Figures(const nlohmann::json& object, const std::string& where) : reader_(object, where) {}
  double get(const std::string& key, double unit = 1, double high = std::numeric_limits<double>::max()) {
    return read_figure(reader_.require(key, "a figure with its source"), reader_.path(key), high).value * unit;
  }
  double share(const std::string& key) { return get(key, 1, 1); }
  // The figure, or `otherwise` if the file has none.
  double get_or(const std::string& key, double otherwise, double unit = 1,
                double high = std::numeric_limits<double>::max()) {
    const nlohmann::json* value = reader_.find(key);
    return value ? read_figure(*value, reader_.path(key), high).value * unit : otherwise;
  }
  // A count: a whole number above 0.
  int whole(const std::string& key, int high) {
    const double value = get(key, 1, high);
    if (value != std::floor(value))
      fail(ErrorKind::bad_input, path(key) + ".value", "got {}, need a whole number", value);
    return static_cast<int>(value);
  }
  ObjectReader& object() { return reader_; }
  std::string path(const std::string& key) const { return reader_.path(key); }
  void end() { reader_.refuse_unknown(); }

 private:
  ObjectReader reader_;
};

}  // namespace mbench
