#include "sweeps/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/json_reader.h"
#include "sweeps/point_run.h"

namespace mbench::sweeps {
namespace {

namespace fs = std::filesystem;

bool holds_something(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && fs::file_size(file, error) > 0;
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

ResultStore::ResultStore(const std::string& out, const Spec& spec, nlohmann::ordered_json environment,
                         bool resume, Render render)
    : out_(out), spec_(spec), render_(std::move(render)) {
  file_.spec = spec.json;
  if (!file_.spec.contains("name")) file_.spec["name"] = spec.name;
  file_.environment = std::move(environment);
  const bool used = holds_something(results_path()) || !point_results(out_).empty();
  if (used && !resume)
    fail(ErrorKind::bad_input, out_,
         "holds the results of a sweep, need --resume to go on with it or another --out");
  if (resume && !fs::is_directory(out_))
    fail(ErrorKind::bad_input, out_, "nothing to resume, need the folder of a sweep that was begun");
  make_folder();
  lock();
  try {
    if (used) take_over();
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

ResultStore::~ResultStore() {
  ::close(lock_);
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
  lock_ = ::open(out_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) fail(ErrorKind::bad_input, out_, "the folder cannot be opened: {}", std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return;  // some file systems have no locks
  ::close(lock_);
  fail(ErrorKind::bad_input, out_, "another sweep is running there, need another --out");
}

void ResultStore::take_over() {
  std::vector<PointResult> rows;
  if (!holds_something(results_path())) {
    rows = rebuild("results.json is missing or empty");
  } else {
    const std::string text = read_text_file(results_path());
    if (!nlohmann::json::accept(text)) {
      rows = rebuild("results.json is cut short or damaged");
    } else {
      ResultFile older = read_result_file(results_path());  // another schema and the like are refused
      check_environment(older.environment);
      rows = std::move(older.points);
    }
  }
  for (const PointResult& row : rows) {
    if (std::find(spec_.all_ids.begin(), spec_.all_ids.end(), row.id) == spec_.all_ids.end())
      fail(
          ErrorKind::bad_input, out_,
          "holds point {}, which {} does not expand to, need the same spec, --set and --on, or another --out",
          row.id, spec_.path);
    if (is_done(row.outcome)) insert(row);
  }
}

std::vector<PointResult> ResultStore::rebuild(const std::string& why) {
  std::vector<PointResult> rows;
  std::size_t unreadable = 0;
  for (const fs::path& path : point_results(out_)) {
    try {
      rows.push_back(result_from_json(
          nlohmann::json(parse_json(read_text_file(path.string()), path.string())), path.string() + ": $"));
    } catch (const Error&) {
      ++unreadable;  // it is run again, and so gets its row
    }
  }
  notes_.push_back(fmt::format("[{}] {}: rebuilt from {} of the {} files in points/{}", out_, why,
                               rows.size(), rows.size() + unreadable,
                               unreadable ? ", the others run again" : ""));
  return rows;
}

void ResultStore::check_environment(const nlohmann::ordered_json& older) const {
  for (const char* key : {"cpu", "cores"}) {
    if (!older.is_object() || !older.contains(key) || !file_.environment.contains(key)) continue;
    if (older.at(key) != file_.environment.at(key))
      fail(ErrorKind::bad_input, out_,
           "was measured with {} {}, this machine has {}, need that machine or another --out", key,
           older.at(key).dump(), file_.environment.at(key).dump());
  }
}

bool ResultStore::has(const std::string& id) const {
  return std::any_of(file_.points.begin(), file_.points.end(),
                     [&](const PointResult& r) { return r.id == id; });
}

// Rows stand in the order in which the spec expands.
void ResultStore::insert(const PointResult& result) {
  std::erase_if(file_.points, [&](const PointResult& r) { return r.id == result.id; });
  const auto place = [&](const std::string& id) {
    return std::find(spec_.all_ids.begin(), spec_.all_ids.end(), id) - spec_.all_ids.begin();
  };
  const auto after = std::find_if(file_.points.begin(), file_.points.end(),
                                  [&](const PointResult& r) { return place(r.id) > place(result.id); });
  file_.points.insert(after, result);
}

void ResultStore::keep(const PointResult& result) {
  insert(result);
  write_file_atomically(point_file(out_, result.id, ".json"), dump_json(result_to_json(result)));
  write();
}

void ResultStore::keep_simulated(const PointResult& result) {
  insert(result);
  const auto now = std::chrono::steady_clock::now();
  if (now - written_ < std::chrono::seconds(1)) return;
  written_ = now;
  write();
}

void ResultStore::write() const {
  write_result_file(results_path(), file_);
  if (render_) write_file_atomically((fs::path(out_) / "results.md").string(), render_(file_));
}

}  // namespace mbench::sweeps
