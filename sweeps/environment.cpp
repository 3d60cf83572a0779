#include "sweeps/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>

namespace mbench::sweeps {
namespace {

using nlohmann::ordered_json;

// The value of the first "key : value" line of a file in /proc.
ordered_json proc_value(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t first = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (first != std::string::npos) return line.substr(first);
  }
  return nullptr;
}

ordered_json memory_mib() {
  const ordered_json text = proc_value("/proc/meminfo", "MemTotal");  // "24576000 kB"
  return text.is_string() ? ordered_json(std::atoll(text.get<std::string>().c_str()) / 1024)
                          : ordered_json(nullptr);
}

}  // namespace

ordered_json host_environment(const Launcher& launcher, const std::string& version) {
  utsname name{};
  const bool named = ::uname(&name) == 0;
  std::array<char, 32> now{};
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::strftime(now.data(), now.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  ordered_json out = {{"mbench", version}};
  out["started"] = now.data();
  out["host"] = named ? ordered_json(name.nodename) : ordered_json(nullptr);
  out["cpu"] = proc_value("/proc/cpuinfo", "model name");
  out["cores"] = launcher.cores;
  out["memory_mib"] = memory_mib();
  out["kernel"] =
      named ? ordered_json(std::string(name.sysname) + " " + name.release) : ordered_json(nullptr);
  out["compiler"] =
#if defined(__clang__)
      "clang " __clang_version__;
#else
      "gcc " __VERSION__;
#endif
  out["launcher"] = launcher.describe();
  return out;
}

}  // namespace mbench::sweeps
