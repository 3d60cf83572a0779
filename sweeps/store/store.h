// The folder of a sweep: results.json and results.md of all points, and a folder `points` with each one's own
// files. Both are rewritten whole after every point, atomically, so that a reader and a later --resume find
// what was done.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/folder_lock.h"
#include "engine/point/result_file.h"
#include "sweeps/spec/spec.h"
#include "sweeps/store/write_schedule.h"

namespace mbench::sweeps {

class ResultStore {
 public:
  using Render = std::function<std::string(const ResultFile&)>;

  // Makes the folder and takes its lock, so that no second sweep writes there. Without `resume` a folder with results is refused. With
  // it, done rows (ok, oom, infeasible, unsupported) are taken over from results.json. Where that is missing, cut short or lacks rows,
  // they come from points/*.json; the notes say so. Rows that are not done but have steps or windows stay until their point has run
  // again. Refused: results of points the spec does not expand to, rows whose fields do not make their id, and results measured on
  // another processor.
  ResultStore(const std::string& out, const Spec& spec, nlohmann::ordered_json environment, bool resume, Render render);

  bool has(const std::string& id);  // a row of this point that need not run again
  // Runs `what`, which writes into the folder. The folder is made again if it was moved away or removed. The writers below do so
  // themselves.
  template <class F>
  auto in_folder(F&& what) {
    restore_folder();
    try {
      return what();
    } catch (const Error&) {
      if (!restore_folder()) throw;
      return what();
    }
  }
  // Adds a row, or replaces the one of the same id, and writes everything. A partial row does not replace one taken over that has more.
  // Throws Error if the disk is full; then the row is kept in memory, and the older files stay.
  void keep(const PointResult& result);
  // The same for a row that costs nothing to make again. It goes to disk now and then, and with the next write().
  void keep_simulated(const PointResult& result);
  void write();
  // What the ranks of a point report of their host. It replaces what the sweep recorded of its own host. The first report counts, since
  // rows have the hosts of each.
  void learn(const nlohmann::ordered_json& environment);
  const ResultFile& file() const { return file_; }
  // The notes since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  std::string results_path() const;

 private:
  void make_folder();
  bool restore_folder();  // whether it was gone
  void write_files();
  void lock();
  void take_over();
  std::string take_over_results();
  void take_over_points(const std::string& why);
  bool adopt(PointResult result, const std::string& id);
  void check_expanded(const std::string& id) const;
  void check_fields(const PointResult& row) const;
  void check_environment(const nlohmann::ordered_json& older) const;
  std::vector<PointResult>::iterator find_place(const std::string& id);
  void insert(const PointResult& result);
  void take(const PointResult& row);

  std::string out_;
  const Spec& spec_;
  Render render_;
  ResultFile file_;
  std::unordered_map<std::string, std::size_t> place_;  // of every id, in the order in which the spec expands
  std::vector<std::string> notes_;
  std::optional<FolderLock> lock_;
  std::set<std::string> again_;  // ids of rows taken over whose point runs again
  bool learnt_ = false;          // from ranks
  WriteSchedule schedule_{WriteSchedule::Clock::now()};
};

}  // namespace mbench::sweeps
