#include "reports/baselines/baseline.h"

#include <algorithm>
#include <set>

#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "engine/point/metrics.h"
#include "reports/gate/comparable.h"

namespace mbench::reports {
namespace {

using nlohmann::json;  // sorted keys

// Of the environment not stored: the hardware, which is the machine's, and what differs with every run.
const std::set<std::string>& not_stored() {
  static const std::set<std::string> keys = {"cpu",     "cores",    "device",       "host",     "memory_bytes",
                                             "started", "finished", "flop_formula", "launcher", "git_revision"};
  return keys;
}

bool is_flat(const json& array) {
  return std::none_of(array.begin(), array.end(), [](const json& item) { return item.is_structured(); });
}
bool is_of_numbers(const json& object) {
  return std::all_of(object.begin(), object.end(), [](const json& item) { return item.is_number(); });
}

// Two spaces of indent; an array without arrays or objects in it, and an object of numbers alone, is one line.
void print(const json& value, int indent, std::string& out) {
  const std::string space(static_cast<std::size_t>(indent) + 2, ' ');
  const auto scalar = [](const json& item) { return item.dump(-1, ' ', false, json::error_handler_t::replace); };
  if (value.is_object() && !value.empty() && is_of_numbers(value)) {
    const char* separator = "{";
    for (const auto& [key, item] : value.items()) {
      out += separator + scalar(json(key)) + ": " + scalar(item);
      separator = ", ";
    }
    out += "}";
  } else if (value.is_object() && !value.empty()) {
    const char* separator = "{\n";
    for (const auto& [key, item] : value.items()) {
      out += separator + space + scalar(json(key)) + ": ";
      print(item, indent + 2, out);
      separator = ",\n";
    }
    out += "\n" + std::string(static_cast<std::size_t>(indent), ' ') + "}";
  } else if (value.is_array() && !value.empty()) {
    const bool flat = is_flat(value);
    const char* separator = flat ? "[" : "[\n";
    for (const json& item : value) {
      out += separator + (flat ? "" : space);
      print(item, indent + 2, out);
      separator = flat ? ", " : ",\n";
    }
    out += flat ? "]" : "\n" + std::string(static_cast<std::size_t>(indent), ' ') + "]";
  } else {
    out += scalar(value);
  }
}

json numbers(const std::vector<double>& values) {
  json out = json::array();
  for (const double x : values) out.push_back(std::isfinite(x) ? json(x) : json(nullptr));
  return out;
}

// Numbers of at least `low`; null is NaN where that is allowed.
std::vector<double> read_numbers(const json& value, const std::string& where, double low, bool nan_is_null) {
  if (!value.is_array())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an array of numbers", short_json(value));
  std::vector<double> out;
  for (std::size_t i = 0; i < value.size(); ++i)
    out.push_back(nan_is_null && value[i].is_null() ? std::numeric_limits<double>::quiet_NaN()
                                                    : read_number(value[i], fmt::format("{}[{}]", where, i), low));
  return out;
}

// What a reviewer looks for when a figure changed, as the result file has it.
constexpr const char* kAnatomies[] = {"time_anatomy_ms", "communication_mib", "memory_anatomy_mib",
                                      "host_memory_anatomy_mib"};

json entry_to_json(const BaselineEntry& entry) {
  const PointResult& r = entry.result;
  json out = {{"date", entry.date},
              {"revision", entry.revision},
              {"sweep", entry.sweep},
              {"environment", entry.environment},
              {"outcome", name_of(r.outcome)},
              {"world", r.world}};
  if (!r.reason.empty()) out["reason"] = r.reason;
  if (r.simulated) out["simulated"] = true;
  if (!r.measured_by.empty()) out["measured_by"] = r.measured_by;
  if (r.device != r.point.device) out["device_name"] = r.device;
  if (r.peak_memory_mib) out["peak_memory_mib"] = *r.peak_memory_mib;
  if (r.energy_joules) out["energy_joules"] = *r.energy_joules, out["energy_source"] = r.energy_source;
  if (!r.losses.empty()) out["losses"] = numbers(r.losses);
  if (r.iteration_ms) out["samples_ms"] = numbers(r.iteration_ms->samples);
  if (!r.cpu_share_by_rank.empty())
    out["cpu_share_by_rank"] = numbers(r.cpu_share_by_rank);  // by which it is flagged later
  if (r.hosts.size() > 1) out["hosts"] = json(hosts_to_json(r.hosts));
  if (!r.device_faults.empty()) out["device_faults"] = r.device_faults;  // likewise
  if (json tensors = metric_named("peak_tensors_mib").write(r); tensors.is_object())
    out["peak_tensors_mib"] = std::move(tensors);
  for (const char* key : kAnatomies)
    if (json anatomy = metric_named(key).write(r); anatomy.is_object()) out[key] = std::move(anatomy);
  if (entry.pinned) out["pinned"] = true;
  return out;
}

// As the result file has it, so that its reader checks the outcome and fills in what is missing.
PointResult result_of(const json& entry, const json& point, const std::string& id, const std::string& where) {
  json row = point;
  row["id"] = id;
  for (const char* key :
       {"outcome", "reason", "simulated", "measured_by", "device_name", "peak_memory_mib", "world", "energy_joules",
        "energy_source", "losses", "hosts", "cpu_share_by_rank", "device_faults", "peak_tensors_mib"})
    if (entry.contains(key)) row[key] = entry.at(key);
  for (const char* key : kAnatomies) {
    if (!entry.contains(key)) continue;
    // A part that was not told apart when it was stored had none.
    ObjectReader(entry.at(key), where + "." + key);
    row[key] = json::object();
    for (const std::string& part : metric_named(key).parts) row[key][part] = entry.at(key).value(part, json(0));
  }
  PointResult r = result_from_json(row, where);
  if (entry.contains("samples_ms")) {
    auto samples = read_numbers(entry.at("samples_ms"), where + ".samples_ms", 0, false);
    if (!samples.empty()) r.iteration_ms = statistics_of(std::move(samples));
  }
  return r;
}

BaselineEntry entry_from_json(const json& value, const json& point, const std::string& id, const std::string& where) {
  ObjectReader reader(value, where);
  BaselineEntry entry;
  const auto text = [&](const char* key, const char* need) {
    return read_string(reader.require(key, need), reader.path(key));
  };
  entry.date = text("date", "when it was measured");
  entry.revision = text("revision", "the revision of what was measured");
  if (const json* sweep = reader.find("sweep")) entry.sweep = read_string(*sweep, reader.path("sweep"));
  if (const json* environment = reader.find("environment")) {
    ObjectReader(*environment, reader.path("environment"));
    entry.environment = *environment;
  }
  if (const json* pinned = reader.find("pinned")) entry.pinned = read_bool(*pinned, reader.path("pinned"));
  entry.result = result_of(value, point, id, where);
  return entry;
}

}  // namespace

BaselineFile read_baseline_file(const std::string& path) {
  const json root = parse_json(read_text_file(path), path);
  const std::string top = path + ": $";
  ObjectReader reader(root, top);
  const std::string schema =
      read_string(reader.require("schema", fmt::format("\"{}\"", BaselineFile::kSchema)), reader.path("schema"));
  if (schema != BaselineFile::kSchema)
    fail(ErrorKind::bad_input, top + ".schema", "another schema, got \"{}\", need \"{}\"", schema,
         BaselineFile::kSchema);
  BaselineFile file;
  file.id = read_string(reader.require("id", "the id of the point"), reader.path("id"));
  file.machine = reader.require("machine", "the hardware");
  ObjectReader(file.machine, reader.path("machine"));
  const json& point = reader.require("point", "its configuration");
  ObjectReader(point, reader.path("point"));
  const json& history = reader.require("history", "an array of entries");
  if (!history.is_array() || history.empty())
    fail(ErrorKind::bad_input, reader.path("history"), "wrong type, got {}, need at least one entry",
         short_json(history));
  for (std::size_t i = 0; i < history.size(); ++i)
    file.history.push_back(
        entry_from_json(history[i], point, file.id, fmt::format("{}[{}]", reader.path("history"), i)));
  std::stable_sort(file.history.begin(), file.history.end(),
                   [](const BaselineEntry& a, const BaselineEntry& b) { return a.date < b.date; });
  return file;
}

std::string baseline_text(const BaselineFile& file) {
  check(!file.history.empty(), "baseline", "no entries to write");
  json root = {{"schema", BaselineFile::kSchema},
               {"id", file.id},
               {"machine", file.machine},
               {"point", json(point_to_json(file.newest().result.point))},
               {"history", json::array()}};
  for (const BaselineEntry& entry : file.history) root["history"].push_back(entry_to_json(entry));
  std::string text;
  print(root, 0, text);
  return text + "\n";
}

void write_baseline_file(const std::string& path, const BaselineFile& file) {
  write_file_atomically(path, baseline_text(file));
}

BaselineEntry entry_of(const ResultFile& file, const PointResult& point, bool memory_only, bool with_losses) {
  BaselineEntry entry;
  const auto text = [](const nlohmann::ordered_json& object, const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>()
                                                                                 : std::string();
  };
  entry.date = text(file.environment, "started");
  entry.revision = text(file.environment, "git_revision");
  entry.sweep = text(file.spec, "name");
  if (file.environment.is_object())
    for (const auto& [key, value] : file.environment.items())
      if (!not_stored().contains(key)) entry.environment[key] = value;
  entry.result = point;
  if (memory_only) {
    entry.result.iteration_ms.reset();
    entry.result.time_anatomy_ms.reset();
    entry.result.cpu_share_by_rank.clear();
    entry.result.device_faults.clear();
    entry.result.energy_joules.reset();
    if (!with_losses) entry.result.losses.clear();
    entry.result.hosts.clear();
    if (point.point.device == "cpu") entry.result.device = "cpu";  // any
  }
  return entry;
}

nlohmann::json machine_of_entry(const ResultFile& file, const PointResult& point, bool memory_only) {
  json machine = machine_of(file.environment, point);
  if (memory_only)
    for (const char* key : {"cpu", "cores", "nodes", "ranks_per_node"}) machine.erase(key);
  return machine;
}

}  // namespace mbench::reports
