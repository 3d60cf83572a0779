// Builds a point field by field, so that values from different places of a spec (top level, sweep, --set) are
// each refused with their own JSON path. finish() settles what involves several fields: the model must be
// given, and a strategy must not contradict the fields it bundles.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/spec/point.h"

namespace mbench {

class PointBuilder {
 public:
  // Sets one field; the last call for a key counts. An unknown key is bad_input at `where`.
  void set(const std::string& key, const nlohmann::json& value, const std::string& where);
  // The point; `where` names the whole for what is missing.
  Point finish(const std::string& where) const;

 private:
  Point point_;
  std::map<std::string, std::string> where_;  // of the keys that were set
};

// Puts one field's value into a point that is whole: what involves several fields is not settled.
void set_point_field(Point& point, const std::string& key, const nlohmann::json& value, const std::string& where);

}  // namespace mbench
