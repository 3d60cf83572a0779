// What a search looks through: a spec in which some fields are free.
//
// Top-level keys are the fields of a point, as in a sweep's spec. A field is free where it is "any" (what the strategies offer), an
// array (these values), or named in the array `search`. An array that holds "any" has what they offer, and its own values too.
//
// `"search": "all"` frees every field that is not given and that a strategy offers values for. `dp` takes the devices that the other axes leave,
// unless it is given or a list. Fields that a strategy offers together (schedule and virtual_stages) are free together, except those
// that are given. `"all"` leaves fields as they are that are offered by name only (Choice::by_name).
//
// The strategies decide which values a field can have (strategies.h: choices), so a new strategy is found without a change here. Axes
// of the mesh are chosen first, then the rest in the strategies' own order.
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
  nlohmann::ordered_json file;  // the file with --set applied
  Abilities can;                // of the framework: other values are offered only where the spec lists them
  Point base;                   // the fields that are given; the free ones at their defaults
  std::map<std::string, std::vector<nlohmann::json>> free;  // its values; empty: those that the strategies offer
  std::map<std::string, std::vector<nlohmann::json>> more;  // values that join those that the strategies offer
  bool all = false;                                         // every field that strategies offer values of
  std::vector<std::string> given;                           // fields that are not free

  bool is_free(const std::string& field) const;
  // The values that the spec lists; empty where the strategies' count.
  const std::vector<nlohmann::json>& values(const std::string& field) const;
};

// tp, pp, cp and dp.
bool is_axis(const std::string& field);

// Throws bad_input for anything else than described above, and names the file and JSON path, or the option.
Space read_space(const SpaceOptions& options);

// How many layouts are impossible for one kind of reason.
struct Refused {
  std::string example;  // the reason of the first
  std::string layout;   // and which it was
  std::size_t count = 0;
};

// All possible layouts on `devices` devices, in a fixed order, in three steps: meshes, families, layouts. `fill`: layouts use all
// devices, where dp is free.
class Layouts {
 public:
  Layouts(const Space& space, std::int64_t devices, bool fill);
  ~Layouts();
  // Calls `found` with every mesh; it returns false to stop. A mesh decides who computes what of a sample, and with whom. The point has
  // the mesh's axes and all other fields; those that vary within a mesh are at their defaults.
  void each_mesh(const std::function<bool(const Point&)>& found) const;
  // Calls `found` with every family of layouts on a mesh; it returns false to stop. Layouts of a family differ only in the micro batch.
  // `micro_batches` lists the candidates, smallest first; some may be impossible.
  using Family = std::function<bool(const Point&, const std::vector<std::int64_t>& micro_batches)>;
  bool each_family(const Point& mesh, const Family& found) const;

 private:
  class Walk;
  std::unique_ptr<const Walk> walk_;
};

// Whether a layout is possible. If not, it is counted in `refused` by its reason without the numbers in it.
bool can_be(const Space& space, const Point& point, std::map<std::string, Refused>& refused);

// Counts a layout in `refused` that is impossible for this reason.
void refuse(const Space& space, const Point& point, const std::string& reason, std::map<std::string, Refused>& refused);

// Calls `found` with every possible layout on `devices` devices, in a fixed order; it returns false to stop. `fill`: layouts use all of
// them, where dp is free. Impossible ones are counted in `refused`.
void each_layout(const Space& space, std::int64_t devices, bool fill, std::map<std::string, Refused>& refused,
                 const std::function<bool(const Point&)>& found);

// The free fields of a layout with their values: "tp=8 pp=4 zero=1".
std::string label_of(const Space& space, const Point& point);

// Puts a field's value into a point, as a spec would.
void set_field(Point& point, const std::string& field, const nlohmann::json& value, const std::string& where);

}  // namespace mbench::search
