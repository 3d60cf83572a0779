#include "engine/platform/cpu_energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/platform/host_name.h"

namespace mbench::platform {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The smallest range seen, 65 kJ, lasts a socket of 500 W for two minutes.
constexpr std::chrono::seconds kBetweenLooks{10};
// RAPL and amd_energy move once a millisecond.
constexpr double kLeastCounted = 0.1;  // seconds

struct Counter {
  std::string path;           // of a file with microjoules
  std::uint64_t range = 0;    // after which it begins again; 0: it does not
  std::uint64_t last = 0;     // when it was looked at
  std::uint64_t counted = 0;  // since the first look
};

std::string first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream in(path);
  std::uint64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

// In the order of their names, so that messages name the same one every time.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code none;
  for (const fs::directory_entry& e : fs::directory_iterator(folder, none)) all.push_back(e.path());
  std::sort(all.begin(), all.end());
  return all;
}

struct Found {
  std::vector<Counter> counters;
  std::string what;  // "RAPL, 2 packages and 2 of DRAM"
};

// Cores and uncore are parts of a package, psys holds it, and intel-rapl-mmio shows the same package again.
Found find_rapl(const fs::path& folder) {
  Found found;
  int packages = 0, dram = 0;
  for (const fs::path& zone : entries(folder)) {
    if (!zone.filename().string().starts_with("intel-rapl:")) continue;
    const std::string name = first_line(zone / "name");
    const bool package = name.starts_with("package");
    if (!package && name != "dram") continue;
    ++(package ? packages : dram);
    found.counters.push_back({zone / "energy_uj", number_in(zone / "max_energy_range_uj").value_or(0)});
  }
  if (packages == 0) return {};
  found.what = fmt::format("RAPL, {} package{}{}", packages, packages == 1 ? "" : "s",
                           dram == 0 ? std::string(", DRAM not counted") : fmt::format(" and {} of DRAM", dram));
  return found;
}

// The driver adds its 32-bit registers up by itself. Of its labels Ecore000 is a core's, which a socket holds.
Found find_hwmon(const fs::path& folder) {
  Found found;
  for (const fs::path& device : entries(folder)) {
    if (first_line(device / "name") != "amd_energy") continue;
    for (const fs::path& file : entries(device)) {
      const std::string name = file.filename();
      if (!name.starts_with("energy") || !name.ends_with("_label") || !first_line(file).starts_with("Esocket"))
        continue;
      found.counters.push_back({device / (name.substr(0, name.size() - 5) + "input")});
    }
  }
  if (!found.counters.empty())
    found.what = fmt::format("amd_energy, {} socket{}, DRAM not counted", found.counters.size(),
                             found.counters.size() == 1 ? "" : "s");
  return found;
}

class CpuEnergy final : public EnergyMeter {
 public:
  explicit CpuEnergy(const std::string& root) {
    counted_ = "host " + host_name();
    found_ = find_rapl(root + "/sys/class/powercap");
    if (found_.counters.empty()) found_ = find_hwmon(root + "/sys/class/hwmon");
    if (found_.counters.empty()) {
      why_none_ =
          "no energy counter of a CPU: /sys/class/powercap has no package of RAPL, /sys/class/hwmon no amd_energy";
      return;
    }
    for (Counter& c : found_.counters) read(c, true);
    begin_ = Clock::now();
    if (!why_none_.empty()) return;
    thread_ = std::jthread([this](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, stop, kBetweenLooks, [&] { return stop.stop_requested(); })) look();
    });
  }
  ~CpuEnergy() override {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();  // before the mutex ends
  }

  EnergyReading read() override {
    const std::scoped_lock lock(mutex_);
    if (why_none_.empty()) look();
    EnergyReading r{std::nullopt, 0, counted_, why_none_};
    if (!why_none_.empty()) return r;
    r.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    std::uint64_t sum = 0;
    for (const Counter& c : found_.counters) sum += c.counted;
    if (r.seconds < kLeastCounted)
      r.source = fmt::format("measured steps took {:.2g} s, and the counters of {} need {:g} s", r.seconds, found_.what,
                             kLeastCounted);
    else if (sum == 0)
      r.source = fmt::format("the counters of {} do not move", found_.what);
    else
      r.joules = static_cast<double>(sum) * 1e-6, r.source = found_.what;
    return r;
  }

 private:
  void look() {
    for (Counter& c : found_.counters) read(c, false);
  }
  void read(Counter& c, bool first) {
    errno = 0;
    const auto now = number_in(c.path);
    if (!now) {
      why_none_ = fmt::format("{} cannot be read{}", c.path,
                              errno == EACCES ? ": only root may, or whom chmod a+r lets" : std::string());
      return;
    }
    if (!first) c.counted += *now >= c.last ? *now - c.last : c.range > c.last ? c.range - c.last + *now : *now;
    c.last = *now;
  }

  std::string counted_, why_none_;
  Found found_;
  Clock::time_point begin_;
  std::mutex mutex_;  // of the three above
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<EnergyMeter> open_cpu_energy(const std::string& root) {
  return std::make_unique<CpuEnergy>(root);
}

}  // namespace mbench::platform
