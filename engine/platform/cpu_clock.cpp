#include "engine/platform/cpu_clock.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

namespace mbench::platform {
namespace {

constexpr std::chrono::seconds kPeriod{1};
constexpr std::size_t kMostCores = 64;  // that are asked: each costs a read

std::vector<int> own_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE && cores.size() < kMostCores; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

class Mean {
 public:
  void add(double x) { sum_ += x, ++count_; }
  std::optional<double> get() const { return count_ > 0 ? std::optional(sum_ / count_) : std::nullopt; }

 private:
  double sum_ = 0;
  int count_ = 0;
};

// Of one processor's paragraph of /proc/cpuinfo: "cpu MHz\t\t: 2450.000".
std::optional<double> from_cpuinfo(const std::vector<int>& cores, const std::string& root) {
  std::ifstream in(root + "/proc/cpuinfo");
  Mean mean;
  int processor = -1;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    if (line.starts_with("processor")) processor = std::atoi(line.c_str() + colon + 1);
    if (line.starts_with("cpu MHz") && std::find(cores.begin(), cores.end(), processor) != cores.end())
      mean.add(std::atof(line.c_str() + colon + 1));
  }
  return mean.get();
}

class CpuClock final : public Gauge {
 public:
  CpuClock(std::string root, std::vector<int> cores) : root_(std::move(root)), cores_(std::move(cores)) {
    sample();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); })) sample();
    });
  }
  ~CpuClock() override {
    thread_.request_stop();
    thread_.join();  // before the mutex ends
  }
  Readings read() override {
    const std::scoped_lock lock(mutex_);
    Readings r;
    r.clock_mhz = mean_.get();
    return r;
  }

 private:
  void sample() {
    if (const auto mhz = cpu_mhz(cores_, root_)) mean_.add(*mhz);
  }

  std::string root_;
  std::vector<int> cores_;
  Mean mean_;
  std::mutex mutex_;  // of it
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace

std::optional<double> cpu_mhz(const std::vector<int>& cores, const std::string& root) {
  Mean mean;
  for (const int core : cores) {
    std::ifstream in(root + "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cpufreq/scaling_cur_freq");
    if (double khz = 0; in >> khz) mean.add(khz * 1e-3);
  }
  return mean.get() ? mean.get() : from_cpuinfo(cores, root);
}

std::unique_ptr<Gauge> open_cpu_clock(const std::string& root) {
  const std::vector<int> cores = own_cores();
  if (!cpu_mhz(cores, root)) return nullptr;
  return std::make_unique<CpuClock>(root, cores);
}

}  // namespace mbench::platform
