#include "engine/base/cpu_quota.h"

#include "test/catch.h"
#include "test/support/machine_tree.h"

using namespace mbench;

TEST_CASE("CPU quota: of the group or of one above it, the least, in version 2") {
  const test::MachineTree tree("0::/kubepods/pod\n");
  CHECK_FALSE(cpu_quota(tree.root()));
  tree.put("sys/fs/cgroup/kubepods/pod/cpu.max", "max 100000\n");
  CHECK_FALSE(cpu_quota(tree.root()));
  tree.put("sys/fs/cgroup/kubepods/cpu.max", "400000 100000\n");
  CHECK(cpu_quota(tree.root()) == 4.0);
  tree.put("sys/fs/cgroup/kubepods/pod/cpu.max", "150000 100000\n");
  CHECK(cpu_quota(tree.root()) == 1.5);
  CHECK(cpu_quota_text(1.5) == "the CPU quota of this job (cgroup) is 1.5 cores");
  CHECK(cpu_quota_text(1) == "the CPU quota of this job (cgroup) is 1 core");
}

TEST_CASE("CPU quota: in version 1 of the controller cpu, which is not cpuset") {
  const test::MachineTree tree("3:cpuset:/other\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n");
  tree.put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  tree.put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(cpu_quota(tree.root()));
  tree.put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
  CHECK(cpu_quota(tree.root()) == 0.5);
  tree.put("sys/fs/cgroup/cpu/other/cpu.cfs_quota_us", "10000\n");
  tree.put("sys/fs/cgroup/cpu/other/cpu.cfs_period_us", "100000\n");
  CHECK(cpu_quota(tree.root()) == 0.5);
}
