// After the end of a point suggests that hosts are lost: which hosts of a host file still answer, so that later points can run on
// those.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sweeps/launcher.h"

namespace mbench::sweeps {

struct Remaining {
  Launcher launcher;              // with a host file of those that answer
  std::vector<std::string> lost;  // as the host file names them
};
// `told`: names of hosts, or lines in which they stand, that are in doubt. Starts `program hosts` on all hosts, and where that fails on
// those that are not in doubt. Nothing where all answer, where it fails on these too, or where no host file says which hosts there are.
// The shorter host file is written into `folder`.
std::optional<Remaining> without_lost_hosts(const Launcher& launcher, const std::vector<std::string>& reported,
                                            const std::string& program, const std::string& device,
                                            const std::string& folder);

// Of the hosts, those whose name, or its part before the first dot, stands in one of the texts as a word of its own.
std::vector<std::string> hosts_named_in(const std::vector<std::string>& texts, const std::vector<std::string>& hosts);

}  // namespace mbench::sweeps
