// What a search looks through: a spec in which some fields are free.
//
// Top-level keys are the fields of a point, as in a sweep's spec. A field is free where it is "any" (what the strategies
// offer), or an array (these values), or named in the array `search`; `"search": "all"` frees every field that a strategy
// offers values of and that is not given. `dp` takes the devices that the other axes leave, unless it is given or a list.
// Fields that a strategy offers together (schedule and virtual_stages) are free together, but for those that are given. Some it
// offers by name alone (Choice::by_name): these `"all"` leaves as they are.
//
// Which values a field can have is the strategies' word (strategies.h: choices): a new strategy is found without a change
// here. Axes of the mesh are chosen first, then the rest in the strategies' own order.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/framework/framework.h"
#include "engine/point/point.h"
#include "strategies/strategies.h"

namespace mbench::search {

struct SpaceOptions {
  std::string path;
  std::vector<std::string> set;                     // "field=value", "field=any", "field=[...]"
  std::string device;                               // of every point: --on
  std::optional<nlohmann::ordered_json> json = {};  // what the file says, where it has another form than a spec
};

struct Space {
  std::string path, name;
  nlohmann::ordered_json file;  // the file with --set done to it
  Abilities can;                // of the framework: values that it has not are offered only where the spec lists them
  Point base;                   // the fields that are given; the free ones at their defaults
  std::map<std::string, std::vector<nlohmann::json>> free;  // values, none where the strategies' count
  bool all = false;                                         // every field that strategies offer values of
  std::vector<std::string> given;                           // fields that are not free

  bool is_free(const std::string& field) const;
  // Those that the spec lists; none where the strategies' count.
  const std::vector<nlohmann::json>& values(const std::string& field) const;
};

// bad_input naming the file and JSON path, or the option, for anything that is not as above.
Space read_space(const SpaceOptions& options);

// How many layouts cannot be, for one kind of reason.
struct Refused {
  std::string example;  // the reason of the first
  std::string layout;   // and which it was
  std::size_t count = 0;
};

// Everything that can be on `devices` devices, in a fixed order, in three steps: meshes, families, layouts. `fill`: layouts use all
// devices, where dp is free.
class Layouts {
 public:
  Layouts(const Space& space, std::int64_t devices, bool fill);
  ~Layouts();
  // Calls `found` with every mesh: what decides who computes what of a sample, and with whom. The point has its axes and all other
  // fields but those of kWithinMesh, which are at their defaults. It returns false to stop.
  void each_mesh(const std::function<bool(const Point&)>& found) const;
  // Calls `found` with every family of layouts on a mesh; it returns false to stop. A family differs in the micro batch alone,
  // `micro_batches`, smallest first; which of it can be is not yet known.
  using Family = std::function<bool(const Point&, const std::vector<std::int64_t>& micro_batches)>;
  bool each_family(const Point& mesh, const Family& found) const;

 private:
  class Walk;
  std::unique_ptr<const Walk> walk_;
};

// Whether a layout can be; if not, that is counted in `refused` by its reason, the numbers in it aside.
bool can_be(const Space& space, const Point& point, std::map<std::string, Refused>& refused);

// Counts a layout in `refused` that cannot be for this reason.
void refuse(const Space& space, const Point& point, const std::string& reason, std::map<std::string, Refused>& refused);

// Calls `found` with every layout that can be on `devices` devices, in a fixed order; it returns false to stop. `fill`:
// layouts use all of them, where dp is free. Those that cannot be are counted in `refused`.
void each_layout(const Space& space, std::int64_t devices, bool fill, std::map<std::string, Refused>& refused,
                 const std::function<bool(const Point&)>& found);

// The free fields of a layout with their values: "tp=8 pp=4 zero=1".
std::string label_of(const Space& space, const Point& point);

// Puts a field's value into a point, as a spec would.
void set_field(Point& point, const std::string& field, const nlohmann::json& value, const std::string& where);

}  // namespace mbench::search
