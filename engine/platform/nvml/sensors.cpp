#include "engine/platform/nvml/sensors.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/platform/nvml/session.h"

namespace mbench::platform::nvml {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPeriod{100};
// The energy counter moves some ten times a second: over less time than this the sensor of power says more.
constexpr double kEnoughForEnergy = 1.0;  // seconds

class Mean {
 public:
  void add(double x) {
    sum_ += x;
    ++count_;
  }
  std::optional<double> get() const {
    return count_ > 0 ? std::optional(sum_ / static_cast<double>(count_)) : std::nullopt;
  }

 private:
  double sum_ = 0;
  long count_ = 0;
};

class Sensors final : public Gauge {
 public:
  Sensors(std::unique_ptr<Session> session, Handle gpu)
      : session_(std::move(session)), gpu_(gpu), begin_(Clock::now()), energy_(energy()) {
    sample();
    thread_ = std::jthread([this](std::stop_token stop) {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); })) sample();
    });
  }
  ~Sensors() override {
    thread_.request_stop();
    thread_.join();  // before the mutex and the session end
  }

  Readings read() override {
    const std::scoped_lock lock(mutex_);
    sample();
    Readings r;
    r.power_w = power_.get();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    if (const auto now = energy(); now && energy_ && seconds >= kEnoughForEnergy)
      r.power_w = static_cast<double>(*now - *energy_) * 1e-3 / seconds;
    r.utilization = utilization_.get();
    r.clock_mhz = clock_.get();
    r.memory_mib = memory_mib_;
    r.temperature_c = temperature_c_;
    r.throttle = throttle_;
    return r;
  }

 private:
  std::optional<unsigned long long> energy() const {
    unsigned long long mj = 0;
    if (session_->calls().energy && session_->calls().energy(gpu_, &mj) == 0) return mj;
    return std::nullopt;
  }

  void sample() {
    const Calls& nvml = session_->calls();
    unsigned value = 0;
    if (nvml.power(gpu_, &value) == 0) power_.add(value * 1e-3);
    if (nvml.clock(gpu_, kClockSm, &value) == 0) clock_.add(value);
    if (Utilization u{}; nvml.utilization(gpu_, &u) == 0) utilization_.add(u.gpu * 1e-2);
    if (Memory m{}; nvml.memory(gpu_, &m) == 0)
      memory_mib_ = std::max(memory_mib_.value_or(0), static_cast<double>(m.used) / 1048576);
    if (nvml.temperature(gpu_, kTemperatureGpu, &value) == 0)
      temperature_c_ = std::max(temperature_c_.value_or(0), static_cast<double>(value));
    unsigned long long reasons = 0;
    if (nvml.throttle_reasons && nvml.throttle_reasons(gpu_, &reasons) == 0)
      throttle_ = throttle_.value_or(0) | throttle_bits(reasons);
  }

  std::unique_ptr<Session> session_;
  Handle gpu_;
  Clock::time_point begin_;
  std::optional<unsigned long long> energy_;
  Mean power_, clock_, utilization_;
  std::optional<double> memory_mib_, temperature_c_;
  std::optional<std::uint32_t> throttle_;
  std::mutex mutex_;  // of the six above
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace

// NVML's bits: 1 applications clocks, 2 power cap, 3 hardware slowdown, 4 sync boost, 5 and 6 heat as seen by
// software and by hardware, 7 power brake, 8 display clocks; 0 says that it idles.
std::uint32_t throttle_bits(unsigned long long reasons) {
  return static_cast<std::uint32_t>(reasons >> 1) & ((1u << kThrottleReasons.size()) - 1);
}

std::string why_none() {
  return Session().why_none();
}

std::unique_ptr<Gauge> watch(const std::string& pci) {
  auto session = std::make_unique<Session>();
  Handle gpu = nullptr;
  if (!session->why_none().empty() || session->calls().by_address(pci.c_str(), &gpu) != 0) return nullptr;
  return std::make_unique<Sensors>(std::move(session), gpu);
}

}  // namespace mbench::platform::nvml
