// Two sweeps on one machine that take turns: one trains a few steps while the other waits. So whatever else the machine does falls on both
// alike. Both name one folder; one of them is number 1, the other number 2.
//
// Each sweep holds a lock (FOLDER/1, FOLDER/2) for as long as it lives, and FOLDER/turn names the one whose turn it is. A lock ends with
// its process, so nobody waits for a sweep that has ended, in whatever way. Ranks look at the files only. All of them are on this machine,
// and a waiting rank sleeps.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace mbench::process {

class Turns {
 public:
  // `number` is 1 or 2.
  Turns(std::string folder, int number);
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Makes the folder of two sweeps; bad_input if it cannot be made or written.
  static void make_folder(const std::string& folder);

  // For a sweep, before its first point: takes the lock until this object ends, and waits for the other sweep. launch_failed if the number
  // is taken, or if no other sweep comes within `limit`. `stop` ends the wait.
  void join(std::chrono::duration<double> limit, const std::function<bool()>& stop = {});

  // Waits until it is this side's turn, the other side is gone, or `stop` says so.
  void wait(const std::function<bool()>& stop = {}) const;
  void pass() const;

 private:
  bool is_ours() const;
  bool other_is_here() const;

  std::string folder_;
  int number_;
  int lock_ = -1;  // of a sweep
};

}  // namespace mbench::process
