// The folder of a sweep: results.json and results.md of all points, and a folder `points` with each one's own
// files. Both are rewritten whole after every point, atomically, so that a reader and a later --resume find
// what was done.
#pragma once
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/spec/result.h"
#include "sweeps/spec.h"
#include "sweeps/write_schedule.h"

namespace mbench::sweeps {

class ResultStore {
 public:
  using Render = std::function<std::string(const ResultFile&)>;

  // Makes the folder and takes its lock, so that no second sweep writes there. Without `resume` a folder that
  // holds results is refused. With it, done rows (ok, oom, infeasible, unsupported) are taken over, from
  // results.json and, where it is missing, cut short or lacks them, from points/*.json; notes() says so.
  // Refused: results of points the spec does not expand to, and results measured on another processor.
  ResultStore(const std::string& out, const Spec& spec, nlohmann::ordered_json environment, bool resume,
              Render render);
  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  bool has(const std::string& id);
  // Adds a row, or replaces the one of the same id, and writes everything. Error if the disk is full; the row
  // is kept in memory then, and the older files stand.
  void keep(const PointResult& result);
  // The same for a row that costs nothing to make again: on disk now and then, and with the next write().
  void keep_simulated(const PointResult& result);
  void write();
  const ResultFile& file() const { return file_; }
  const std::vector<std::string>& notes() const { return notes_; }
  std::string results_path() const;

 private:
  void make_folder();
  void lock();
  void take_over();
  std::string take_over_results();
  void take_over_points(const std::string& why);
  bool adopt(PointResult result, const std::string& id);
  void check_expanded(const std::string& id) const;
  void check_environment(const nlohmann::ordered_json& older) const;
  std::vector<PointResult>::iterator find_place(const std::string& id);
  void insert(const PointResult& result);

  std::string out_;
  const Spec& spec_;
  Render render_;
  ResultFile file_;
  std::unordered_map<std::string, std::size_t> place_;  // of every id, in the order in which the spec expands
  std::vector<std::string> notes_;
  int lock_ = -1;
  WriteSchedule schedule_{WriteSchedule::Clock::now()};
};

}  // namespace mbench::sweeps
