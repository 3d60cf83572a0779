// The fields of a point as data: what each is called, means, may hold, and bears on. All about fields is made from this one table
// (fields.cpp): JSON in and out, ids, JSON Schema, reference page, `mbench help`, what a search resets.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

struct Point;

// What a field of a point is about. This decides what must agree between two points (sweeps/run/consistency.h).
enum class FieldKind {
  model,     // what is trained
  training,  // how: what changes the computed numbers
  layout,    // how it is cut up, kept and ordered: changes no number except by rounding
  limit,     // how much memory and time it may take
  place      // where it runs
};

// What of a step's time and memory changes with a field. Forward and backward of a micro batch take least where fields that bear only on
// state, schedule and recompute are at their defaults. Bounds of a search rest on this (search/bounds.h).
enum class BearsOn : std::uint8_t {
  micro_batch,  // what the forward and backward of a micro batch do on a rank, and keep
  experts,      // the same, of layers with experts only
  recompute,    // what a backward computes again
  state,        // where weights, gradients and optimizer state live, and what is exchanged for them
  update,       // what the optimizer does once a step
  schedule      // which micro batch a stage runs when, and which layers it has
};
std::string_view name_of(BearsOn part);

// A set of them; empty: nothing that a step computes.
class Bearings {
 public:
  constexpr Bearings() = default;
  constexpr Bearings(std::initializer_list<BearsOn> parts) {
    for (const BearsOn part : parts) bits_ |= bit(part);
  }
  constexpr bool has(BearsOn part) const { return bits_ & bit(part); }
  constexpr bool within(Bearings other) const { return (bits_ & ~other.bits_) == 0; }

 private:
  static constexpr unsigned bit(BearsOn part) { return 1u << static_cast<unsigned>(part); }
  unsigned bits_ = 0;
};

// A value that a field names, and what it means.
struct FieldChoice {
  std::string name, doc;
};

struct PointField {
  std::string key;
  FieldKind kind;
  Bearings bears_on;
  bool reported;                     // whether a report prints it for all points, even where it is at its default
  std::string unit;                  // of a number; empty: none
  std::string doc;                   // Markdown, of one paragraph
  std::vector<FieldChoice> choices;  // where it has names for values
  std::string part_of;               // of a former field: the field that replaces it. It is read, but not written
};
// Every field, in the order of the table.
const std::vector<PointField>& point_fields();
// Fields of former specs, now parts of another field.
const std::vector<PointField>& former_point_fields();
// Finds former fields too. Null if no field has that key.
const PointField* find_field(std::string_view key);

// A figure of the machine as a field of its own: "machine.network.gbps_per_device".
inline constexpr std::string_view kMachineField = "machine.";
// A part of the framework: "framework.rope_fusion", "framework.host".
inline constexpr std::string_view kFrameworkField = "framework.";
// A key of the precision's object: "precision.gradients".
inline constexpr std::string_view kPrecisionField = "precision.";
// Whether a key has a value in a point: it is a field, a former field, or one of the three kinds above.
bool is_field(std::string_view key);
// The field that a key is a part of ("precision" for "precision.gradients" and "moments_in_bf16"), or the key itself.
std::string field_of(const std::string& key);

// The values of each field as JSON Schema (2020-12): {"tp": {"type": "integer", "minimum": 1, ...}, ...}. Whatever a reader accepts is
// valid. A reader may still refuse a valid value for its meaning: a model's sizes or a data file's name.
nlohmann::ordered_json point_schema();

// The keys of these fields, for spec expansion and messages.
const std::vector<std::string>& point_keys();

// The point with the fields of these kinds at their defaults.
Point without(Point point, std::initializer_list<FieldKind> kinds);
// A field that bears on nothing else can be at its default where a bound is taken: it only adds to a sample's cost (search/mesh_bounds.h).
inline constexpr Bearings kAddedWithinMesh = {BearsOn::recompute, BearsOn::state, BearsOn::schedule};

// The point with default values for the fields that bear only on these parts of a step. Fields that bear on nothing are among them.
Point at_default(Point point, Bearings parts);

// A hash with a seed over the micro batch and all fields of kind layout. It finds points that are alike and separates most others.
std::uint64_t layout_hash(const Point& point, std::uint64_t seed);

}  // namespace mbench
