// proc and sys of a machine with 8 GiB of memory left, in a folder that stands for /.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>

#include "test/support/temporary_folder.h"

namespace mbench::test {

struct MachineTree {
  TemporaryFolder folder;
  // `groups` is the text of /proc/self/cgroup.
  explicit MachineTree(const std::string& groups) {
    put("proc/meminfo", "MemTotal:  16777216 kB\nMemFree: 1024 kB\nMemAvailable:    8388608 kB\n");
    put("proc/self/cgroup", groups);
  }
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return folder.path.string(); }
};

}  // namespace mbench::test
