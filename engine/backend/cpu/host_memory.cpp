#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "engine/backend/cpu/cpu_device.h"
#include "engine/base/machine_memory.h"
#include "engine/base/text.h"

namespace mbench::cpu {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;
// Memory is taken in pieces, and what the machine has left is read before each: several ranks may grow at
// once.
constexpr std::size_t kPiece = std::size_t{256} << 20;
// Left to everybody else, so that the system is never driven to kill a process.
constexpr std::size_t kReserve = std::size_t{256} << 20;

// Left below a limit on address space or data for what comes later: OpenBLAS takes 128 MiB for each product that runs and
// asks again for ever where it gets none; threads have their stacks.
constexpr std::size_t kOthers = std::size_t{512} << 20;

// What a limit of this process leaves: the resource's own, less the field of /proc/self/statm that counts against it.
std::size_t left_of_limit(int resource, int field) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return ~std::size_t{0};
  std::ifstream in("/proc/self/statm");
  std::size_t pages = 0;
  for (int i = 0; i <= field; ++i) in >> pages;
  const std::size_t taken = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + kOthers;
  return limit.rlim_cur - std::min<std::size_t>(limit.rlim_cur, taken);
}

std::size_t left_of_addresses() {
  return left_of_limit(RLIMIT_AS, 0);
}
std::size_t left_of_data() {
  return left_of_limit(RLIMIT_DATA, 5);
}

[[noreturn]] void fail_limit(const char* limit, std::size_t left, std::size_t need) {
  fail(ErrorKind::launch_failed, "memory", "the limit on {} leaves {} for tensors, need {}: raise it", limit,
       format_bytes(left), format_bytes(need));
}
constexpr const char* kAddresses = "address space (ulimit -v)";
constexpr const char* kData = "data (ulimit -d)";

}  // namespace

HostMemory::HostMemory(std::size_t capacity) : capacity_((capacity + kHuge - 1) / kHuge * kHuge) {
  if (const std::size_t left = left_of_addresses(); left < capacity_ + kHuge) {
    capacity_ = (left - std::min(left, kHuge)) / kHuge * kHuge;
    limited_ = true;
    if (capacity_ == 0) fail_limit(kAddresses, left, 2 * kHuge);
  }
  // Reserved without access; one huge page more, so that the base can be aligned.
  reserved_ = capacity_ + kHuge;
  void* p = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    fail(ErrorKind::out_of_memory, "memory", "cannot reserve {} of addresses: {}", format_bytes(reserved_),
         std::strerror(errno));
  mapping_ = static_cast<std::byte*>(p);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  base_ = mapping_ + ((address + kHuge - 1) / kHuge * kHuge - address);
}

HostMemory::~HostMemory() {
  munmap(mapping_, reserved_);
}

bool HostMemory::commit(std::size_t bytes) {
  if (bytes > capacity_ && limited_) fail_limit(kAddresses, capacity_, bytes);
  if (bytes > capacity_) return false;
  if (const std::size_t left = left_of_data(); left < bytes - std::min(bytes, committed_))
    fail_limit(kData, committed_ + left, bytes);
  const std::size_t before = committed_;
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  while (committed_ < bytes) {
    const std::size_t piece = std::min(kPiece, bytes - committed_);
    std::byte* start = base_ + committed_;
    if (available_memory() < bytes - committed_ + kReserve || mprotect(start, piece, PROT_READ | PROT_WRITE) != 0) {
      // Nothing of a request that cannot be met is kept.
      madvise(base_ + before, committed_ - before, MADV_DONTNEED);
      committed_ = before;
      return false;
    }
    madvise(start, piece, MADV_HUGEPAGE);  // only advice
    const std::size_t pages = piece / page;
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < pages; ++i) *reinterpret_cast<volatile char*>(start + i * page) = 0;
    committed_ += piece;
  }
  return true;
}

std::string HostMemory::bound() const {
  const auto group = group_memory();
  return fmt::format("{}, {} left", group ? text_of(*group) : format_bytes(physical_memory()) + " of this machine",
                     format_bytes(available_memory()));
}

}  // namespace mbench::cpu
