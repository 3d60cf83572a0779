// A machine with figures other than in its file.
#include "engine/sim/machine/what_if.h"

#include "engine/base/error.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;
using Catch::Contains;

TEST_CASE("a figure is set by its path, and nothing else changes") {
  const Machine own = find_machine("H100-SXM5-80GB", "test");
  const Machine other = find_machine(
      "H100-SXM5-80GB",
      {{"network.gbps_per_device", 94}, {"node.links[0].bus_gbps", 500}, {"device.memory_mib", 160000}}, "test");
  CHECK(other.network.bandwidth == 94e9);
  CHECK(own.network.bandwidth == 47e9);
  CHECK(other.node.links.at(0).bandwidth == 500e9);
  CHECK(other.device.memory_bytes == std::uint64_t{160000} << 20);
  CHECK(other.network.latency == own.network.latency);
  CHECK(other.device.peak_flops == own.device.peak_flops);
  const Machine same = find_machine("H100-SXM5-80GB", {}, "test");
  CHECK(same.network.bandwidth == own.network.bandwidth);
}

TEST_CASE("a figure that the machine has not, or cannot have, is refused with its path") {
  const auto message = [](const std::string& path, double value) -> std::string {
    try {
      find_machine("H100-SXM5-80GB", {{path, value}}, "test");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
      return e.what();
    }
    return "";
  };
  CHECK_THAT(message("network.gbps_per_devise", 94),
             Contains("machine.network.gbps_per_devise") && Contains("did you mean \"network.gbps_per_device\"?"));
  CHECK_THAT(message("network", 94), Contains("no figure"));
  CHECK_THAT(message("device.memory_efficiency", 1.5), Contains("device.memory_efficiency"));
  CHECK_THAT(message("device.multiprocessors", 1.5), Contains("whole number"));
  CHECK_THAT(message("network.gbps_per_device", 0), Contains("above 0"));
}

TEST_CASE("a job may have a part of each node's devices, and their part of its adapters") {
  const Machine own = find_machine("GB200-NVL72", "test"), cut = cut_to(own, 64, "here");
  CHECK(cut.node.devices == 64);
  CHECK(cut.network.adapters == Approx(own.network.adapters * 64 / 72));
  CHECK(cut.network.tiers.devices == own.network.tiers.devices);
  CHECK(cut.network.bandwidth == own.network.bandwidth);
  try {
    cut_to(own, 73, "here");
    FAIL_CHECK("nothing was refused");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK_THAT(e.what(), Contains("[here] got 73 ranks on a node of GB200-NVL72, need 72 at most"));
  }
}

TEST_CASE("every figure of a machine is listed with its value") {
  const auto figures = figures_of("V100-SXM2-16GB", "test");
  CHECK(figures.size() > 30);
  bool found = false;
  for (const MachineFigure& f : figures) found = found || (f.path == "node.links[1].bus_gbps" && f.value > 0);
  CHECK(found);
}
