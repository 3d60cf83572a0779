#include "test/fake_nvml/fake_nvml.h"

#include <cstring>

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kInvalid = 2, kNotSupported = 3, kNotFound = 6;
constexpr int kClockSm = 1, kTemperatureGpu = 0;  // NVML_CLOCK_SM, NVML_TEMPERATURE_GPU
constexpr int kTimeout = 10;
constexpr unsigned kLinks = 18;
constexpr unsigned long long kXidEvent = 8;  // nvmlEventTypeXidCriticalError
struct EventData {                           // nvmlEventData_t
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
constexpr const char* kAddress = "0000:10:00.0";
fake_nvml::Values values;
int gpu_here;  // its address is the handle

int ready(const void* gpu) {
  return values.sessions == 0 ? kUninitialized : gpu == &gpu_here ? kSuccess : kInvalid;
}
int tell(const void* gpu, unsigned* to, unsigned value) {
  const int code = ready(gpu);
  if (code == kSuccess) *to = value;
  return code;
}

}  // namespace

extern "C" {

fake_nvml::Values* fake_nvml_values() {
  return &values;
}

int nvmlInit_v2() {
  ++values.sessions;
  return kSuccess;
}
int nvmlShutdown() {
  if (values.sessions == 0) return kUninitialized;
  --values.sessions;
  return kSuccess;
}
const char* nvmlErrorString(int code) {
  return code == kSuccess ? "Success" : "refused";
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  if (values.sessions == 0) return kUninitialized;
  std::strncpy(text, "0.0", length);
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* n) {
  *n = 1;
  return values.sessions == 0 ? kUninitialized : kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** gpu) {
  *gpu = &gpu_here;
  return values.sessions == 0 ? kUninitialized : i == 0 ? kSuccess : kInvalid;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** gpu) {
  *gpu = &gpu_here;
  return values.sessions == 0 ? kUninitialized : std::strcmp(address, kAddress) == 0 ? kSuccess : kNotFound;
}
int nvmlDeviceGetName(void* gpu, char* text, unsigned length) {
  std::strncpy(text, "fake", length);
  return ready(gpu);
}
int nvmlDeviceGetPciInfo_v3(void* gpu, void*) {
  return ready(gpu) == kSuccess ? kNotSupported : ready(gpu);
}
int nvmlDeviceGetMemoryInfo(void* gpu, unsigned long long* total_free_used) {
  total_free_used[0] = 80ull << 30, total_free_used[1] = 70ull << 30, total_free_used[2] = 10ull << 30;
  return ready(gpu);
}
int nvmlDeviceGetUtilizationRates(void* gpu, unsigned* gpu_and_memory) {
  gpu_and_memory[0] = 90, gpu_and_memory[1] = 40;
  return ready(gpu);
}
int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) {
  return tell(gpu, milliwatts, values.power_mw);
}
int nvmlDeviceGetEnforcedPowerLimit(void* gpu, unsigned* milliwatts) {
  return tell(gpu, milliwatts, 700000);
}
int nvmlDeviceGetClockInfo(void* gpu, int clock, unsigned* mhz) {
  return tell(gpu, mhz, clock == kClockSm ? values.clock_mhz : 2619);  // the others are not the multiprocessors'
}
int nvmlDeviceGetMaxClockInfo(void* gpu, int, unsigned* mhz) {
  return tell(gpu, mhz, 1980);
}
int nvmlDeviceGetTemperature(void* gpu, int sensor, unsigned* celsius) {
  if (sensor != kTemperatureGpu) return kInvalid;
  return values.tells_temperature ? tell(gpu, celsius, values.celsius) : kNotSupported;
}
int nvmlDeviceGetTotalEnergyConsumption(void* gpu, unsigned long long* millijoules) {
  if (!values.tells_energy) return kNotSupported;
  *millijoules = values.energy_mj;
  return ready(gpu);
}
int nvmlDeviceGetCurrentClocksEventReasons(void* gpu, unsigned long long* bits) {
  *bits = values.reasons;
  return ready(gpu);
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, int*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkState(void* gpu, unsigned link, int* up) {
  if (values.links_up == 0 || link >= kLinks) return kNotSupported;
  *up = link < values.links_up;
  return ready(gpu);
}
int nvmlDeviceGetNvLinkErrorCounter(void* gpu, unsigned link, int counter, unsigned long long* n) {
  if (link >= values.links_up || counter < 0 || counter > 4) return kInvalid;
  *n = values.link_errors;
  return ready(gpu);
}
int nvmlDeviceGetSerial(void* gpu, char* text, unsigned length) {
  std::strncpy(text, "1234567890", length);
  return ready(gpu);
}
int nvmlDeviceGetVbiosVersion(void* gpu, char* text, unsigned length) {
  std::strncpy(text, "96.00.01", length);
  return ready(gpu);
}
int nvmlDeviceGetTotalEccErrors(void* gpu, int type, int counter, unsigned long long* n) {
  if (!values.tells_faults || counter != 0) return kNotSupported;
  *n = type == 0 ? values.ecc_corrected : values.ecc_uncorrected;
  return ready(gpu);
}
int nvmlDeviceGetRemappedRows(void* gpu, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  if (!values.tells_faults) return kNotSupported;
  *corrected = 0, *uncorrected = values.remapped, *pending = values.remap_pending, *failed = values.remap_failed;
  return ready(gpu);
}
int nvmlDeviceGetCurrPcieLinkWidth(void* gpu, unsigned* n) {
  return tell(gpu, n, values.pcie_width);
}
int nvmlDeviceGetMaxPcieLinkWidth(void* gpu, unsigned* n) {
  return tell(gpu, n, 16);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* gpu, unsigned* n) {
  return tell(gpu, n, 5);
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* gpu, unsigned* n) {
  return tell(gpu, n, 5);
}
int nvmlDeviceGetPcieReplayCounter(void* gpu, unsigned* n) {
  return tell(gpu, n, values.pcie_replays);
}
int nvmlEventSetCreate(void** set) {
  ++values.event_sets;
  *set = &values;
  return values.sessions == 0 ? kUninitialized : kSuccess;
}
int nvmlDeviceRegisterEvents(void* gpu, unsigned long long types, void* set) {
  return types != kXidEvent || set != &values ? kInvalid : ready(gpu);
}
int nvmlEventSetWait_v2(void* set, EventData* event, unsigned) {
  if (set != &values) return kInvalid;
  if (values.next_xid == 0) return kTimeout;
  *event = {&gpu_here, kXidEvent, values.next_xid, 0, 0};
  values.next_xid = 0;
  return kSuccess;
}
int nvmlEventSetFree(void* set) {
  if (set != &values) return kInvalid;
  --values.event_sets;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return kNotSupported;
}

}  // extern "C"
