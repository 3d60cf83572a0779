// NVML, the NVIDIA driver's management library. It is loaded when a Session is made, so neither the build nor the start of the program
// needs it. Here are the parts of its interface that are used, as its ABI has them.
#pragma once
#include <cstdint>
#include <string>

namespace mbench::platform::nvml {

using Handle = void*;  // of a GPU
using Result = int;    // 0: success

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char address[32];
};
struct Memory {
  unsigned long long total, free, used;  // bytes
};
struct Utilization {
  unsigned gpu, memory;  // percent of the time since the driver's last sample
};
struct EventData {
  Handle device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
inline constexpr int kClockSm = 1;         // the clock of the multiprocessors
inline constexpr int kTemperatureGpu = 0;  // the sensor on the chip
inline constexpr unsigned kMaxLinks = 36;  // of NVLink
inline constexpr int kPeerIsSwitch = 2;    // type of the device at the other end of a link

// Null where the driver is too old to have it, except those that every driver since 2017 has.
struct Calls {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*driver_version)(char*, unsigned) = nullptr;
  Result (*count)(unsigned*) = nullptr;
  Result (*by_index)(unsigned, Handle*) = nullptr;
  Result (*by_address)(const char*, Handle*) = nullptr;
  Result (*name)(Handle, char*, unsigned) = nullptr;
  Result (*pci)(Handle, PciInfo*) = nullptr;
  Result (*memory)(Handle, Memory*) = nullptr;
  Result (*utilization)(Handle, Utilization*) = nullptr;
  Result (*power)(Handle, unsigned*) = nullptr;        // mW
  Result (*power_limit)(Handle, unsigned*) = nullptr;  // mW
  Result (*clock)(Handle, int, unsigned*) = nullptr;   // MHz
  Result (*max_clock)(Handle, int, unsigned*) = nullptr;
  Result (*temperature)(Handle, int, unsigned*) = nullptr;  // degrees Celsius
  Result (*ancestor)(Handle, Handle, int*) = nullptr;
  Result (*link_state)(Handle, unsigned, int*) = nullptr;
  Result (*link_peer)(Handle, unsigned, PciInfo*) = nullptr;
  Result (*link_peer_type)(Handle, unsigned, int*) = nullptr;
  Result (*energy)(Handle, unsigned long long*) = nullptr;  // mJ since the driver was loaded
  Result (*serial)(Handle, char*, unsigned) = nullptr;
  Result (*vbios)(Handle, char*, unsigned) = nullptr;
  Result (*ecc_errors)(Handle, int, int, unsigned long long*) = nullptr;
  Result (*remapped_rows)(Handle, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  Result (*pcie_width)(Handle, unsigned*) = nullptr;
  Result (*pcie_most_width)(Handle, unsigned*) = nullptr;
  Result (*pcie_generation)(Handle, unsigned*) = nullptr;
  Result (*pcie_most_generation)(Handle, unsigned*) = nullptr;
  Result (*pcie_replays)(Handle, unsigned*) = nullptr;
  Result (*link_errors)(Handle, unsigned, int, unsigned long long*) = nullptr;
  Result (*event_create)(Handle*) = nullptr;
  Result (*event_register)(Handle, unsigned long long, Handle) = nullptr;
  Result (*event_wait)(Handle, EventData*, unsigned) = nullptr;  // waits this many milliseconds
  Result (*event_free)(Handle) = nullptr;
  Result (*throttle_reasons)(Handle, unsigned long long*) = nullptr;  // bits
};

class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Why there is no NVML; empty if there is. Only then may calls() be used.
  const std::string& why_none() const { return why_none_; }
  const Calls& calls() const { return calls_; }

 private:
  std::string load();

  void* library_ = nullptr;
  Calls calls_;
  std::string why_none_;
};

}  // namespace mbench::platform::nvml
