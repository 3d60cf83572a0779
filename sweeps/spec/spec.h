// A sweep's spec: read, changed by --set, expanded into points and narrowed by --filter.
//
// Top-level keys are the fields of a point, and name, sweep, tables, published (engine/point/published.h)
// and gates (engine/point/gates.h).
// `sweep` crosses its entries in the order written, the last one fastest; a comma-joined key zips its fields
// ("tp,pp": [[4, 2], [8, 1]]). A field stands in one place only, and no two points may be the same.
//
// --set field=value puts a value at the top level. It takes the field out of `sweep`, out of a zip too; values that the zip then
// repeats are kept once. An array sweeps over its values; "tp,pp=[[1,2],[2,1]]" zips. Values are JSON where they parse as such, text
// otherwise. --filter field=value keeps the points with that value; the same field twice keeps either.
//
// A result file, or the folder of a sweep that holds one, may stand for a spec: the one inside it is read. So what was measured can be
// run again. A search's result file gives a sweep over the layouts that were found.
//
// A relative FILE of `data` is looked for in the current folder, then next to the spec. The point keeps it as written, so its id is the
// same everywhere. SpecPoint::data is what was found.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/point/point.h"
#include "sweeps/spec/spec_options.h"

namespace mbench::sweeps {

struct SpecPoint {
  Point point;
  std::string id;     // point_id(point)
  std::string label;  // its swept fields, "tp=2 pp=1 seq=128"; the model's name where none is swept
  std::string data;   // point.data with the file that was found
};

struct Spec {
  std::string path;             // of the file; of a result file's spec, the one the sweep was started with
  std::string name;             // of the file if it gives none
  nlohmann::ordered_json json;  // the file with --set done to it; kept in the result file
  std::vector<SpecPoint> points;
  std::vector<std::string> all_ids;  // of every point, those outside the filter too, in order
};

// Throws bad_input naming the file and JSON path, or the option, for anything that is not as above.
Spec read_spec(const SpecOptions& options);

// The file that a path of results means: the results.json of a sweep's folder, else the path itself.
std::string results_file(const std::string& path);

// Where a point's data is: the current folder, then next to `spec_path`. Throws bad_input if in neither.
std::string find_data(const std::string& data, const std::string& spec_path, const std::string& where);

}  // namespace mbench::sweeps
