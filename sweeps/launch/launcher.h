// How the ranks of a point are started: mpirun or mpiexec (Open MPI, MPICH and relatives with its Hydra), srun, or flux. A single rank
// is started directly. find_launcher.cpp finds out once which launcher to use, with which options. launcher.cpp makes the command of a
// point from that.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sweeps/launch/allocation.h"

namespace mbench {
struct Point;
}

namespace mbench::sweeps {

enum class LauncherKind { mpirun, mpiexec, srun, flux, local };
enum class MpiFlavour { open_mpi, mpich };  // the second: whatever is started by Hydra and its like

std::string_view name_of(LauncherKind);
// The kind of a launcher by its name or path: "mpirun", "/opt/mpich/bin/mpirun", "mpirun.mpich"; throws bad_input at `where` for
// any other.
LauncherKind read_launcher(const std::string& name, const std::string& where);

struct Launcher {
  LauncherKind kind = LauncherKind::local;
  MpiFlavour flavour = MpiFlavour::open_mpi;  // mpirun and mpiexec only
  std::string program;                        // "mpirun", "srun"; empty for local
  std::string version;                        // what it says of itself; empty if it could not be asked
  int cores = 1;                              // of one node, as its ranks may use them
  int gpus = 0;                               // of one node, where that is known
  int nodes = 1;
  int ranks_per_node = 0;          // what the batch system or the host file gives a node; 0: not said
  std::uint64_t memory_bytes = 0;  // of one node, where the ranks are not on this one; else 0
  // A batch system or host file says where ranks go, so this host's cores do not limit them and its environment need not reach
  // them.
  bool allocated = false;
  bool root = false;
  std::string hostfile;                             // for mpirun and mpiexec; empty: they know by themselves
  std::shared_ptr<const std::string> own_hostfile;  // the same where it was written for this launcher (host_lines.h)
  std::vector<std::string> needed;     // options without which it starts nothing here: "--mpi=pmix", "--overlap"
  std::vector<std::string> more;       // --launcher-args
  std::vector<std::string> forwarded;  // names of variables of this process that every rank is given
  std::string describe() const;        // "mpirun (Open MPI 4.1.4)"
};

struct LauncherOptions {
  std::string name;       // --launcher; empty: srun inside a Slurm job where it can start this program, else mpirun
  std::string hostfile;   // --hostfile
  std::string arguments;  // --launcher-args, split as a shell would
  std::string mpi;        // the MPI library of this program, as it calls itself; empty: not checked
  std::string mpiexec;    // the launcher that its build found, for a message
};
// Asks the launcher for its version, Slurm for its PMI, this machine for its cores and the batch system for its hosts. A missing
// program is no error here: each point then fails to launch with that as its reason. Throws bad_input for one that cannot start
// this program: another MPI's, or a Slurm without the PMI that it speaks.
Launcher find_launcher(const LauncherOptions& options);

struct Command {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
};

// How the ranks of a point are spread: so many on each node, but perhaps the last. `reported`: the launcher is given this number.
struct Spread {
  std::int64_t nodes = 1, per_node = 1;
  bool reported = false;
};
// The field ranks_per_node; else as few nodes as have room, each with as many. Throws launch_failed where that is impossible.
Spread spread_of(const Launcher& launcher, const Point& point);

// The command that starts `program` with its arguments on every rank of the point. Each rank has a thread pool of cores / ranks, and
// the point's own env, which wins. Throws launch_failed if the launcher cannot start so many.
Command command_for(const Launcher& launcher, const Point& point, const std::vector<std::string>& program);
// The same for one rank on each node.
Command command_on_nodes(const Launcher& launcher, const std::vector<std::string>& program);

// A command as a shell would take it.
std::string shell_text(const Command& command);
// The words of a command line, as a shell splits them: blanks, quotes and backslashes, nothing else. Throws bad_input at `where`
// for a quote that is not closed.
std::vector<std::string> split_words(std::string_view text, const std::string& where);

// What of it is for communication and libraries: NCCL_*, UCX_*, FI_*, CUDA_*, OPENBLAS_*, LD_LIBRARY_PATH, PATH. Forwarded to
// every rank, and recorded.
bool is_forwarded(std::string_view name);

// How `srun --mpi=list` is answered for a program of that MPI library: the type to ask for. Empty where none fits.
std::string pmi_for(std::string_view list, std::string_view mpi);

}  // namespace mbench::sweeps
