// The options --set and --filter: "field=value" pairs, applied to a spec's JSON and to its points.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/point/point.h"

namespace mbench::sweeps {

struct Assignment {
  std::vector<std::string> fields;  // several only for a zip, "tp,pp=..."
  nlohmann::ordered_json value;     // JSON if it parses as such, else the text
  std::string text;                 // as given, for messages
};

// Splits "field=value"; throws bad_input naming `option` if there is no "=" or a field is unknown.
Assignment parse_assignment(const std::string& text, const std::string& option);

// "tp,pp" -> {"tp", "pp"}, without blanks around the commas.
std::vector<std::string> split_fields(const std::string& joined);

// Puts the value at its place in the spec and removes its fields from their old place.
void apply_set(nlohmann::ordered_json& spec, const Assignment& assignment, const std::string& where);

// Whether a point has a value of every field that is filtered.
class Filter {
 public:
  explicit Filter(const std::vector<std::string>& options);
  bool keeps(const Point& point) const;
  bool empty() const { return wanted_.empty(); }

 private:
  struct Wanted {
    std::string field;
    std::vector<Point> values;                  // points that have one of the values in that field
    std::vector<nlohmann::ordered_json> parts;  // of a part of the model: the values themselves
  };
  std::vector<Wanted> wanted_;
};

}  // namespace mbench::sweeps
