// What a framework is able to run, where that is less than this engine: values of fields of a point (the key `can` of a framework's file).
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

namespace mbench {

struct Point;

class Abilities {
 public:
  // {"zero": [0, 1], "recompute": ["none", "full", "mlp"]}: fields and the values that the framework has. A value that the field cannot hold
  // is bad_input. Of values that are several names joined by "+" the framework must have each.
  static Abilities from_json(const nlohmann::json& json, const std::string& where);
  // Whether it has that value; of a field that is not named it has all.
  bool has(const std::string& field, const nlohmann::json& value) const;
  // What of the point it has not: "zero 3, offload optimizer"; empty: all of it.
  std::string lacks(const Point& point) const;

 private:
  std::map<std::string, std::set<std::string>> values_;  // as text
};

}  // namespace mbench
