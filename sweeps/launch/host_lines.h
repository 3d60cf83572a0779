// A host file in the format of the launcher that is to read it. Open MPI reads "h1 slots=2", Hydra (MPICH) "h1:2"; neither reads the
// other's.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sweeps/launch/allocation.h"
#include "sweeps/launch/launcher.h"

namespace mbench::sweeps {

// A line for each host.
std::string host_lines(const std::vector<NodeSlots>& hosts, MpiFlavour flavour);

// Whether a launcher of that flavour reads such a file as read_hostfile() does.
bool reads_host_lines(std::string_view text, MpiFlavour flavour);

// The launcher with its host file in its own words: a file of this process, which goes with the last launcher that names it.
// Unchanged where it reads the file as it is. Throws launch_failed where none can be written.
void put_hosts_in_own_words(Launcher& launcher);

}  // namespace mbench::sweeps
