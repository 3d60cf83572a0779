// The hosts of an MPI job, as its ranks see them.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/platform/registry.h"
#include "engine/point/hosts.h"

namespace mbench::cli {

struct JobHosts {
  std::vector<Host> hosts;                       // of all ranks, rank 0's first; only on rank 0
  std::map<std::string, std::string> variables;  // of this rank: those that are forwarded (sweeps/launch/launcher.h)
};
// All ranks of the job call it; `device` is the kind that they run on.
JobHosts gather_hosts(platform::Job& job, const std::string& device);

// The line by which `mbench run` and `mbench hosts` report them to a sweep, with the environment of rank 0:
//
//   {"hosts": [...], "variables": {...}, "environment": {...}}
nlohmann::ordered_json reported_hosts(const JobHosts& hosts, const std::string& device);

// Throws launch_failed if a host has another number of ranks than was asked for (0: any will do).
void check_ranks_per_node(const std::vector<Host>& hosts, std::int64_t asked);

}  // namespace mbench::cli
