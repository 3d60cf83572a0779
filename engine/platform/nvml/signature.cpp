#include "engine/platform/nvml/signature.h"

#include "engine/platform/nvml/session.h"

namespace mbench::platform::nvml {
namespace {

constexpr int kCorrected = 0, kUncorrected = 1, kVolatile = 0;  // nvmlMemoryErrorType_t, nvmlEccCounterType_t
constexpr int kNvlinkErrors = 4;  // replays, recoveries, CRC of flits and of data: nvmlNvLinkErrorCounter_t 0 to 3
constexpr unsigned long long kXidEvent = 8;  // nvmlEventTypeXidCriticalError
constexpr int kMostXids = 100;

class FaultWatch final : public DeviceWatch {
 public:
  FaultWatch(std::unique_ptr<Session> session, Handle gpu) : session_(std::move(session)), gpu_(gpu) {
    const Calls& nvml = session_->calls();
    if (!nvml.event_create || !nvml.event_register || !nvml.event_wait || !nvml.event_free) return;
    if (nvml.event_create(&events_) != 0) events_ = nullptr;
    if (events_ && nvml.event_register(gpu_, kXidEvent, events_) != 0) free_events();
  }
  ~FaultWatch() override { free_events(); }

  DeviceSignature read() override {
    const Calls& nvml = session_->calls();
    DeviceSignature s;
    s.name = text([&](char* to, unsigned n) { return nvml.name(gpu_, to, n); });
    if (PciInfo info{}; nvml.pci(gpu_, &info) == 0) s.pci = info.address;
    if (nvml.serial) s.serial = text([&](char* to, unsigned n) { return nvml.serial(gpu_, to, n); });
    if (nvml.vbios) s.vbios = text([&](char* to, unsigned n) { return nvml.vbios(gpu_, to, n); });
    s.driver = text([&](char* to, unsigned n) { return nvml.driver_version(to, n); });
    if (nvml.ecc_errors) {
      s.ecc_corrected = counted([&](auto* n) { return nvml.ecc_errors(gpu_, kCorrected, kVolatile, n); });
      s.ecc_uncorrected = counted([&](auto* n) { return nvml.ecc_errors(gpu_, kUncorrected, kVolatile, n); });
    }
    if (unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
        nvml.remapped_rows && nvml.remapped_rows(gpu_, &corrected, &uncorrected, &pending, &failed) == 0) {
      s.remapped_rows = static_cast<std::int64_t>(corrected) + uncorrected;
      s.remap_pending = pending != 0, s.remap_failed = failed != 0;
    }
    s.pcie_width = number(nvml.pcie_width), s.pcie_most_width = number(nvml.pcie_most_width);
    s.pcie_generation = number(nvml.pcie_generation), s.pcie_most_generation = number(nvml.pcie_most_generation);
    s.pcie_replays = number(nvml.pcie_replays);
    read_links(s);
    for (EventData event{}; events_ && xids_.size() < kMostXids && nvml.event_wait(events_, &event, 0) == 0; event = {})
      if (event.type == kXidEvent) xids_.push_back(static_cast<std::int64_t>(event.data));
    s.xids = xids_;
    return s;
  }

 private:
  using Number = Result (*)(Handle, unsigned*);
  template <class Call>
  static std::string text(const Call& call) {
    char to[128] = {};
    return call(to, sizeof to) == 0 ? to : "";
  }
  template <class Call>
  static std::optional<std::int64_t> counted(const Call& call) {
    unsigned long long n = 0;
    return call(&n) == 0 ? std::optional(static_cast<std::int64_t>(n)) : std::nullopt;
  }
  std::optional<std::int64_t> number(Number call) const {
    unsigned n = 0;
    return call && call(gpu_, &n) == 0 ? std::optional<std::int64_t>(n) : std::nullopt;
  }
  void read_links(DeviceSignature& s) const {
    const Calls& nvml = session_->calls();
    for (unsigned link = 0; link < kMaxLinks; ++link) {
      int up = 0;
      if (nvml.link_state(gpu_, link, &up) != 0) continue;
      s.nvlinks = s.nvlinks.value_or(0) + (up ? 1 : 0);
      for (int counter = 0; up && nvml.link_errors && counter < kNvlinkErrors; ++counter)
        if (const auto n = counted([&](auto* to) { return nvml.link_errors(gpu_, link, counter, to); }))
          s.nvlink_errors = s.nvlink_errors.value_or(0) + *n;
    }
  }
  void free_events() {
    if (events_) session_->calls().event_free(events_);
    events_ = nullptr;
  }

  std::unique_ptr<Session> session_;
  Handle gpu_;
  Handle events_ = nullptr;
  std::vector<std::int64_t> xids_;
};

}  // namespace

std::unique_ptr<DeviceWatch> watch_faults(const std::string& pci) {
  auto session = std::make_unique<Session>();
  Handle gpu = nullptr;
  if (!session->why_none().empty() || session->calls().by_address(pci.c_str(), &gpu) != 0) return nullptr;
  return std::make_unique<FaultWatch>(std::move(session), gpu);
}

}  // namespace mbench::platform::nvml
