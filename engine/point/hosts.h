// Where the ranks of a point ran: the hosts as the ranks saw them, each with its hardware, its software and its ranks. Data only; JSON in
// and out.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench {

struct Host {
  std::string name;
  std::string cpu;                 // its model, as the kernel names it
  std::int64_t cores = 0;          // cores that its ranks may run on
  std::uint64_t memory_bytes = 0;  // of the host
  std::vector<std::string>
      gpus;            // "NVIDIA H200 at 0000:1b:00.0", the GPUs that its ranks see; none where they run on the CPU
  std::string driver;  // of the GPUs
  std::string mpi, revision;  // the MPI library, and the revision of the program that ran there
  // Environment variables that differ from those on the host of rank 0; empty for one that is not set here.
  std::map<std::string, std::string> variables;
  std::vector<std::int64_t> ranks;  // ascending
  bool operator==(const Host&) const = default;
};

nlohmann::ordered_json hosts_to_json(const std::vector<Host>& hosts);
// bad_input naming the JSON path for what is not as above; keys that a newer version adds are skipped.
std::vector<Host> hosts_from_json(const nlohmann::json& json, const std::string& where);

// Merges what each rank, in order, says of its host into the hosts with their ranks; rank 0's host is first. A rank's own `ranks` do not
// count. Its `variables` are all of the recorded ones that it has.
std::vector<Host> merge_hosts(const std::vector<Host>& by_rank);

// The most ranks on one host; 0 if there are none.
std::int64_t ranks_per_node(const std::vector<Host>& hosts);

// "rank 3 on h2" if the host is known, else "rank 3".
std::string rank_text(std::int64_t rank, const std::vector<Host>& hosts);

// Differences between hosts that should be alike for one figure to describe them: "cpu is A (h1, h2) and B (h3)". One line each for the
// CPU, the cores, the GPUs, the driver, the MPI library and the revision of the program.
std::vector<std::string> differences_of(const std::vector<Host>& hosts);

}  // namespace mbench
