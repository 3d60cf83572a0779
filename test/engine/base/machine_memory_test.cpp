#include "engine/base/machine_memory.h"

#include "test/catch.h"
#include "test/support/machine_tree.h"

using namespace mbench;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("without a limit all is there that the machine has left") {
  const test::MachineTree tree("0::/user.slice\n");
  CHECK_FALSE(group_memory(tree.root()));
  CHECK(available_memory(tree.root()) == 8192 * kMiB);
  tree.put("sys/fs/cgroup/user.slice/memory.max", "max\n");
  CHECK_FALSE(group_memory(tree.root()));
}

TEST_CASE("a limit of a control group counts, of version 2, with page cache as free") {
  const test::MachineTree tree("0::/job/step\n");
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
  const test::MachineTree tree("5:cpu:/x\n4:memory:/docker\n");
  tree.put("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_FALSE(group_memory(tree.root()));
  tree.put("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "1073741824\n");
  tree.put("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "1610612736\n");  // more than it may: nothing is left
  const auto group = group_memory(tree.root());
  REQUIRE(group);
  CHECK(group->limit == 1024 * kMiB);
  CHECK(group->left == 0);
}
