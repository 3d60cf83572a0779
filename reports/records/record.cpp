#include "reports/records/record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/point/fields.h"
#include "engine/point/model_changes.h"
#include "engine/point/result_file.h"
#include "reports/records/bound.h"
#include "reports/records/record_json.h"
#include "reports/records/stragglers.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kEnvironment = "environment.";
constexpr std::array<std::string_view, 34> kDerived = {"window.index",
                                                       "window.end_s",
                                                       "window.steps",
                                                       "window.median_ms",
                                                       "window.worst_ms",
                                                       "window.samples_per_s",
                                                       "window.clock_mhz",
                                                       "window.least_clock_mhz",
                                                       "window.power_w",
                                                       "window.hottest_c",
                                                       "window.throttle",
                                                       "window.against",
                                                       "window.dip",
                                                       "rank.index",
                                                       "rank.host",
                                                       "rank.stage",
                                                       "rank.step_ms",
                                                       "rank.compute_ms",
                                                       "rank.against_peers",
                                                       "rank.cpu_share",
                                                       "rank.peak_memory_mib",
                                                       "rank.straggler",
                                                       "nodes",
                                                       "devices_per_node",
                                                       "micro_batches",
                                                       "runtime_s",
                                                       "tokens_per_s_per_device",
                                                       "energy_w_per_device",
                                                       "memory_margin_mib",
                                                       "compute_share",
                                                       "communication_share",
                                                       "bubble_share",
                                                       "host_share",
                                                       "bound_by"};

// The value of a dotted name without the stand-ins for objects; nullptr if the path leads nowhere.
const Json* walk(const Json& root, std::string_view name) {
  const Json* at = &root;
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string key(name.substr(0, dot));
    if (at->is_array()) {
      if (at->empty()) return nullptr;
      if (key == "first")
        at = &at->front();
      else if (key == "last")
        at = &at->back();
      else
        return nullptr;
    } else {
      if (!at->is_object()) return nullptr;
      // A figure of the machine has dots in its name.
      if (const auto whole = at->find(std::string(name)); whole != at->end()) return &*whole;
      const auto it = at->find(key);
      if (it == at->end()) return nullptr;
      at = &*it;
    }
    if (dot == std::string_view::npos) return at;
    name.remove_prefix(dot + 1);
  }
}

// What `root` may be followed by, or the names without a dot if it is empty.
std::vector<std::string> choices_below(const std::vector<Record>& records, std::string_view root) {
  std::set<std::string> names;
  for (const Record& record : records) {
    const Json* at = root.empty() ? &record.json() : walk(record.json(), root);
    const std::string prefix = root.empty() ? "" : fmt::format("{}.", root);
    if (at && at->is_object())
      for (const auto& [key, value] : at->items()) names.insert(prefix + key);
    if (at && at->is_array())
      for (const char* end : {"first", "last", "size"}) names.insert(prefix + end);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> model_choices(const std::vector<Record>& records) {
  std::vector<std::string> names;
  const Json sizes = records.front().model();
  for (const auto& [key, value] : sizes.items()) names.push_back("model." + key);
  return names;
}

bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  double x = 0, y = 0;  // "0.10" matches 0.1
  const auto [ea, ra] = std::from_chars(a.data(), a.data() + a.size(), x);
  const auto [eb, rb] = std::from_chars(b.data(), b.data() + b.size(), y);
  return ra == std::errc{} && rb == std::errc{} && ea == a.data() + a.size() && eb == b.data() + b.size() && x == y;
}

int devices_per_node(const Json& environment) {
  const Json* found = walk(environment, "devices_per_node");
  return found && found->is_number_integer() ? found->get<int>() : 0;
}

}  // namespace

Record::Record(const PointResult& result, std::shared_ptr<const File> file)
    : json_(brief_json(result)),
      file_(std::move(file)),
      model_(result.point.model),
      outcome_(result.outcome),
      simulated_(result.simulated),
      samples_ms_(result.iteration_ms ? result.iteration_ms->samples : std::vector<double>()),
      reason_(reason_of(result)),
      shares_(time_shares(result)),
      hosts_(static_cast<std::int64_t>(result.hosts.size())),
      ranks_per_node_(mbench::ranks_per_node(result.hosts)) {
  if (const auto times = rank_times(result); !times.empty()) ranks_ = std::make_shared<Json>(ranks_json(result, times));
  if (result.soak && !result.soak->windows.empty()) windows_ = std::make_shared<Json>(windows_json(*result.soak));
  if (shares_)
    bound_by_ = reports::bound_by(result, hosts_ > 0 ? static_cast<int>(ranks_per_node_)
                                          : file_    ? devices_per_node(file_->environment)
                                                     : 0);
  // How many weights there are is known of a point that did not run, too.
  if (!result.parameters)
    if (const auto count = known_parameter_count(model_, result.point.tp, result.point.vocab_multiple_used()))
      json_["parameters"] = *count;
  // One sample has no spread; that the record's number says 0 is no measurement.
  if (result.iteration_ms && result.iteration_ms->samples.size() < 2)
    for (const char* metric : {"iteration_ms", "samples_per_s"})
      if (json_[metric].is_object()) json_[metric]["stddev"] = nullptr;
}

const Json* Record::find(const std::string& key) const {
  const auto& members = json_.get_ref<const Json::object_t&>();
  if (file_)
    if (const auto at = file_->positions.find(key); at != file_->positions.end() && at->second < members.size())
      if (const auto member = members.begin() + static_cast<std::ptrdiff_t>(at->second); member->first == key)
        return &member->second;
  const auto it = members.find(key);
  return it == members.end() ? nullptr : &it->second;
}

const Json* Record::walk(std::string_view name) const {
  const std::size_t dot = name.find('.');
  const Json* top = find(std::string(name.substr(0, dot)));
  return !top || dot == std::string_view::npos ? top : reports::walk(*top, name.substr(dot + 1));
}

std::vector<Record> Record::by_rank() const {
  if (!ranks_) return {*this};
  std::vector<Record> records(ranks_->size(), *this);
  for (std::size_t i = 0; i < records.size(); ++i) records[i].json_["rank"] = (*ranks_)[i];
  return records;
}

std::vector<Record> Record::by_window() const {
  if (!windows_) return {*this};
  std::vector<Record> records(windows_->size(), *this);
  for (std::size_t i = 0; i < records.size(); ++i) records[i].json_["window"] = (*windows_)[i];
  return records;
}

Record Record::with(const std::string& name, Json value) const {
  Record more = *this;
  more.json_[name] = std::move(value);
  return more;
}

Record Record::with_all(const Json& values) const {
  Record more = *this;
  for (const auto& [name, value] : values.items()) more.json_[name] = value;
  return more;
}

Json Record::model() const {
  Point unnamed;  // without a preset's name, so that the sizes are written out
  unnamed.model = model_;
  unnamed.model.name.clear();
  Json sizes = point_to_json(unnamed).at("model");
  sizes["name"] = model_.name;
  return sizes;
}

Json Record::value(std::string_view name) const {
  Json made;
  return value(name, made);
}

const Json& Record::value(std::string_view name, Json& made) const {
  made = nullptr;
  if (name.size() > 5 && name.substr(name.size() - 5) == ".size") {
    const Json* array = walk(name.substr(0, name.size() - 5));
    if (array && array->is_array()) return made = array->size();
  }
  if (name.substr(0, 6) == "model.") {
    const Json sizes = model();
    if (const Json* found = reports::walk(sizes, name.substr(6))) made = *found;
    return made;
  }
  const Json* found = walk(name);
  if (!found) return made = derived(name);
  if (!found->is_object()) return *found;
  const auto mean = found->find("mean");
  return mean == found->end() ? *found : *mean;
}

Json Record::derived(std::string_view name) const {
  if (name.substr(0, kEnvironment.size()) == kEnvironment) {
    const Json* found = file_ ? reports::walk(file_->environment, name.substr(kEnvironment.size())) : nullptr;
    return found ? *found : Json(nullptr);
  }
  if (std::find(kDerived.begin(), kDerived.end(), name) == kDerived.end()) return nullptr;
  if (name.starts_with("window.") || name.starts_with("rank.")) return nullptr;  // not of a whole point
  const auto number = [&](std::string_view of) {
    const Json known = value(of);
    return known.is_number() ? known.get<double>() : 0;
  };
  if (name == "micro_batches") {
    const double count = number("global_batch") / (number("micro_batch") * number("dp"));
    return count == std::floor(count) ? Json(static_cast<std::int64_t>(count)) : Json(nullptr);
  }
  if (name == "bound_by") return bound_by_.empty() ? Json(nullptr) : Json(bound_by_);
  if (name.ends_with("_share")) {
    if (!shares_) return nullptr;
    return name == "compute_share"         ? shares_->compute
           : name == "communication_share" ? shares_->communication
           : name == "bubble_share"        ? shares_->bubble
                                           : shares_->host;
  }
  if (name == "tokens_per_s_per_device") {
    const double rate = number("tokens_per_s");
    return rate > 0 ? Json(rate / number("world")) : Json(nullptr);
  }
  if (name == "energy_w_per_device") {
    const double joules = number("energy_joules"), ms = number("iteration_ms.mean");
    return joules > 0 && ms > 0 ? Json(joules / ms * 1000 / number("world")) : Json(nullptr);
  }
  if (name == "memory_margin_mib") {
    const double usable = number("environment.usable_memory_mib"), held = number("reserved_memory_mib");
    return usable > 0 && held > 0 ? Json(usable - held) : Json(nullptr);
  }
  if (name == "runtime_s") {
    const double ms = number("iteration_ms.mean");
    return ms > 0 ? Json(number("iterations") * ms / 1000) : Json(nullptr);
  }
  if (hosts_ > 0) return name == "nodes" ? hosts_ : ranks_per_node_;
  const double world = number("world"), node = number("environment.devices_per_node");
  if (node < 1 || world < 1) return nullptr;
  const auto nodes = static_cast<std::int64_t>(std::ceil(world / node));
  return name == "nodes" ? nodes : static_cast<std::int64_t>(world) / nodes;
}

std::string Record::text(std::string_view name) const {
  Json made;
  return text_of(value(name, made));
}

void Record::publish(const Published& published, std::optional<std::size_t> row) {
  published_row_ = row;
  // Both first: a new key moves the values of an ordered object.
  json_["published"] = Json::object();
  json_["error"] = Json::object();
  Json &theirs = json_["published"], &errors = json_["error"];
  for (const std::string& metric : published.metrics) {
    theirs[metric] = {{"mean", nullptr}, {"stddev", nullptr}, {"least", nullptr}, {"most", nullptr}};
    errors[metric] = nullptr;
  }
  if (!row) return;
  const PublishedRow& found = published.rows[*row];
  if (found.oom)
    for (const std::string& metric : published.metrics) {
      theirs[metric]["mean"] = outcome_text(Outcome::oom);
      if (!found.doubt.empty()) remarks_["published." + metric] = found.doubt;
    }
  for (const PublishedFigure& figure : found.figures) {
    theirs[figure.metric]["mean"] = figure.mean;
    if (figure.stddev) theirs[figure.metric]["stddev"] = *figure.stddev;
    if (!figure.runs.empty()) {
      theirs[figure.metric]["least"] = figure.runs.front();
      theirs[figure.metric]["most"] = figure.runs.back();
    }
    if (!figure.doubt.empty()) remarks_["published." + figure.metric] = figure.doubt;
    const Json ours = value(figure.metric);
    if (ours.is_number() && figure.mean != 0 && (outcome_ == Outcome::ok || figure.metric == "parameters"))
      errors[figure.metric] = (ours.get<double>() - figure.mean) / figure.mean;
  }
}

std::string Record::remark(std::string_view name) const {
  const auto found = remarks_.find(name);
  return found == remarks_.end() ? "" : found->second;
}

std::string text_of(const Json& value) {
  if (value.is_null()) return "n/a";
  if (value.is_string()) return value.get_ref<const std::string&>().empty() ? "none" : value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (value.is_object()) {
    if (const auto name = value.find("name"); name != value.end() && name->is_string() && *name != "custom")
      return label_of_model(value);
    std::string text;
    for (const auto& [key, item] : value.items())
      if (key != "name") text += (text.empty() ? "" : ", ") + key + "=" + text_of(item);
    return text.empty() ? "none" : text;
  }
  return value.dump();
}

std::optional<Published> published_of(const Json& spec) {
  if (!spec.is_object() || !spec.contains("published")) return std::nullopt;
  return read_published(spec.at("published"), "spec.published");
}

std::string outcome_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::oom:
      return "OOM";
    case Outcome::launch_failed:
      return "launch failed";
    default:
      return std::string(name_of(outcome));
  }
}

std::vector<Record> records_of(const ResultFile& file) {
  std::vector<Record> records;
  records.reserve(file.points.size());
  auto common = std::make_shared<Record::File>();
  common->environment = file.environment;
  const Json first = file.points.empty() ? Json::object() : result_to_json(file.points.front());
  for (const auto& [key, value] : first.items()) common->positions.emplace(key, common->positions.size());
  for (const PointResult& result : file.points) records.emplace_back(result, common);
  const auto published = published_of(file.spec);
  if (!published) return records;
  for (Record& record : records) {
    std::optional<std::size_t> row;
    const std::string model = record.model().at("name").get<std::string>();
    for (std::size_t i = 0; i < published->rows.size() && !row; ++i)
      if (published->rows[i].picks(record.json(), model)) row = i;
    record.publish(*published, row);
  }
  return records;
}

void require_name(const std::vector<Record>& records, std::string_view name, std::string_view where) {
  if (records.empty()) return;
  const std::string_view root = name.substr(0, name.find('.'));
  bool root_known = false, root_has_value = false;
  for (const Record& record : records) {
    if (walk(record.json(), name)) return;
    if (!record.value(name).is_null()) return;  // array sizes
    const Json* top = walk(record.json(), root);
    root_known = root_known || top != nullptr;
    root_has_value = root_has_value || (top && !top->is_null() && !(top->is_array() && top->empty()));
  }
  if (root == kEnvironment.substr(0, kEnvironment.size() - 1) && name != root) return;
  if (std::find(kDerived.begin(), kDerived.end(), name) != kDerived.end()) return;
  if (root == "seeds" && name != root) return;  // of whatever the points have
  // A variable of env that no point sets, or a part of a metric that no point has, is a null and no mistake.
  if (root_known && name != root && (root == "env" || !root_has_value)) return;
  std::vector<std::string> choices;
  if (name != root) choices = root == "model" ? model_choices(records) : choices_below(records, root);
  if (choices.empty()) choices = choices_below(records, "");
  fail(ErrorKind::bad_input, where, "no field or metric of that name, got \"{}\", {}", name,
       nearest_choice(name, choices));
}

std::vector<std::string> metric_names(const std::vector<const Record*>& records) {
  static const std::set<std::string> others = {"id", "world", "device_name", "simulated", "outcome", "reason"};
  std::vector<std::string> names;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (seen.insert(name).second) names.push_back(name);
  };
  for (const Record* record : records)
    for (const auto& [key, value] : record->json().items()) {
      if (value.is_null() || others.count(key) || find_field(key)) continue;
      if (value.is_object()) {
        for (const auto& [part, number] : value.items())
          if (number.is_number() && part != "size") add(key + "." + part);
      } else if (value.is_array()) {
        add(key + ".first");
        add(key + ".last");
      } else {
        add(key);
      }
    }
  return names;
}

namespace {

// The fields of a spec's "sweep" in its order.
std::vector<std::string> fields_of_sweep(const Json& spec) {
  std::vector<std::string> fields;
  if (!spec.is_object() || !spec.contains("sweep") || !spec["sweep"].is_object()) return fields;
  for (const auto& [key, values] : spec["sweep"].items()) {
    std::size_t start = 0;
    while (start <= key.size()) {
      const std::size_t comma = std::min(key.find(',', start), key.size());
      std::string field = key.substr(start, comma - start);
      field.erase(0, field.find_first_not_of(' '));
      field.erase(field.find_last_not_of(' ') + 1);
      if (!field.empty()) fields.push_back(field);
      start = comma + 1;
    }
  }
  return fields;
}

// Those of `fields` in which some record differs from the first. Record by record: there may be thousands.
std::set<std::string> differing(const std::vector<std::string>& fields, const std::vector<const Record*>& records) {
  std::set<std::string> differ;
  std::vector<std::pair<std::string, Json>> same;
  if (!records.empty())
    for (const std::string& field : fields) same.emplace_back(field, records.front()->value(field));
  const auto leaves = [&](const Record* record, const std::pair<std::string, Json>& first) {
    const Json* value = record->find(first.first);
    return value && !value->is_object() ? *value != first.second : record->value(first.first) != first.second;
  };
  for (const Record* record : records)
    for (std::size_t i = 0; i < same.size();) {
      if (!leaves(record, same[i])) {
        ++i;
        continue;
      }
      differ.insert(same[i].first);
      same.erase(same.begin() + static_cast<std::ptrdiff_t>(i));
    }
  return differ;
}

}  // namespace

std::vector<std::string> swept_fields(const Json& spec, const std::vector<const Record*>& records) {
  std::vector<std::string> candidates = fields_of_sweep(spec);
  const std::size_t of_sweep = candidates.size();
  for (const std::string& field : point_keys())
    if (std::find(candidates.begin(), candidates.end(), field) == candidates.end()) candidates.push_back(field);
  for (const PointField& former : former_point_fields())
    if (std::find(candidates.begin(), candidates.end(), former.key) == candidates.end())
      candidates.push_back(former.key);
  const std::set<std::string> differ = differing(candidates, records);
  std::vector<std::string> fields;
  std::vector<std::string> said(records.size());  // what the fields so far say of each record
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const std::string& field = candidates[c];
    if (!differ.count(field) || std::find(fields.begin(), fields.end(), field) != fields.end()) continue;
    std::unordered_map<std::string, Json> seen;  // what they say -> what this one says
    bool follows = c >= of_sweep;
    for (std::size_t i = 0; i < records.size() && follows; ++i) {
      const auto [it, fresh] = seen.try_emplace(said[i], records[i]->value(field));
      follows = fresh || it->second == records[i]->value(field);
    }
    if (follows) continue;
    fields.push_back(field);
    for (std::size_t i = 0; i < records.size(); ++i) said[i] += records[i]->text(field) + '\x1f';
  }
  return fields;
}

bool Condition::matches(const Record& record) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    return std::any_of(terms_.begin(), terms_.end(), [&](const Term& other) {
      if (other.field != term.field) return false;
      if (same_value(record.text(other.field), other.value)) return true;
      return other.field == "model" &&
             record.model_name() == other.value;  // a preset with one size changed is asked for by its name
    });
  });
}

}  // namespace mbench::reports
