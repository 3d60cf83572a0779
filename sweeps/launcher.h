// How the ranks of a point are started: mpirun (Open MPI or MPICH), srun, or directly where there is one
// rank.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/spec/point.h"

namespace mbench::sweeps {

enum class LauncherKind { mpirun, srun, local };
enum class MpiFlavour { open_mpi, mpich };

std::string_view name_of(LauncherKind);
// bad_input at `where` for any other name.
LauncherKind read_launcher(const std::string& name, const std::string& where);

struct Launcher {
  LauncherKind kind = LauncherKind::local;
  MpiFlavour flavour = MpiFlavour::open_mpi;  // mpirun only
  std::string program;                        // "mpirun", "srun"; empty for local
  std::string version;                        // what it says of itself; empty if it could not be asked
  int cores = 1;                              // of one node, as this process may use them
  int nodes = 1;
  bool allocated =
      false;  // a batch system or host file says where ranks go, so the local cores do not limit them
  bool root = false;

  std::string describe() const;  // "mpirun (Open MPI 4.1.4)"
};

// srun inside a Slurm job that has it, else mpirun.
LauncherKind default_launcher();
// Asks the launcher for its version and this machine for its cores. A missing program is no error here: each
// point then fails to launch with that as its reason.
Launcher find_launcher(LauncherKind kind);

struct Command {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
};

// The command that starts `program` with its arguments on every rank of the point, one thread pool of cores /
// ranks each, and the point's own env, which wins. launch_failed if the launcher cannot start so many.
Command command_for(const Launcher& launcher, const Point& point, const std::vector<std::string>& program);

// A command as a shell would take it.
std::string shell_text(const Command& command);

}  // namespace mbench::sweeps
