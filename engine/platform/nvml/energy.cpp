#include "engine/platform/nvml/energy.h"

#include <fmt/format.h>

#include <chrono>

#include "engine/platform/host_name.h"
#include "engine/platform/nvml/session.h"

namespace mbench::platform::nvml {
namespace {

class EnergyCounter final : public EnergyMeter {
 public:
  explicit EnergyCounter(const std::string& pci) {
    reading_.counted = fmt::format("GPU {} of {}", pci, host_name());
    reading_.source = open(pci);
    if (!reading_.source.empty()) return;
    begin_ = std::chrono::steady_clock::now();
    first_ = counter();
    if (!first_) reading_.source = "the GPU has no energy counter that NVML can read";
  }

  EnergyReading read() override {
    EnergyReading r = reading_;
    if (!first_) return r;
    const auto now = counter();
    r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (!now || *now <= *first_)
      r.source = now ? "NVML's energy counter does not move" : "NVML's energy counter can no longer be read";
    else if (r.seconds < kEnoughForEnergy)
      r.source = fmt::format("measured steps took {:.2g} s, and NVML's energy counter needs {:g} s", r.seconds,
                             kEnoughForEnergy);
    else
      r.joules = static_cast<double>(*now - *first_) * 1e-3, r.source = "NVML's energy counter";
    return r;
  }

 private:
  // Why there is none; empty if there is.
  std::string open(const std::string& pci) {
    if (!session_.why_none().empty()) return session_.why_none();
    if (!session_.calls().energy) return "NVML is too old: it has no nvmlDeviceGetTotalEnergyConsumption";
    if (session_.calls().by_address(pci.c_str(), &gpu_) != 0) return "NVML does not know the GPU at " + pci;
    return "";
  }
  std::optional<unsigned long long> counter() const {
    unsigned long long mj = 0;
    return session_.calls().energy(gpu_, &mj) == 0 ? std::optional(mj) : std::nullopt;
  }

  Session session_;
  Handle gpu_ = nullptr;
  EnergyReading reading_;  // what is known before any is read
  std::chrono::steady_clock::time_point begin_;
  std::optional<unsigned long long> first_;
};

}  // namespace

std::unique_ptr<EnergyMeter> count_energy(const std::string& pci) {
  return std::make_unique<EnergyCounter>(pci);
}

}  // namespace mbench::platform::nvml
