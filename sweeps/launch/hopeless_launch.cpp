#include "sweeps/launch/hopeless_launch.h"

#include <sys/resource.h>

#include "engine/base/error.h"

namespace mbench::sweeps {
namespace {

// What a launcher is given to end by itself, which it does more often than not.
constexpr std::chrono::seconds kGrace{5};

}  // namespace

void HopelessLaunch::take(std::string_view line) {
  if (!why_.empty()) return;
  if (line.find("The system limit on number of pipes a process can open was reached") != std::string_view::npos) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    why_ = fmt::format("the launcher has too few open files for its ranks (ulimit -n), got {}, need more: raise it",
                       limit.rlim_cur);
  } else if (line.find("Local abort before MPI_INIT completed") != std::string_view::npos) {
    why_ = "MPI_Init failed in a rank, and the launcher has not ended";
  } else {
    return;
  }
  since_ = std::chrono::steady_clock::now();
}

std::string HopelessLaunch::look() {
  return !why_.empty() && std::chrono::steady_clock::now() - since_ > kGrace ? why_ : std::string();
}

}  // namespace mbench::sweeps
