// What a device reports of itself and of the faults that it has counted. Each null where it does not report it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mbench {

struct DeviceSignature {
  std::string name, pci, serial, vbios, driver;  // empty: not reported
  // Since the driver was loaded.
  std::optional<std::int64_t> ecc_corrected, ecc_uncorrected, pcie_replays, nvlink_errors;
  std::optional<std::int64_t> remapped_rows;  // of its memory, for good
  std::optional<bool> remap_pending, remap_failed;
  std::optional<std::int64_t> pcie_width, pcie_most_width, pcie_generation, pcie_most_generation,
      nvlinks;                     // links that are up
  std::vector<std::int64_t> xids;  // the driver's critical errors since the watch began
  bool operator==(const DeviceSignature&) const = default;
};

// What it has counted between two readings of one watch: "Xid 79", "2 uncorrected ECC errors". What it does not report is no fault.
std::vector<std::string> new_faults(const DeviceSignature& before, const DeviceSignature& now);

// Watches a device from its construction.
class DeviceWatch {
 public:
  virtual ~DeviceWatch() = default;
  virtual DeviceSignature read() = 0;
};

}  // namespace mbench
