// NVML's functions, as its ABI has them. Found as libnvidia-ml.so.1. GPUs 0 and 1, 2 and 3, ... are joined by
// four NVLinks; other paths lead over PCIe, within a NUMA node of four GPUs or between nodes.
#include <fmt/format.h>

#include <cstring>

#include "test/fake_cuda/memory.h"
#include "test/fake_cuda/settings.h"

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kInvalid = 2, kUnsupported = 3, kNotFound = 6;
constexpr unsigned kLinks = 4;
int sessions = 0;

constexpr int kTimeout = 10;
constexpr unsigned long long kXidEvent = 8;  // nvmlEventTypeXidCriticalError
struct EventData {                           // nvmlEventData_t
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
// Of one GPU, which is all that mbench asks for.
struct EventSet {
  void* gpu = nullptr;
  int asked = 0;
};

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char address[32];
};

int count() {
  return fake_cuda::settings().count;
}

// A handle is the number of a GPU, from 1.
bool valid(const void* gpu) {
  const auto n = reinterpret_cast<std::uintptr_t>(gpu);
  return n >= 1 && n <= static_cast<std::uintptr_t>(count());
}
int number(const void* gpu) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(gpu)) - 1;
}
void* handle(int gpu) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(gpu) + 1);
}

int copy(char* to, unsigned length, const std::string& text) {
  if (text.size() >= length) return 7;  // insufficient size
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

unsigned bus(int gpu) {
  return 16u * (static_cast<unsigned>(gpu) + 1);
}
std::string address(int gpu) {
  return fmt::format("00000000:{:02X}:00.0", bus(gpu));
}
void tell(int gpu, PciInfo* info) {
  std::memset(info, 0, sizeof *info);
  info->bus = bus(gpu);
  copy(info->address, sizeof info->address, address(gpu));
  copy(info->legacy, sizeof info->legacy, fmt::format("0000:{:02X}:00.0", bus(gpu)));
}

// The other end of a link, -1 where there is none.
int peer(int gpu, unsigned link) {
  const int other = gpu ^ 1;
  return link < kLinks && other < count() ? other : -1;
}

template <class T>
int answer(const void* gpu, T* to, T value) {
  if (sessions == 0) return kUninitialized;
  if (!valid(gpu)) return kInvalid;
  *to = value;
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++sessions;
  return kSuccess;
}
int nvmlShutdown() {
  if (sessions == 0) return kUninitialized;
  --sessions;
  return kSuccess;
}
const char* nvmlErrorString(int code) {
  return code == kSuccess ? "Success" : "a call of NVML that is refused";
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return sessions == 0 ? kUninitialized : copy(text, length, "0.0 (fake)");
}
int nvmlDeviceGetCount_v2(unsigned* n) {
  if (sessions == 0) return kUninitialized;
  *n = static_cast<unsigned>(count());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** gpu) {
  if (sessions == 0) return kUninitialized;
  if (i >= static_cast<unsigned>(count())) return kInvalid;
  *gpu = handle(static_cast<int>(i));
  return kSuccess;
}
// "0000:10:00.0", the domain in 4 or 8 digits.
int nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** gpu) {
  if (sessions == 0) return kUninitialized;
  unsigned domain = 0, b = 0, device = 0;
  if (std::sscanf(text, "%x:%x:%x", &domain, &b, &device) != 3) return kInvalid;
  for (int i = 0; i < count(); ++i)
    if (domain == 0 && device == 0 && b == bus(i)) {
      *gpu = handle(i);
      return kSuccess;
    }
  return kNotFound;
}
int nvmlDeviceGetName(void* gpu, char* text, unsigned length) {
  if (!valid(gpu)) return kInvalid;
  return copy(text, length, "fake GPU (emulated)");
}
int nvmlDeviceGetPciInfo_v3(void* gpu, PciInfo* info) {
  if (!valid(gpu)) return kInvalid;
  tell(number(gpu), info);
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void* gpu, unsigned long long* total_free_used) {
  if (!valid(gpu)) return kInvalid;
  const std::size_t total = fake_cuda::settings().memory, used = fake_cuda::Memory::get().used();
  total_free_used[0] = total, total_free_used[1] = total - used, total_free_used[2] = used;
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* gpu, unsigned* gpu_and_memory) {
  if (!valid(gpu)) return kInvalid;
  gpu_and_memory[0] = 50, gpu_and_memory[1] = 10;
  return kSuccess;
}
int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) {
  return answer(gpu, milliwatts, 50000u);
}
int nvmlDeviceGetEnforcedPowerLimit(void* gpu, unsigned* milliwatts) {
  return answer(gpu, milliwatts, 100000u);
}
int nvmlDeviceGetClockInfo(void* gpu, int, unsigned* mhz) {
  return answer(gpu, mhz, 1000u);
}
int nvmlDeviceGetMaxClockInfo(void* gpu, int, unsigned* mhz) {
  return answer(gpu, mhz, 1000u);
}
int nvmlDeviceGetTemperature(void* gpu, int sensor, unsigned* celsius) {
  if (sensor != 0) return kInvalid;  // the chip's is the only one
  return answer(gpu, celsius, 60u);
}
int nvmlDeviceGetCurrentClocksEventReasons(void* gpu, unsigned long long* bits) {
  return answer(gpu, bits, 0ull);
}
int nvmlEventSetCreate(EventSet** set) {
  if (sessions == 0) return kUninitialized;
  *set = new EventSet;
  return kSuccess;
}
int nvmlDeviceRegisterEvents(void* gpu, unsigned long long types, EventSet* set) {
  if (!valid(gpu) || types != kXidEvent || set->gpu) return kInvalid;
  set->gpu = gpu;
  return kSuccess;
}
int nvmlEventSetWait_v2(EventSet* set, EventData* event, unsigned) {
  if (!set->gpu) return kInvalid;
  const std::uint64_t xid = fake_cuda::settings().xid;
  if (++set->asked != 2 || xid == 0 || number(set->gpu) != 0) return kTimeout;
  *event = {set->gpu, kXidEvent, xid, 0, 0};
  return kSuccess;
}
int nvmlEventSetFree(EventSet* set) {
  delete set;
  return kSuccess;
}
// Not told, as by some real ones.
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long*) {
  return kUnsupported;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level) {
  constexpr int node = 40, system = 50;
  if (!valid(a)) return kInvalid;
  return answer(b, level, number(a) / 4 == number(b) / 4 ? node : system);
}
int nvmlDeviceGetNvLinkState(void* gpu, unsigned link, int* up) {
  if (!valid(gpu) || link >= 18) return kInvalid;
  *up = peer(number(gpu), link) >= 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* gpu, unsigned link, PciInfo* info) {
  if (!valid(gpu) || peer(number(gpu), link) < 0) return kInvalid;
  tell(peer(number(gpu), link), info);
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* gpu, unsigned link, int* type) {
  if (!valid(gpu) || peer(number(gpu), link) < 0) return kInvalid;
  *type = 0;  // a GPU
  return kSuccess;
}

}  // extern "C"
