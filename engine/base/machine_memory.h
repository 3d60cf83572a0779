// What memory this process may have: the machine's, and the share that a container's or batch job's control group allows.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace mbench {

std::uint64_t physical_memory();  // bytes that the machine has

// Bytes.
struct GroupMemory {
  std::uint64_t limit = 0;
  std::uint64_t left = 0;  // page cache counted as free
};
// The control group (v1 or v2) of this process, or the one above it, that leaves least. Nothing where none limits it below the machine's
// memory. `root` replaces / for proc and sys/fs/cgroup, for tests.
std::optional<GroupMemory> group_memory(const std::string& root = "");

// Bytes that can be taken without swapping, within the group's limit.
std::uint64_t available_memory(const std::string& root = "");

// "the limit of 1.00 GiB of this job (cgroup)"
std::string text_of(const GroupMemory& group);

}  // namespace mbench
