#include "engine/platform/nvml/session.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace mbench::platform::nvml {

Session::Session() {
  why_none_ = load();
  if (!why_none_.empty()) return;
  if (const Result code = calls_.init(); code != 0)
    why_none_ = fmt::format("NVML does not start: {}", calls_.error_string(code));
}

Session::~Session() {
  if (why_none_.empty()) calls_.shutdown();
  if (library_) ::dlclose(library_);
}

// Why the library cannot be used; empty if it can.
std::string Session::load() {
  library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library_) return "NVML is not there: libnvidia-ml.so.1, which comes with the NVIDIA driver, is not found";
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library_, name));
    return function != nullptr;
  };
  const auto need = [&](const char* name, auto& function) {
    if (!find(name, function)) missing = fmt::format("NVML is too old: it has no {}", name);
  };
  need("nvmlInit_v2", calls_.init);
  need("nvmlShutdown", calls_.shutdown);
  need("nvmlErrorString", calls_.error_string);
  need("nvmlSystemGetDriverVersion", calls_.driver_version);
  need("nvmlDeviceGetCount_v2", calls_.count);
  need("nvmlDeviceGetHandleByIndex_v2", calls_.by_index);
  need("nvmlDeviceGetHandleByPciBusId_v2", calls_.by_address);
  need("nvmlDeviceGetName", calls_.name);
  need("nvmlDeviceGetPciInfo_v3", calls_.pci);
  need("nvmlDeviceGetMemoryInfo", calls_.memory);
  need("nvmlDeviceGetUtilizationRates", calls_.utilization);
  need("nvmlDeviceGetPowerUsage", calls_.power);
  need("nvmlDeviceGetEnforcedPowerLimit", calls_.power_limit);
  need("nvmlDeviceGetClockInfo", calls_.clock);
  need("nvmlDeviceGetMaxClockInfo", calls_.max_clock);
  need("nvmlDeviceGetTemperature", calls_.temperature);
  need("nvmlDeviceGetTopologyCommonAncestor", calls_.ancestor);
  need("nvmlDeviceGetNvLinkState", calls_.link_state);
  need("nvmlDeviceGetNvLinkRemotePciInfo_v2", calls_.link_peer);
  find("nvmlDeviceGetNvLinkRemoteDeviceType", calls_.link_peer_type);
  find("nvmlDeviceGetTotalEnergyConsumption", calls_.energy);
  find("nvmlDeviceGetSerial", calls_.serial);
  find("nvmlDeviceGetVbiosVersion", calls_.vbios);
  find("nvmlDeviceGetTotalEccErrors", calls_.ecc_errors);
  find("nvmlDeviceGetRemappedRows", calls_.remapped_rows);
  find("nvmlDeviceGetCurrPcieLinkWidth", calls_.pcie_width);
  find("nvmlDeviceGetMaxPcieLinkWidth", calls_.pcie_most_width);
  find("nvmlDeviceGetCurrPcieLinkGeneration", calls_.pcie_generation);
  find("nvmlDeviceGetMaxPcieLinkGeneration", calls_.pcie_most_generation);
  find("nvmlDeviceGetPcieReplayCounter", calls_.pcie_replays);
  find("nvmlDeviceGetNvLinkErrorCounter", calls_.link_errors);
  find("nvmlEventSetCreate", calls_.event_create);
  find("nvmlDeviceRegisterEvents", calls_.event_register);
  find("nvmlEventSetWait_v2", calls_.event_wait);
  find("nvmlEventSetFree", calls_.event_free);
  // Renamed in drivers of CUDA 12; the meaning of the bits is the same.
  if (!find("nvmlDeviceGetCurrentClocksEventReasons", calls_.throttle_reasons))
    find("nvmlDeviceGetCurrentClocksThrottleReasons", calls_.throttle_reasons);
  return missing;
}

}  // namespace mbench::platform::nvml
