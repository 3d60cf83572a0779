// After the end of a point suggests that hosts are lost: which hosts of a host file still answer, so that later points can run on
// those.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sweeps/launch/launcher.h"

namespace mbench::sweeps {

struct Remaining {
  Launcher launcher;              // with a host file of those that answer
  std::vector<std::string> lost;  // as the host file names them
};
// `reported`: names of doubtful hosts, or lines that name them. Starts `program hosts` on all hosts and, where that fails, on those
// that are not in doubt. Nothing where all answer, where it fails on these too, or where no host file lists the hosts. The shorter host
// file is written into `folder`.
std::optional<Remaining> without_lost_hosts(const Launcher& launcher, const std::vector<std::string>& reported,
                                            const std::string& program, const std::string& device,
                                            const std::string& folder);

// The hosts whose name, or its part before the first dot, is a whole word in one of the texts.
std::vector<std::string> hosts_named_in(const std::vector<std::string>& texts, const std::vector<std::string>& hosts);

}  // namespace mbench::sweeps
