#include "engine/base/machine_memory.h"

#include <filesystem>
#include <fstream>

#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// proc and sys of a machine with 8 GiB left, in a folder.
struct Tree {
  test::TemporaryFolder folder;
  explicit Tree(const std::string& groups) {
    put("proc/meminfo", "MemTotal:  16777216 kB\nMemFree: 1024 kB\nMemAvailable:    8388608 kB\n");
    put("proc/self/cgroup", groups);
  }
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return folder.path.string(); }
};

}  // namespace

TEST_CASE("without a limit all is there that the machine has left") {
  const Tree tree("0::/user.slice\n");
  CHECK_FALSE(group_memory(tree.root()));
  CHECK(available_memory(tree.root()) == 8192 * kMiB);
  tree.put("sys/fs/cgroup/user.slice/memory.max", "max\n");
  CHECK_FALSE(group_memory(tree.root()));
}

TEST_CASE("a limit of a control group counts, of version 2, with page cache as free") {
  const Tree tree("0::/job/step\n");
  tree.put("sys/fs/cgroup/job/memory.max", "1073741824\n");
  tree.put("sys/fs/cgroup/job/memory.current", "805306368\n");
  tree.put("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 268435456\n");
  const auto group = group_memory(tree.root());
  REQUIRE(group);
  CHECK(group->limit == 1024 * kMiB);
  CHECK(group->left == 512 * kMiB);
  CHECK(available_memory(tree.root()) == 512 * kMiB);
  CHECK(text_of(*group) == "the limit of 1.00 GiB of this job (cgroup)");
  // One of its own that leaves less.
  tree.put("sys/fs/cgroup/job/step/memory.max", "104857600\n");
  CHECK(group_memory(tree.root())->limit == 100 * kMiB);
}

TEST_CASE("a limit of a control group counts, of version 1, whose largest number is none") {
  const Tree tree("5:cpu:/x\n4:memory:/docker\n");
  tree.put("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_FALSE(group_memory(tree.root()));
  tree.put("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "1073741824\n");
  tree.put("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "1610612736\n");  // more than it may: nothing is left
  const auto group = group_memory(tree.root());
  REQUIRE(group);
  CHECK(group->limit == 1024 * kMiB);
  CHECK(group->left == 0);
}
