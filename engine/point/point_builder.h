// Builds a point field by field. So a value from any place of a spec (top level, sweep, --set) is refused with its own JSON path. finish()
// settles what involves several fields: the model must be given, and a strategy must not contradict the fields it bundles.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/point.h"

namespace mbench {

class PointBuilder {
 public:
  // Sets one field; the last call for a key counts. An unknown key is bad_input at `where`.
  void set(const std::string& key, const nlohmann::json& value, const std::string& where);
  // The point; `where` names the whole for messages on missing fields.
  Point finish(const std::string& where) const;

 private:
  Point point_;
  std::map<std::string, std::string> where_;  // of the keys that were set
  std::vector<std::pair<std::string, nlohmann::json>>
      parts_;  // of the framework: they hold whether they are set before or after it
  std::map<std::string, nlohmann::json> model_parts_;  // by key without "model.": set together at the end
};

// Sets one field of a complete point. What involves several fields is not settled.
void set_point_field(Point& point, const std::string& key, const nlohmann::json& value, const std::string& where);

// What point_to_json writes, followed by the former fields (spec/field_table.h). The framework is one line, and the precision its name.
nlohmann::ordered_json point_in_words(const Point& point);
// The value of one field, of a former one, or of "machine.PATH" or "framework.OPTION"; null if there is none.
nlohmann::ordered_json point_field(const Point& point, const std::string& key);

}  // namespace mbench
