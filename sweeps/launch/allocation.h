// What a batch system or a host file says of the job: its hosts, and how many ranks each gets.
//
// Batch systems: Slurm (SLURM_JOB_NUM_NODES, SLURM_TASKS_PER_NODE), PBS (PBS_NODEFILE), LSF (LSB_DJOB_HOSTFILE), Grid Engine
// (PE_HOSTFILE), Flux. Host files: of Open MPI ("h1 slots=2"), of MPICH ("h1:2"), and plain ones that name a host once for each rank.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mbench::sweeps {

struct NodeSlots {
  std::string name;
  int slots = 0;  // ranks; 0: not said
  bool operator==(const NodeSlots&) const = default;
};

// The hosts of a host file, each once, in the order of the file. A host that is named once without a number has 0. Comments and empty
// lines are skipped. Throws bad_input naming `where` for a line without the name of a host.
std::vector<NodeSlots> read_hostfile(std::string_view text, const std::string& where);

// "2(x3),1" -> 2 2 2 1: ranks of each node, as Slurm writes them; empty if it is not that.
std::vector<int> read_tasks_per_node(std::string_view text);

struct Allocation {
  std::string source;    // "Slurm", "PBS", "the host file h.txt"; empty: none, ranks run on this host
  std::string hostfile;  // for a launcher that does not know of the batch system; empty: it does, or there is none
  int nodes = 1;
  int ranks_per_node = 0;  // the least of what they get; 0: not said
};

// The allocation of this process. `get` is getenv. `hostfile` (--hostfile) goes before what a batch system says.
Allocation find_allocation(const std::string& hostfile, const std::function<const char*(const char*)>& get);

}  // namespace mbench::sweeps
