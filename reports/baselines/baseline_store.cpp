#include "reports/baselines/baseline_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/folder_lock.h"
#include "engine/base/text.h"
#include "reports/gate/comparable.h"
#include "reports/records/flags.h"
#include "reports/records/slow_steps.h"

namespace mbench::reports {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> machines_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  if (error)
    fail(ErrorKind::bad_input, folder, "cannot be read: {}, need a folder of baselines (mbench baseline add)",
         error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

void check_date(const std::string& date, const std::string& where) {
  // What sorts as text sorts in time.
  const bool good = date.size() >= 10 && date[4] == '-' && date[7] == '-' &&
                    std::all_of(date.begin(), date.begin() + 4, [](unsigned char c) { return std::isdigit(c); });
  if (!good) fail(ErrorKind::bad_input, where, "not a date, got \"{}\", need 2026-11-21 or 2026-11-21T17:26:17Z", date);
}

// Puts the entry into its place in the history; false if it stands there already.
bool insert(BaselineFile& file, BaselineEntry entry, std::size_t keep) {
  for (const BaselineEntry& other : file.history)
    if (other.date == entry.date && other.revision == entry.revision && other.sweep == entry.sweep) return false;
  const auto after = std::upper_bound(file.history.begin(), file.history.end(), entry,
                                      [](const BaselineEntry& a, const BaselineEntry& b) { return a.date < b.date; });
  file.history.insert(after, std::move(entry));
  const auto others = static_cast<std::size_t>(
      std::count_if(file.history.begin(), file.history.end(), [](const BaselineEntry& e) { return !e.pinned; }));
  std::size_t too_many = keep > 0 && others > keep ? others - keep : 0;
  std::erase_if(file.history, [&](const BaselineEntry& e) { return !e.pinned && too_many > 0 && too_many-- > 0; });
  return true;
}

// What the best entry has least of; nothing where neither is stored.
std::optional<double> cost_of(const BaselineEntry& entry, bool of_time) {
  if (!of_time) return entry.result.peak_memory_mib;
  if (!entry.result.iteration_ms || entry.result.iteration_ms->min <= 0) return std::nullopt;
  return paid_mean(entry.result.iteration_ms->samples);
}

const BaselineEntry* best_of(const std::vector<const BaselineEntry*>& entries) {
  const bool of_time =
      std::any_of(entries.begin(), entries.end(), [](const BaselineEntry* e) { return cost_of(*e, true).has_value(); });
  const BaselineEntry* best = nullptr;
  for (const BaselineEntry* entry : entries) {
    const auto cost = cost_of(*entry, of_time);
    if (cost && (!best || *cost < *cost_of(*best, of_time))) best = entry;
  }
  return best;
}

// The entry to compare with, or null.
const BaselineEntry* entry_to_use(const BaselineFile& file, const Choice& choice) {
  std::vector<const BaselineEntry*> entries;  // oldest first
  for (const BaselineEntry& entry : file.history)
    if (entry.revision.starts_with(choice.revision)) entries.push_back(&entry);
  if (entries.empty()) return nullptr;
  const auto pinned = std::find_if(entries.begin(), entries.end(), [](const BaselineEntry* e) { return e->pinned; });
  switch (choice.stand) {
    case Stand::newest:
      return entries.back();
    case Stand::oldest:
      return entries.front();
    case Stand::pinned:
      return pinned == entries.end() ? nullptr : *pinned;
    case Stand::pinned_or_oldest:
      return pinned == entries.end() ? entries.front() : *pinned;
    case Stand::best:
      return best_of(entries);
  }
  return nullptr;
}

// Finds the files of points and reads each once.
class Chooser {
 public:
  explicit Chooser(const std::string& folder) : folder_(folder), machines_(machines_in(folder)) {}

  const BaselineFile* find(const std::string& machine, const std::string& id) {
    const fs::path path = fs::path(folder_) / machine / (id + ".json");
    if (!fs::exists(path)) return nullptr;
    return &read(path.string());
  }
  // The first of the machine that differs in these fields alone.
  const BaselineFile* find_alike(const std::string& machine, const PointResult& point,
                                 const std::vector<std::string>& fields) {
    const std::string wanted = id_without(point.point, fields);
    for (const std::string& path : files_in(fs::path(folder_) / machine))
      if (const BaselineFile& file = read(path); id_without(file.newest().result.point, fields) == wanted) return &file;
    return nullptr;
  }
  const BaselineFile& read(const std::string& path) {
    const auto it = files_.find(path);
    return it != files_.end() ? it->second : files_.emplace(path, read_baseline_file(path)).first->second;
  }
  const std::vector<std::string>& machines() const { return machines_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::vector<std::string> machines_;
  std::map<std::string, BaselineFile> files_;
};

// Collects entries as a result file whose environment is the newest entry's, on the hardware of the measured
// ones.
class Collector {
 public:
  void take(const BaselineFile& file, const BaselineEntry& entry) {
    file_.points.push_back(entry.result);
    origins_[file.id] =
        fmt::format("{} ({})", entry.revision.empty() ? "no revision" : entry.revision, entry.date.substr(0, 10));
    if (!entry.result.simulated) hardware_ = file.machine;
    if (entry.date < newest_) return;
    newest_ = entry.date;
    file_.environment = entry.environment;
    file_.environment["git_revision"] = entry.revision;
    file_.environment["started"] = entry.date;
  }
  bool empty() const { return file_.points.empty(); }
  Chosen finish() {
    for (const auto& [key, value] : hardware_.items())
      if (key != "nodes" && key != "ranks_per_node") file_.environment[key] = value;  // the rows say that
    return {std::move(file_), std::move(origins_)};
  }

 private:
  ResultFile file_;
  std::map<std::string, std::string> origins_;
  json hardware_ = json::object();
  std::string newest_;
};

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorKind::bad_input, folder, "cannot be made: {}", error.message());
}

// An id becomes the name of a file.
void check_id(const std::string& id) {
  const bool plain = !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_';
  });
  if (!plain)
    fail(ErrorKind::bad_input, "baseline add", "not the id of a point, got \"{}\", need letters and digits", id);
}

// bad_input if one of these machines has a folder: what keeps its points from being those of `now`.
void refuse_other_points(Chooser& chooser, const std::vector<std::string>& machines, const ResultFile& now,
                         const Choice& choice) {
  ResultFile stored;
  bool same_point = false;
  for (const std::string& machine : machines)
    for (const std::string& path : files_in(fs::path(chooser.folder()) / machine)) {
      const BaselineFile& file = chooser.read(path);
      stored.points.push_back(file.newest().result);
      same_point = same_point || std::any_of(now.points.begin(), now.points.end(),
                                             [&](const PointResult& p) { return p.id == file.id; });
    }
  if (same_point && choice.stand == Stand::pinned)
    fail(ErrorKind::bad_input, chooser.folder(),
         "nothing there for the points of this machine that is pinned (mbench baseline pin), got entries that are not, "
         "need one");
  if (same_point)
    fail(ErrorKind::bad_input, chooser.folder(),
         "nothing there for the points of this machine{}, got entries of other revisions, need one that mbench "
         "baseline show lists",
         choice.revision.empty() ? "" : fmt::format(" at revision {}", choice.revision));
  if (!stored.points.empty())
    fail(ErrorKind::bad_input, chooser.folder(),
         "has other points of this machine: {}; need a sweep of those, or mbench baseline add of these",
         nothing_in_common(now, stored));
}

}  // namespace

std::vector<StoredBaseline> read_baselines(const std::string& folder) {
  std::vector<StoredBaseline> all;
  for (const std::string& machine : machines_in(folder))
    for (const std::string& path : files_in(fs::path(folder) / machine))
      all.push_back({path, machine, read_baseline_file(path)});
  return all;
}

std::vector<StoredBaseline> select_baselines(std::vector<StoredBaseline> all, const std::string& machine,
                                             const std::string& point) {
  std::erase_if(all, [&](const StoredBaseline& stored) {
    return stored.machine.find(machine) == std::string::npos || !stored.file.id.starts_with(point);
  });
  return all;
}

namespace {

// An entry and the file that it belongs into.
struct Prepared {
  std::string path, id;
  json machine;
  BaselineEntry entry;
};

// The entries of all points that can be a baseline; the others are told in `refused`.
std::vector<Prepared> prepare(const std::string& folder, const ResultFile& results, const AddOptions& options,
                              std::vector<std::string>& refused) {
  std::vector<Prepared> all;
  for (const PointResult& point : results.points) {
    check_id(point.id);
    if (!is_done(point.outcome)) {
      refused.push_back(fmt::format("{}: {}", point.id, name_of(point.outcome)));
      continue;
    }
    BaselineEntry entry = entry_of(results, point, options.memory_only, options.with_losses);
    if (!options.revision.empty()) entry.revision = options.revision;
    if (!options.date.empty()) entry.date = options.date;
    if (entry.date.empty())
      fail(ErrorKind::bad_input, "baseline add", "the result does not say when it was measured, need --date");
    check_date(entry.date, options.date.empty() ? "environment.started" : "--date");
    const json machine = machine_of_entry(results, point, options.memory_only);
    const std::string path = (fs::path(folder) / fingerprint_of(machine) / (point.id + ".json")).string();
    all.push_back({path, point.id, machine, std::move(entry)});
  }
  return all;
}

}  // namespace

std::vector<std::string> disturbed_points(const ResultFile& results) {
  std::vector<std::string> disturbed;
  for (const PointResult& point : results.points)
    if (const auto said = what_disturbed(point); !said.empty())
      disturbed.push_back(fmt::format("{}: {}", point.id, fmt::join(said, "; ")));
  return disturbed;
}

Added add_baselines(const std::string& folder, const ResultFile& results, const AddOptions& options) {
  Added added;
  std::vector<Prepared> entries = prepare(folder, results, options, added.refused);
  if (entries.empty()) return added;
  make_folder(folder);
  const FolderLock lock = FolderLock::wait_for(folder);
  std::map<std::string, BaselineFile> files;
  std::set<std::string> changed;
  for (Prepared& e : entries) {
    BaselineFile file;
    if (const auto it = files.find(e.path); it != files.end())
      file = it->second;
    else if (fs::exists(e.path))
      file = read_baseline_file(e.path);
    file.id = e.id;
    file.machine = e.machine;
    if (insert(file, std::move(e.entry), options.keep))
      changed.insert(e.path);
    else
      ++added.unchanged;
    files[e.path] = std::move(file);
  }
  for (const std::string& path : changed) {
    make_folder(fs::path(path).parent_path().string());
    write_baseline_file(path, files.at(path));
    added.written.push_back(path);
  }
  return added;
}

Stand stand_named(const std::string& name, const std::string& where) {
  static const std::map<std::string, Stand> stands = {
      {"newest", Stand::newest}, {"oldest", Stand::oldest}, {"pinned", Stand::pinned}, {"best", Stand::best}};
  if (const auto it = stands.find(name); it != stands.end()) return it->second;
  fail(ErrorKind::bad_input, where, "no such entry, got \"{}\", {}", name,
       nearest_choice(name, {"newest", "oldest", "pinned", "best"}));
}

ResultFile baseline_for(const std::string& folder, const ResultFile& now, bool memory_only,
                        const std::string& revision) {
  return choose_baseline(folder, now, memory_only, {Stand::newest, revision}).results;
}

Chosen choose_baseline(const std::string& folder, const ResultFile& now, bool memory_only, const Choice& choice) {
  const std::string& revision = choice.revision;
  Chooser chooser(folder);
  Collector baseline;
  std::set<std::string> used_machines;
  std::set<std::string> ids;
  for (const PointResult& point : now.points) {
    ids.insert(point.id);
    const json own = machine_of_entry(now, point, false);
    std::vector<std::string> machines = {fingerprint_of(own)};
    if (memory_only) {
      machines.push_back(fingerprint_of(machine_of_entry(now, point, true)));
      machines.insert(machines.end(), chooser.machines().begin(), chooser.machines().end());
    }
    for (const std::string& machine : machines) {
      const BaselineFile* file = chooser.find(machine, point.id);
      if (!file && !choice.allow_different.empty()) file = chooser.find_alike(machine, point, choice.allow_different);
      if (!file || file->machine.value("device", json()) != own.value("device", json())) continue;
      const BaselineEntry* entry = entry_to_use(*file, choice);
      if (!entry) continue;
      baseline.take(*file, *entry);
      used_machines.insert(machine);
      break;
    }
  }
  if (baseline.empty()) {
    std::string wanted;
    if (!now.points.empty()) wanted = fingerprint_of(machine_of_entry(now, now.points.front(), false));
    refuse_other_points(chooser, memory_only ? chooser.machines() : std::vector{wanted}, now, choice);
    fail(ErrorKind::bad_input, folder, "nothing there for the points of this machine{}, got {}, need {}",
         revision.empty() ? "" : fmt::format(" at revision {}", revision),
         chooser.machines().empty() ? "an empty folder" : fmt::format("{}", fmt::join(chooser.machines(), ", ")),
         wanted);
  }
  const auto name = now.spec.is_object() ? now.spec.find("name") : now.spec.end();
  if (now.spec.is_object() && name != now.spec.end() && name->is_string())
    for (const std::string& machine : used_machines)
      for (const std::string& path : files_in(fs::path(folder) / machine)) {
        if (ids.contains(fs::path(path).stem().string())) continue;
        const BaselineFile& file = chooser.read(path);
        const BaselineEntry* entry = entry_to_use(file, choice);
        if (entry && entry->sweep == name->get<std::string>() && ids.insert(file.id).second)
          baseline.take(file, *entry);
      }
  return baseline.finish();
}

namespace {

void remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail(ErrorKind::bad_input, path, "cannot be removed: {}", error.message());
  fs::remove(fs::path(path).parent_path(), error);  // of a machine without points; fails while there are some
}

// Lets `change` have each selected file as it stands now, in the locked folder, and writes those of which it says so; their paths. A
// file without entries goes.
std::vector<std::string> change_files(const std::vector<StoredBaseline>& selected,
                                      const std::function<bool(BaselineFile&)>& change) {
  std::vector<std::string> changed;
  std::map<fs::path, FolderLock> locks;
  for (const StoredBaseline& stored : selected) {
    const fs::path folder = fs::path(stored.path).parent_path().parent_path();
    if (!locks.contains(folder)) locks.emplace(folder, FolderLock::wait_for(folder.string()));
    std::error_code none;
    if (!fs::exists(stored.path, none)) continue;  // someone else has removed it
    BaselineFile file = read_baseline_file(stored.path);
    if (!change(file)) continue;
    if (file.history.empty())
      remove_file(stored.path);
    else
      write_baseline_file(stored.path, file);
    changed.push_back(stored.path);
  }
  return changed;
}

}  // namespace

std::vector<std::string> pin_entries(const std::vector<StoredBaseline>& selected, const std::string& revision) {
  return change_files(selected, [&](BaselineFile& file) {
    const auto last = std::find_if(file.history.rbegin(), file.history.rend(),
                                   [&](const BaselineEntry& e) { return e.revision.starts_with(revision); });
    if (last == file.history.rend()) return false;
    for (BaselineEntry& entry : file.history) entry.pinned = &entry == &*last;
    return true;
  });
}

std::vector<std::string> unpin_entries(const std::vector<StoredBaseline>& selected) {
  return change_files(selected, [](BaselineFile& file) {
    bool any = false;
    for (BaselineEntry& entry : file.history) any = std::exchange(entry.pinned, false) || any;
    return any;
  });
}

std::size_t remove_entries(const std::vector<StoredBaseline>& selected,
                           const std::function<bool(const BaselineEntry&)>& takes) {
  std::size_t removed = 0;
  change_files(selected, [&](BaselineFile& file) {
    const std::size_t gone = std::erase_if(file.history, takes);
    removed += gone;
    return gone > 0;
  });
  return removed;
}

}  // namespace mbench::reports
