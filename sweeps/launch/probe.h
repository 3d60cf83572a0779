// What the ranks' own hosts report of themselves, asked before a sweep whose ranks may be on other hosts.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/point/hosts.h"
#include "sweeps/launch/launcher.h"

namespace mbench::process {
class Interrupt;
}

namespace mbench::sweeps {

// What rank 0 of `mbench run` and `mbench hosts` reports of its job, in a line of JSON on stdout.
struct ReportedHosts {
  std::vector<Host> hosts;
  std::map<std::string, std::string> variables;
  nlohmann::ordered_json environment;  // of rank 0's host
};
// Nothing if the line is something else.
std::optional<ReportedHosts> read_reported_hosts(std::string_view line);

// Starts `program hosts` with one rank on each node. Error of kind launch_failed with the reason if that does not work: no
// point would.
// `patience_s`: daemons of many nodes take their time.
ReportedHosts probe_hosts(const Launcher& launcher, const std::string& program, const std::string& device,
                          double patience_s = 120);

// The launcher with the resources of the hosts: their number, and of each resource the least that one of them has.
Launcher on_hosts(Launcher launcher, const std::vector<Host>& hosts);

}  // namespace mbench::sweeps
