// A launch that its launcher knows to be lost and does not end: Open MPI's mpirun waits for ranks that it could not start for want of
// pipes, or whose MPI_Init has failed. What it prints says so; some seconds after such a line nobody waits any longer.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

namespace mbench::sweeps {

class HopelessLaunch {
 public:
  // A line that the launcher or a rank has printed.
  void take(std::string_view line);
  // Why the launch is not waited for any longer; empty while it is. To be asked several times a second.
  std::string look();

 private:
  std::string why_;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace mbench::sweeps
