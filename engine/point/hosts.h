// Where the ranks of a point ran: the hosts of a run as its ranks saw them, each with its hardware, its part of the software and
// the ranks that it had. Data only; JSON in and out.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench {

struct Host {
  std::string name;
  std::string cpu;                 // its model, as the kernel calls it
  std::int64_t cores = 0;          // that its ranks may run on
  std::uint64_t memory_bytes = 0;  // of the host
  std::vector<std::string>
      gpus;                   // "NVIDIA H200 at 0000:1b:00.0", those that its ranks see; none where they run on the CPU
  std::string driver;         // of the GPUs
  std::string mpi, revision;  // the MPI library, and the revision of the program that ran there
  // Environment variables in which it differs from the host of rank 0; empty for what is not set here.
  std::map<std::string, std::string> variables;
  std::vector<std::int64_t> ranks;  // ascending
  bool operator==(const Host&) const = default;
};

nlohmann::ordered_json hosts_to_json(const std::vector<Host>& hosts);
// bad_input naming the JSON path for what is not as above; keys that a newer version adds are skipped.
std::vector<Host> hosts_from_json(const nlohmann::json& json, const std::string& where);

// What each rank says of its host, in the order of ranks, as the hosts with their ranks, that of rank 0 first. A rank's
// own `ranks` do not count; its `variables` are all that it has of those that are recorded.
std::vector<Host> merge_hosts(const std::vector<Host>& by_rank);

// The most ranks that one of them has; 0 if there are none.
std::int64_t ranks_per_node(const std::vector<Host>& hosts);

// "rank 3 on h2" where it is known, else "rank 3".
std::string rank_text(std::int64_t rank, const std::vector<Host>& hosts);

// In what hosts differ that should be alike for one figure to describe them: "cpu is A (h1, h2) and B (h3)", a line each for the
// CPU, the cores, the GPUs, the driver, the MPI library and the revision of the program.
std::vector<std::string> differences_of(const std::vector<Host>& hosts);

}  // namespace mbench
