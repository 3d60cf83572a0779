#include "engine/base/control_groups.h"

#include <fstream>

namespace mbench {

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    // Version 2 names no controllers; version 1 those that are mounted together, such as "cpu,cpuacct".
    const std::string controllers = line.substr(first + 1, second - first - 1), name(controller);
    const bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find("," + name + ",") == std::string::npos) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (v2 ? "" : "/" + name);
    for (std::string path = line.substr(second + 1);;) {
      groups.push_back({mount + path + "/", v2});
      if (path.empty() || path == "/") break;
      path.erase(path.rfind('/'));
    }
  }
  return groups;
}

}  // namespace mbench
