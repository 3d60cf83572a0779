// The control groups (cgroups) of this process, in which a container's or a batch job's limits stand.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

struct ControlGroup {
  std::string folder;  // with its limits' files; ends with "/"
  bool v2 = false;     // else version 1, whose files have other names
};

// The group that has this controller ("memory", "cpu") and every one above it. A limit may stand on any of them; in a container the path is
// the outer one. Both versions are read. `root` replaces / for proc and sys/fs/cgroup, for tests.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root = "");

}  // namespace mbench
