// The signatures of a check's devices as JSON, and the values among them that no healthy device has.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/comm/group.h"
#include "engine/device/signature.h"
#include "health/figures.h"
#include "reports/tables/table.h"

namespace mbench::health {

nlohmann::ordered_json signature_to_json(const DeviceSignature& signature);
DeviceSignature signature_from_json(const nlohmann::json& json, const std::string& where);

// Every rank's, in their order.
std::vector<DeviceSignature> gather_signatures(comm::Group& all, const DeviceSignature& mine);

// A line for each device and fault. Faults are uncorrected ECC errors, rows to be remapped or that could not be, errors of NVLink, and
// Xids. So are a PCIe link narrower than both ends, and fewer active links than most devices have.
std::vector<std::string> faults_of(const Health& health);

// A table of every device with what it reported; without rows where none reported anything.
reports::Section signatures_grid(const Health& health);

}  // namespace mbench::health
