#include "sweeps/store/store.h"

#include <algorithm>
#include <filesystem>

#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "sweeps/run/consistency.h"
#include "sweeps/run/point_run.h"

namespace mbench::sweeps {
namespace {

namespace fs = std::filesystem;

bool holds_something(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && fs::file_size(file, error) > 0;
}

// Steps or windows of a run that did not end.
std::size_t measured_of(const PointResult& row) {
  return row.soak ? row.soak->windows.size() : row.partial_ms.size();
}

// The results of single points: points/<id>.json, not <id>.point.json.
std::vector<fs::path> point_results(const fs::path& out) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(out / "points", error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".json") && !name.ends_with(".point.json")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

ResultStore::ResultStore(const std::string& out, const Spec& spec, nlohmann::ordered_json environment, bool resume,
                         Render render)
    : out_(out), spec_(spec), render_(std::move(render)) {
  file_.spec = spec.json;
  if (!file_.spec.contains("name")) file_.spec["name"] = spec.name;
  file_.environment = std::move(environment);
  for (const std::string& id : spec.all_ids) place_.emplace(id, place_.size());
  const bool used = holds_something(results_path()) || !point_results(out_).empty();
  if (used && !resume)
    fail(ErrorKind::bad_input, out_, "holds the results of a sweep, need --resume to go on with it or another --out");
  if (resume && !fs::is_directory(out_))
    fail(ErrorKind::bad_input, out_, "nothing to resume, need the folder of a sweep that was begun");
  make_folder();
  lock();
  if (used) take_over();
}

std::string ResultStore::results_path() const {
  return (fs::path(out_) / "results.json").string();
}

void ResultStore::make_folder() {
  std::error_code error;
  fs::create_directories(fs::path(out_) / "points", error);
  if (error) fail(ErrorKind::bad_input, out_, "the folder cannot be made: {}", error.message());
}

void ResultStore::lock() {
  lock_ = FolderLock::try_for(out_);
  if (!lock_) fail(ErrorKind::bad_input, out_, "another sweep is running there, need another --out");
}

bool ResultStore::restore_folder() {
  std::error_code ignored;
  if (fs::is_directory(fs::path(out_) / "points", ignored)) return false;
  make_folder();
  lock();
  notes_.push_back(fmt::format("[{}] the folder was removed while the sweep ran: made again", out_));
  return true;
}

void ResultStore::take_over() {
  take_over_points(take_over_results());
}

// Why results.json cannot be used; empty if it can.
std::string ResultStore::take_over_results() {
  if (!holds_something(results_path())) return "results.json is missing or empty";
  const std::string text = read_text_file(results_path());
  if (!nlohmann::json::accept(text)) return "results.json is cut short or damaged";
  const ResultFile older = read_result_file(results_path());  // another schema and the like are refused
  check_environment(older.environment);
  for (const PointResult& row : older.points) {
    check_expanded(row.id);
    check_fields(row);
    take(row);
  }
  return "";
}

// The points that were finished but did not reach results.json: the sweep was killed, or the disk was full.
void ResultStore::take_over_points(const std::string& why) {
  std::size_t readable = 0, unreadable = 0, adopted = 0;
  for (const fs::path& path : point_results(out_)) {
    const std::string id = path.stem().string();
    if (!why.empty()) check_expanded(id);
    if (!place_.contains(id) || has(id)) continue;
    try {
      PointResult result = result_from_json(nlohmann::json(parse_json(read_text_file(path.string()), path.string())),
                                            path.string() + ": $");
      adopted += adopt(std::move(result), id);
      ++readable;
    } catch (const Error&) {
      ++unreadable;  // it is run again, and so gets its row
    }
  }
  if (!why.empty())
    notes_.push_back(fmt::format("[{}] {}: rebuilt from {} of the {} files in points/{}", out_, why, readable,
                                 readable + unreadable, unreadable ? ", the others run again" : ""));
  else if (adopted > 0)
    notes_.push_back(fmt::format("[{}] results.json lacks {} finished point{}: taken over from points/", out_, adopted,
                                 adopted == 1 ? "" : "s"));
}

// Whether it is a finished result of the point of this id; bad_input if it is another's. A run that the sweep did not see end wrote its own
// id and knew the data by where it was found, and its losses were held against no other's.
bool ResultStore::adopt(PointResult result, const std::string& id) {
  const auto p =
      std::find_if(spec_.points.begin(), spec_.points.end(), [&](const SpecPoint& known) { return known.id == id; });
  if (p != spec_.points.end() && result.point.data == p->data) result.point.data = p->point.data;
  if (point_id(result.point) != id) fail(ErrorKind::bad_input, id, "the fields are not that point's");
  result.id = id;
  check_losses(result, file_.points);
  take(result);
  return is_done(result.outcome);
}

// What was measured is not lost before there is more.
void ResultStore::take(const PointResult& row) {
  if (is_done(row.outcome)) {
    insert(row);
    again_.erase(row.id);
  } else if (measured_of(row) > 0) {
    const auto at = find_place(row.id);
    if (at == file_.points.end() || at->id != row.id || measured_of(*at) < measured_of(row)) insert(row);
    again_.insert(row.id);
  }
}

void ResultStore::check_expanded(const std::string& id) const {
  if (!place_.contains(id))
    fail(ErrorKind::bad_input, out_,
         "holds point {}, which {} does not expand to, need the same spec, --set and --on, or another --out", id,
         spec_.path);
}

// A row whose fields someone has changed would pass for the point of the spec.
void ResultStore::check_fields(const PointResult& row) const {
  if (const std::string id = point_id(row.point); id != row.id)
    fail(ErrorKind::bad_input, results_path(),
         "the fields of row {} are not that point's, got those of {}, need the row as it was measured, or "
         "without it",
         row.id, id);
}

void ResultStore::check_environment(const nlohmann::ordered_json& older) const {
  for (const char* key : {"cpu", "cores"}) {
    if (!older.is_object() || !older.contains(key) || !file_.environment.contains(key)) continue;
    if (older.at(key) != file_.environment.at(key))
      fail(ErrorKind::bad_input, out_,
           "was measured with {} {}, this machine has {}, need that machine or another --out", key,
           older.at(key).dump(), file_.environment.at(key).dump());
  }
  // The rows of a soak are of other steps than those of a run without one.
  const auto soak_of = [](const nlohmann::ordered_json& e) {
    return e.is_object() && e.contains("soak") && e.at("soak").is_string() ? e.at("soak").get<std::string>()
                                                                           : std::string("none");
  };
  if (soak_of(older) != soak_of(file_.environment))
    fail(ErrorKind::bad_input, out_, "was measured with --soak {}, got --soak {}, need the same or another --out",
         soak_of(older), soak_of(file_.environment));
}

// Rows stand in the order in which the spec expands: where this one is, or belongs.
std::vector<PointResult>::iterator ResultStore::find_place(const std::string& id) {
  return std::lower_bound(file_.points.begin(), file_.points.end(), place_.at(id),
                          [&](const PointResult& row, std::size_t place) { return place_.at(row.id) < place; });
}

bool ResultStore::has(const std::string& id) {
  const auto at = find_place(id);
  return at != file_.points.end() && at->id == id && !again_.contains(id);
}

void ResultStore::insert(const PointResult& result) {
  const auto at = find_place(result.id);
  if (at != file_.points.end() && at->id == result.id)
    *at = result;
  else
    file_.points.insert(at, result);
}

void ResultStore::learn(const nlohmann::ordered_json& environment) {
  if (std::exchange(learnt_, true)) return;
  for (const auto& [key, value] : environment.items()) file_.environment[key] = value;
}

void ResultStore::keep(const PointResult& result) {
  if (again_.contains(result.id) && result.outcome == Outcome::partial) {
    take(result);
  } else {
    insert(result);
    again_.erase(result.id);
  }
  in_folder([&] { write_file_atomically(point_file(out_, result.id, ".json"), dump_json(result_to_json(result))); });
  write();
}

void ResultStore::keep_simulated(const PointResult& result) {
  insert(result);
  again_.erase(result.id);
  if (schedule_.is_due(WriteSchedule::Clock::now())) write();
}

void ResultStore::write_files() {
  write_result_file(results_path(), file_);
  if (render_) write_file_atomically((fs::path(out_) / "results.md").string(), render_(file_));
}

void ResultStore::write() {
  const auto began = WriteSchedule::Clock::now();
  in_folder([&] { write_files(); });
  schedule_.wrote(began, WriteSchedule::Clock::now());
}

}  // namespace mbench::sweeps
