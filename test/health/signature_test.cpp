// Which devices a check names for their faults, and the same after JSON.
#include "health/signature.h"

#include <nlohmann/json.hpp>

#include "engine/platform/registry.h"
#include "health/report.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::platform;
using namespace mbench::health;
using Catch::Contains;

namespace {

DeviceSignature healthy(const char* pci) {
  DeviceSignature s;
  s.name = "NVIDIA H200", s.pci = pci, s.serial = "12", s.driver = "570";
  s.ecc_corrected = 5, s.ecc_uncorrected = 0, s.remapped_rows = 1, s.remap_pending = s.remap_failed = false;
  s.pcie_width = s.pcie_most_width = 16, s.pcie_generation = s.pcie_most_generation = 5, s.pcie_replays = 2;
  s.nvlinks = 18, s.nvlink_errors = 0;
  return s;
}

Health four() {
  Health h;
  h.device = "cuda";
  h.hosts = {{.name = "h1", .ranks = {0, 1}}, {.name = "h2", .ranks = {2, 3}}};
  h.devices = {"GPU a", "GPU b", "GPU a", "GPU b"};
  h.signatures = {healthy("0000:10:00.0"), healthy("0000:20:00.0"), healthy("0000:10:00.0"), healthy("0000:20:00.0")};
  return h;
}

}  // namespace

TEST_CASE("signatures: a healthy device has no faults, and each fault names rank, host and device") {
  Health h = four();
  CHECK(faults_of(h).empty());
  CHECK_THAT(to_markdown(h, 0.1), Contains("all data was right") && Contains("gen 5 x16"));
  h.signatures[2].ecc_uncorrected = 3;
  h.signatures[2].remap_failed = true;
  h.signatures[3].pcie_width = 8;
  h.signatures[3].nvlinks = 17;
  h.signatures[3].nvlink_errors = 6;
  h.signatures[3].remap_pending = true;
  h.signatures[3].xids = {79, 48};
  const auto faults = faults_of(h);
  REQUIRE(faults.size() == 7);
  CHECK(faults[0] == "rank 2 on h2 (GPU a): 3 uncorrected ECC errors");
  CHECK_THAT(faults[1], Contains("could not be remapped"));
  CHECK_THAT(faults[2], Contains("rank 3 on h2") && Contains("wait for a reset"));
  CHECK_THAT(faults[3], Contains("PCIe x8, need x16"));
  CHECK_THAT(faults[4], Contains("17 NVLinks up, and most devices have 18"));
  CHECK_THAT(faults[5], Contains("6 errors of NVLink"));
  CHECK_THAT(faults[6], Contains("Xid 79, 48"));
  CHECK_THAT(to_markdown(h, 0.1), Contains("3 uncorrected ECC errors") && !Contains("all data was right"));
  CHECK_THAT(to_junit(h, 0.1), Contains("mbench.check.device"));
  const Health back = health_from_json(nlohmann::json::parse(to_json(h, 0.1).dump()), "test");
  CHECK(back.signatures == h.signatures);
}

TEST_CASE("signatures: ranks that share a device name it once, and what is not told is no fault") {
  Health h = four();
  h.hosts = {{.name = "h1", .ranks = {0, 1, 2, 3}}};
  h.signatures[0].ecc_uncorrected = h.signatures[2].ecc_uncorrected = 3;
  CHECK(faults_of(h).size() == 1);
  h.signatures = {DeviceSignature(), DeviceSignature(), DeviceSignature(), DeviceSignature()};
  CHECK(faults_of(h).empty());
  CHECK(signatures_grid(h).rows.empty());
}

TEST_CASE("signatures reach every rank") {
  run_replicas(2, [](World& world) {
    const auto device = open_device("cpu", 0);
    const auto all = world.group(*device, "all", {0, 1});
    const auto ranks = gather_signatures(*all, world.rank() == 0 ? healthy("a") : DeviceSignature());
    REQUIRE(ranks.size() == 2);
    CHECK(ranks[0] == healthy("a"));
    CHECK(ranks[1] == DeviceSignature());
  });
}
