#include "engine/platform/cpu_clock.h"

#include <filesystem>
#include <fstream>

#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::platform;

namespace {

void put(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("cpu clock: cpufreq where it is, else /proc/cpuinfo, of the cores that were asked for; else nothing") {
  const test::TemporaryFolder root;
  const std::string at = root.path.string();
  CHECK_FALSE(cpu_mhz({0, 1}, at));
  CHECK(open_cpu_clock(at) == nullptr);
  put(root.path / "proc/cpuinfo",
      "processor\t: 0\nmodel name\t: x\ncpu MHz\t\t: 2000.000\n\nprocessor\t: 1\ncpu MHz\t\t: 3000.500\n\nprocessor\t: "
      "2\ncpu MHz\t\t: 9000\n");
  CHECK(cpu_mhz({0, 1}, at) == Approx(2500.25));
  CHECK(cpu_mhz({2}, at) == Approx(9000));
  CHECK_FALSE(cpu_mhz({7}, at));
  put(root.path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1500000\n");
  CHECK(cpu_mhz({0}, at) == Approx(1500));
  for (int core = 0; core < 1024; ++core)
    put(root.path / "sys/devices/system/cpu" / ("cpu" + std::to_string(core)) / "cpufreq/scaling_cur_freq",
        "1800000\n");
  const auto clock = open_cpu_clock(at);
  REQUIRE(clock != nullptr);
  CHECK(clock->read().clock_mhz == Approx(1800));
  CHECK_FALSE(clock->read().power_w);
}
