// What memory this process may have: the machine's, and what a container or a batch job is given of it by its control group.
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
// Of the control group (v1 or v2) of this process, or the one above it, that leaves least; nothing where none limits it below what
// the machine has. `root` holds proc and sys/fs/cgroup: for tests, in place of those of the machine.
std::optional<GroupMemory> group_memory(const std::string& root = "");

// Bytes that can be taken without swapping, within the group's limit.
std::uint64_t available_memory(const std::string& root = "");

// "the limit of 1.00 GiB of this job (cgroup)"
std::string text_of(const GroupMemory& group);

}  // namespace mbench
