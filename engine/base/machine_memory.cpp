#include "engine/base/machine_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "engine/base/control_groups.h"
#include "engine/base/text.h"

namespace mbench {
namespace {

// The number in a file that holds just one; `otherwise` if there is no such file or it says "max".
std::uint64_t number_in(const std::string& path, std::uint64_t otherwise) {
  std::ifstream in(path);
  std::uint64_t n = 0;
  return in >> n ? n : otherwise;
}

// A field of /proc/meminfo or memory.stat: "name[:] value".
std::uint64_t field_of(const std::string& path, const std::string& name, std::uint64_t otherwise) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || (line[name.size()] != ':' && line[name.size()] != ' '))
      continue;
    const std::string value = line.substr(name.size() + 1);
    char* end = nullptr;
    const std::uint64_t n = std::strtoull(value.c_str(), &end, 10);
    return end == value.c_str() ? otherwise : n;
  }
  return otherwise;
}

}  // namespace

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::optional<GroupMemory> group_memory(const std::string& root) {
  std::optional<GroupMemory> tightest;
  for (const auto& [folder, v2] : control_groups("memory", root)) {
    // Version 1 says that there is none by a number beyond all memory.
    const std::uint64_t limit = number_in(folder + (v2 ? "memory.max" : "memory.limit_in_bytes"), ~std::uint64_t{0});
    if (limit >= physical_memory()) continue;
    const std::uint64_t used = number_in(folder + (v2 ? "memory.current" : "memory.usage_in_bytes"), 0);
    const std::uint64_t cache = field_of(folder + "memory.stat", v2 ? "inactive_file" : "total_inactive_file", 0);
    const std::uint64_t held = used - std::min(used, cache);
    const GroupMemory group{limit, limit - std::min(limit, held)};
    if (!tightest || group.left < tightest->left) tightest = group;
  }
  return tightest;
}

std::uint64_t available_memory(const std::string& root) {
  const std::uint64_t kib = field_of(root + "/proc/meminfo", "MemAvailable", physical_memory() >> 10);
  const auto group = group_memory(root);
  return std::min(kib << 10, group ? group->left : ~std::uint64_t{0});
}

std::string text_of(const GroupMemory& group) {
  return fmt::format("the limit of {} of this job (cgroup)", format_bytes(group.limit));
}

}  // namespace mbench
