// Energy counters of CPUs in trees of /sys as machines have them.
#include "engine/platform/cpu_energy.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::platform;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

class Tree {
 public:
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root_.path / path).parent_path());
    std::ofstream(root_.path / path) << text << "\n";
  }
  void zone(const std::string& zone, const std::string& name, std::uint64_t uj, std::uint64_t range = 0) const {
    const std::string at = "sys/class/powercap/" + zone + "/";
    put(at + "name", name);
    put(at + "energy_uj", std::to_string(uj));
    if (range > 0) put(at + "max_energy_range_uj", std::to_string(range));
  }
  std::string root() const { return root_.path.string(); }
  fs::path path(const std::string& below) const { return root_.path / below; }

 private:
  test::TemporaryFolder root_;
};

void wait() {
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
}

// As an Intel server of two sockets has it, and what counts no more than that: cores, the platform, the same by another interface.
void two_sockets(const Tree& tree, std::uint64_t more) {
  constexpr std::uint64_t range = 262143328850;
  tree.put("sys/class/powercap/intel-rapl/enabled", "1");
  tree.zone("intel-rapl:0", "package-0", 1000000 + 2 * more, range);
  tree.zone("intel-rapl:0:0", "dram", 500000 + more, 65712999613);
  tree.zone("intel-rapl:1", "package-1", 7000000 + 2 * more, range);
  tree.zone("intel-rapl:1:0", "dram", 0 + more, 65712999613);
  tree.zone("intel-rapl:1:1", "core", 3000000 + 99 * more, range);
  tree.zone("intel-rapl:2", "psys", 9000000 + 99 * more, range);
  tree.zone("intel-rapl-mmio:0", "package-0", 1000000 + 99 * more, range);
}

}  // namespace

TEST_CASE("RAPL counts all packages and DRAM, and nothing twice") {
  const Tree tree;
  two_sockets(tree, 0);
  const auto meter = open_cpu_energy(tree.root());
  wait();
  two_sockets(tree, 500000);
  const EnergyReading r = meter->read();
  REQUIRE(r.joules);
  CHECK(*r.joules == Approx(3.0));  // 2 x 1 J and 2 x 0.5 J
  CHECK(r.seconds >= 0.1);
  CHECK(r.source == "RAPL, 2 packages and 2 of DRAM");
  CHECK_THAT(r.counted, Catch::StartsWith("host "));
  two_sockets(tree, 1000000);
  CHECK(*meter->read().joules == Approx(6.0));
}

TEST_CASE("a counter that begins again after its range is counted on") {
  const Tree tree;
  tree.zone("intel-rapl:0", "package-0", 99000000, 100000000);
  const auto meter = open_cpu_energy(tree.root());
  wait();
  tree.zone("intel-rapl:0", "package-0", 500000, 100000000);
  CHECK(*meter->read().joules == Approx(1.5));
  tree.zone("intel-rapl:0", "package-0", 400000, 100000000);
  CHECK(*meter->read().joules == Approx(1.5 + 99.9));
  CHECK(meter->read().source == "RAPL, 1 package, DRAM not counted");
}

TEST_CASE("without RAPL the sockets of amd_energy count, and no cores and no other devices") {
  const Tree tree;
  const std::string at = "sys/class/hwmon/hwmon3/";
  tree.put("sys/class/hwmon/hwmon0/name", "nvme");
  tree.put("sys/class/hwmon/hwmon0/energy1_input", "5");
  tree.put(at + "name", "amd_energy");
  const auto count = [&](int uj) {
    tree.put(at + "energy1_label", "Ecore000");
    tree.put(at + "energy1_input", std::to_string(50 * uj));
    tree.put(at + "energy65_label", "Esocket0");
    tree.put(at + "energy65_input", std::to_string(1000 + uj));
    tree.put(at + "energy66_label", "Esocket1");
    tree.put(at + "energy66_input", std::to_string(2000 + uj));
  };
  count(0);
  const auto meter = open_cpu_energy(tree.root());
  wait();
  count(2500000);
  const EnergyReading r = meter->read();
  REQUIRE(r.joules);
  CHECK(*r.joules == Approx(5.0));
  CHECK(r.source == "amd_energy, 2 sockets, DRAM not counted");
}

TEST_CASE("what cannot be counted is unknown with its reason, and never 0") {
  const Tree tree;
  CHECK_FALSE(open_cpu_energy(tree.root())->read().joules);
  CHECK_THAT(open_cpu_energy(tree.root())->read().source,
             Contains("/sys/class/powercap has no package of RAPL") && Contains("no amd_energy"));
  tree.zone("intel-rapl:0", "package-0", 10, 100);
  CHECK_THAT(open_cpu_energy(tree.root())->read().source, Contains("measured steps took") && Contains("need 0.1 s"));
  const auto stuck = open_cpu_energy(tree.root()), gone = open_cpu_energy(tree.root());
  wait();
  CHECK_FALSE(stuck->read().joules);
  CHECK_THAT(stuck->read().source, Contains("do not move"));
  fs::remove(tree.path("sys/class/powercap/intel-rapl:0/energy_uj"));
  CHECK_FALSE(gone->read().joules);
  CHECK_THAT(gone->read().source, Contains("intel-rapl:0/energy_uj cannot be read"));
  CHECK_THAT(open_cpu_energy(tree.root())->read().source, Contains("cannot be read"));
}
