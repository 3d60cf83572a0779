// How a row of the table of fields is made of a member of Point: engine/point only.
#pragma once
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "engine/point/field_table.h"
#include "engine/point/field_values.h"

namespace mbench::field_rows {

using nlohmann::json;
using nlohmann::ordered_json;

// Bounds that keep sizes that are multiplied (world, parameters, FLOPs) inside 64 bits.
constexpr std::int64_t kMaxAxis = 32768;
constexpr std::int64_t kMaxCount = 16777216;

template <class T>
ordered_json written(const T& value) {
  if constexpr (std::is_same_v<T, Zero>)
    return value <= Zero::stage_3 ? ordered_json(static_cast<int>(value)) : ordered_json(name_of(value));
  else if constexpr (std::is_enum_v<T>)
    return name_of(value);
  else if constexpr (std::is_same_v<T, ModelSpec>)
    return write_model(value);
  else if constexpr (std::is_same_v<T, RouterMode> || std::is_same_v<T, AdapterSpec> ||
                     std::is_same_v<T, DocumentLengths>)
    return str(value);
  else if constexpr (std::is_same_v<T, Recompute> || std::is_same_v<T, OffloadedActivations> ||
                     std::is_same_v<T, NodePlacement>)
    return name_of(value);
  else if constexpr (std::is_same_v<T, Capture>)
    return write_capture(value);
  else if constexpr (std::is_same_v<T, FrameworkSpec>)
    return write_framework(value);
  else
    return value;
}

template <class T>
std::function<std::uint64_t(const Point&)> number_of(T Point::*member) {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
    return [=](const Point& p) { return static_cast<std::uint64_t>(p.*member); };
  else if constexpr (std::is_same_v<T, Recompute>)
    return [=](const Point& p) { return (p.*member).regions.bits(); };
  else if constexpr (std::is_same_v<T, Capture>)
    return [=](const Point& p) { return (p.*member).parts.bits() << 1 | unsigned{(p.*member).step}; };
  else if constexpr (std::is_same_v<T, OffloadedActivations>)
    return [=](const Point& p) {
      return static_cast<std::uint64_t>((p.*member).layers) << kOffloadedParts | (p.*member).parts.bits();
    };
  else if constexpr (std::is_same_v<T, FrameworkSpec>)
    return [=](const Point& p) { return std::hash<std::string>()(name_of(p.*member)); };
  else
    return nullptr;
}

inline const Point& plain() {
  static const Point point;
  return point;
}

template <class Part, class T, class F>
Field row(const char* key, FieldKind kind, Bearings bears_on, T Part::*member, FieldValues<F> values, const char* unit,
          const char* doc) {
  values.schema["description"] = doc;
  return {{key, kind, bears_on, false, unit, doc, std::move(values.choices), ""},
          [=, reader = values.read](Point& p, const json& value, const std::string& where) {
            p.*member = reader(value, where);
          },
          [=](const Point& p) { return written(p.*member); },
          [=](Point& p) { p.*member = plain().*member; },
          number_of<T>(member),
          std::move(values.schema)};
}

}  // namespace mbench::field_rows
