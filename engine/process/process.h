// Runs one program to its end and leaves no process of it behind. The program gets a session of its own, and this process adopts its
// orphans. When it ends, hangs or is interrupted, every descendant is ended: TERM first, KILL after two seconds. Ending its process group
// would not be enough: mpirun puts each rank into a group of its own.
//
// This is the one place that starts programs: a sweep starts its points here, the reports gnuplot. No shell is involved.
#pragma once
#include <sys/types.h>

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mbench::process {

// While it lives, SIGINT, SIGTERM and SIGHUP do not end this process; it notes them.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  bool pending();  // whether one came, now or before
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  sigset_t old_;
  bool came_ = false;
};

struct ProcessRequest {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;  // added to this process's own
  std::string folder;                      // where it runs; this process's folder if empty
  std::string input;                       // what it reads from stdin, of any length
  std::string log;                         // file for its output; none if empty
  double timeout_s = 0;                    // 0: none
  Interrupt* interrupt = nullptr;
  // Gets each line of stdout. Lines that it does not take (it returns false) go to the log, as all of stderr does.
  std::function<bool(std::string_view line)> on_line;
  // The same for stderr.
  std::function<bool(std::string_view line)> on_error_line;
  // Called some ten times a second. A text ends the program (How::given_up) and is the reason.
  std::function<std::string()> give_up;
  bool keep_output = false;  // all of stdout goes to ProcessEnd::output, byte by byte, and nowhere else
};

struct ProcessEnd {
  enum class How { exited, signalled, timed_out, given_up, interrupted, not_started };
  How how = How::exited;
  int code = 0;  // exit status, signal number or errno, as `how` says
  double seconds = 0;
  std::string output;             // of stdout, if it was to be kept
  std::vector<std::string> tail;  // the last lines of its log
  std::string why;                // the reason if it was given up
  std::string trouble;            // other trouble: the log could not be written, a process would not end
};

ProcessEnd run_process(const ProcessRequest& request);

}  // namespace mbench::process
