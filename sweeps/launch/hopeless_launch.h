// Detects a launch that its launcher knows to be lost but does not end. Open MPI's mpirun waits for ranks that it could not start for
// lack of pipes, or whose MPI_Init has failed. It prints a line that says so; some seconds after that line nobody waits any longer.
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
