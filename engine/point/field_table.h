// A row of the table of fields, for code that reads and writes points: engine/point only.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/point/fields.h"
#include "engine/point/point.h"

namespace mbench {

struct Field {
  PointField about;
  std::function<void(Point&, const nlohmann::json&, const std::string& where)> read;
  std::function<nlohmann::ordered_json(const Point&)> write;
  std::function<void(Point&)> reset;                  // to the default
  std::function<std::uint64_t(const Point&)> number;  // of a number, flag or choice; else null
  nlohmann::ordered_json schema;                      // of its values
};

const std::vector<Field>& field_table();
// Fields of former specs whose meaning is now in another field. They are still read, and ids are made of them.
const std::vector<Field>& former_fields();
// A field of either table.
const Field* field_named(std::string_view key);

}  // namespace mbench
