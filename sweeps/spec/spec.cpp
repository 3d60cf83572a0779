#include "sweeps/spec/spec.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/base/json_reader.h"
#include "engine/point/fields.h"
#include "engine/point/model_changes.h"
#include "engine/point/point_builder.h"
#include "sweeps/spec/found_layouts.h"
#include "sweeps/spec/gates.h"
#include "sweeps/spec/options.h"
#include "sweeps/spec/published.h"

namespace mbench::sweeps {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxPoints = 100000;

// A value of one field and where it stands.
struct Value {
  std::string field;
  json value;
  std::string where;
};
using Setting = std::vector<Value>;  // one, or those that are zipped

// One entry of `sweep`: its settings, one of which each point takes.
struct Dimension {
  std::vector<std::string> fields;
  std::vector<Setting> settings;
};

std::vector<std::string> spec_keys() {
  std::vector<std::string> keys = {"$schema", "name", "sweep", "tables", "published", "gates"};
  for (const std::string& key : point_keys())
    if (key != "device") keys.push_back(key);
  return keys;
}

void require_field(const std::string& field, const std::string& where, const std::vector<std::string>& keys) {
  if (field == "device") fail(ErrorKind::bad_input, where, "the device is no field of a spec, need --on");
  if (is_field(field)) return;  // a figure of the machine is looked for in its file, which is not known here
  if (std::find(keys.begin(), keys.end(), field) == keys.end())
    fail(ErrorKind::bad_input, where, "unknown key, got \"{}\", {}", field, nearest_choice(field, keys));
}

Dimension read_dimension(const std::string& key, const ordered_json& values, const std::string& where) {
  Dimension d;
  d.fields = split_fields(key);
  std::vector<std::string> keys = point_keys();
  keys.erase(std::find(keys.begin(), keys.end(), "device"));
  for (const std::string& field : d.fields) require_field(field, where, keys);
  if (!values.is_array() || values.empty())
    fail(ErrorKind::bad_input, where, "got {}, need an array of at least one value", short_json(json(values)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", where, i);
    if (d.fields.size() == 1) {
      d.settings.push_back({{d.fields[0], json(values[i]), path}});
      continue;
    }
    if (!values[i].is_array() || values[i].size() != d.fields.size())
      fail(ErrorKind::bad_input, path, "got {}, need an array of {} values for {}", short_json(json(values[i])),
           d.fields.size(), key);
    Setting setting;
    for (std::size_t j = 0; j < d.fields.size(); ++j)
      setting.push_back({d.fields[j], json(values[i][j]), fmt::format("{}[{}]", path, j)});
    d.settings.push_back(setting);
  }
  return d;
}

std::string read_name(const ordered_json& root, const std::string& path) {
  if (!root.contains("name")) return fs::path(path).stem().string();
  const std::string where = path + ": $.name";
  const std::string name = read_string(json(root.at("name")), where);
  const bool plain = !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '+';
  });
  if (!plain)
    fail(ErrorKind::bad_input, where, "no name for a folder, got \"{}\", need letters, digits, . _ - or +", name);
  return name;
}

std::string label_of(const Point& point, const std::vector<Dimension>& dimensions) {
  std::string label;
  for (const Dimension& d : dimensions)
    for (const std::string& field : d.fields) {
      const ordered_json value = point_field(point, field);
      const std::string text = field == "model"       ? label_of(point.model)
                               : field == "framework" ? name_of(point.framework)
                               : value.is_string()    ? value.get<std::string>()
                                                      : value.dump(-1, ' ', false, json::error_handler_t::replace);
      label += fmt::format("{}{}={}", label.empty() ? "" : " ", field, text);
    }
  return label.empty() ? label_of(point.model) : label;
}

class Reader {
 public:
  explicit Reader(const SpecOptions& options) : options_(options) {
    spec_.path = results_file(options.path);
    spec_.json = options.json ? *options.json : parse_json(read_text_file(spec_.path), spec_.path);
    top_ = spec_.path + ": $";
    take_out_of_results();
    if (!spec_.json.is_object()) fail(ErrorKind::bad_input, top_, "wrong type, need the object of a spec");
    for (const std::string& text : options.set) apply_set(spec_.json, parse_assignment(text, "--set"), "--set " + text);
    if (spec_.json.contains("sweep") && spec_.json["sweep"].is_object() && spec_.json["sweep"].empty())
      spec_.json.erase("sweep");
  }

  Spec read() {
    spec_.name = read_name(spec_.json, options_.path);
    read_top_level();
    read_sweep();
    std::size_t count = 1;
    for (const Dimension& d : dimensions_) {
      count *= d.settings.size();
      if (count > kMaxPoints)
        fail(ErrorKind::bad_input, top_ + ".sweep", "more than {} points, need fewer", kMaxPoints);
    }
    const Filter filter(options_.filter);
    for (std::size_t i = 0; i < count; ++i) add_point(i, filter);
    if (spec_.json.contains("published"))
      check_published(spec_.json.at("published"), top_ + ".published", all_points_, !options_.set.empty());
    if (spec_.json.contains("gates"))
      check_gates(spec_.json.at("gates"), top_ + ".gates", all_points_, !options_.set.empty());
    if (spec_.points.empty())
      fail(ErrorKind::bad_input, "--filter", "none of the {} points is left, need a value that a point has", count);
    return std::move(spec_);
  }

 private:
  // A result file stands for the spec inside it, whose data is where the sweep found it: beside the spec's
  // own file.
  void take_out_of_results() {
    if (!spec_.json.is_object() || !spec_.json.contains("schema") || !spec_.json.contains("spec")) return;
    const ordered_json results = std::move(spec_.json);
    spec_.json = results.at("spec");
    top_ += ".spec";
    if (leaves_fields_free(spec_.json)) spec_.json = spec_of_layouts(results, spec_.path);
    if (!results.contains("environment") || !results.at("environment").is_object()) return;
    const ordered_json& environment = results.at("environment");
    if (environment.contains("spec_file"))
      spec_.path = read_string(json(environment.at("spec_file")), options_.path + ": $.environment.spec_file");
  }

  void read_top_level() {
    const std::vector<std::string> keys = spec_keys();
    for (const auto& [key, value] : spec_.json.items()) {
      const std::string where = top_ + "." + key;
      require_field(key, where, keys);
      if (key == "$schema") read_string(json(value), where);  // for editors: its text means nothing here
      if (key == "$schema" || key == "name" || key == "sweep" || key == "tables" || key == "published" ||
          key == "gates")
        continue;
      fixed_.push_back({key, json(value), where});
    }
  }

  void read_sweep() {
    if (!spec_.json.contains("sweep")) return;
    const ordered_json& sweep = spec_.json.at("sweep");
    const std::string where = top_ + ".sweep";
    if (!sweep.is_object())
      fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of fields and their values",
           short_json(json(sweep)));
    std::map<std::string, std::string> place;
    for (const Value& v : fixed_) place[v.field] = v.where;
    for (const auto& [key, values] : sweep.items()) {
      const std::string path = where + "." + key;
      dimensions_.push_back(read_dimension(key, values, path));
      for (const std::string& field : dimensions_.back().fields) {
        const auto [other, fresh] = place.emplace(field, path);
        if (!fresh)
          fail(ErrorKind::bad_input, path, "\"{}\" stands at {} too, need it in one place", field, other->second);
      }
    }
  }

  // Point i of the cross product, the last dimension fastest.
  void add_point(std::size_t i, const Filter& filter) {
    PointBuilder builder;
    std::string data_where = top_;
    const auto set = [&](const Value& v) {
      builder.set(v.field, v.value, v.where);
      if (v.field == "data") data_where = v.where;
    };
    for (const Value& v : fixed_) set(v);
    std::string sweep_where;
    for (std::size_t d = dimensions_.size(), rest = i; d-- > 0;) {
      const auto& settings = dimensions_[d].settings;
      for (const Value& v : settings[rest % settings.size()]) set(v);
      rest /= settings.size();
    }
    builder.set("device", options_.device, "--on");
    SpecPoint p;
    p.point = builder.finish(top_);
    p.id = point_id(p.point);
    p.label = label_of(p.point, dimensions_);
    const auto [same, fresh] = labels_.emplace(p.id, p.label);
    if (!fresh)
      fail(ErrorKind::bad_input, top_ + ".sweep", "two points are the same, got {} and {}, need each once",
           same->second, p.label);
    p.data = find_data(p.point.data, spec_.path, data_where);
    spec_.all_ids.push_back(p.id);
    all_points_.push_back(p.point);
    if (filter.keeps(p.point)) spec_.points.push_back(p);
  }

  const SpecOptions& options_;
  Spec spec_;
  std::string top_;
  std::vector<Value> fixed_;
  std::vector<Dimension> dimensions_;
  std::map<std::string, std::string> labels_;  // by id
  std::vector<Point> all_points_;              // those outside the filter too
};

}  // namespace

std::string results_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? (fs::path(path) / "results.json").string() : path;
}

std::string find_data(const std::string& data, const std::string& spec_path, const std::string& where) {
  const std::size_t colon = data.find(':');
  if (colon == std::string::npos) return data;
  const fs::path file = data.substr(colon + 1);
  const fs::path beside = fs::path(spec_path).parent_path() / file;  // `file` itself if that is absolute
  std::error_code ignored;
  if (fs::exists(file, ignored)) return data;
  if (fs::exists(beside, ignored)) return data.substr(0, colon + 1) + beside.string();
  fail(ErrorKind::bad_input, where, "no such data file, got \"{}\", need a file in {} or {}", file.string(),
       fs::current_path(ignored).string(), beside.parent_path().empty() ? "." : beside.parent_path().string());
}

Spec read_spec(const SpecOptions& options) {
  return Reader(options).read();
}

}  // namespace mbench::sweeps
