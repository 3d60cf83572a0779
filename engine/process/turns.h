// Two sweeps of one machine that take turns: one of them trains a few steps while the other waits, so that what else the
// machine does falls on both alike. Both name one folder, one of them is number 1 and the other number 2.
//
// The sweeps hold a lock each (FOLDER/1, FOLDER/2) for as long as they live, and FOLDER/turn names the one whose turn it is. A lock
// ends with its process: nobody waits for a sweep that is gone, however it went. Ranks look at the files alone. All of them
// are on this machine, and what waits sleeps.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace mbench {

class Turns {
 public:
  // `number` is 1 or 2.
  Turns(std::string folder, int number);
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Makes the folder of two sweeps; bad_input if it cannot be made or written.
  static void make_folder(const std::string& folder);

  // Of a sweep, before its first point: holds the lock until this object ends, and waits for the other. launch_failed if the number
  // is taken, or if nobody comes for so long. `stop` ends the wait.
  void join(std::chrono::duration<double> limit, const std::function<bool()>& stop = {});

  // Until it is this side's turn, or the other is gone; or until `stop`.
  void wait(const std::function<bool()>& stop = {}) const;
  void pass() const;

 private:
  bool is_ours() const;
  bool other_is_here() const;

  std::string folder_;
  int number_;
  int lock_ = -1;  // of a sweep
};

}  // namespace mbench
