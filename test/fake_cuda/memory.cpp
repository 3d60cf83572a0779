#include "test/fake_cuda/memory.h"

#include <sys/mman.h>

#include <cstring>

#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

constexpr std::size_t kPage = 4096;

std::uintptr_t number(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}

std::size_t pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

// Never destroyed, as the engine.
Memory& Memory::get() {
  static Memory& memory = *new Memory;
  return memory;
}

bool Memory::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const Settings& s = settings();
  const std::size_t room = s.full_at ? s.full_at : s.memory;
  if (used_ + bytes > room) return false;
  used_ += bytes;
  return true;
}

void Memory::give(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
}

std::size_t Memory::used() {
  const std::lock_guard lock(mutex_);
  return used_;
}

void* Memory::allocate(Kind kind, std::size_t bytes) {
  if (kind == Kind::device && !take(pages(bytes))) return nullptr;
  void* at = mmap(nullptr, pages(bytes) + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  std::memset(at, 0xFF, bytes);
  mprotect(static_cast<char*>(at) + pages(bytes), kPage, PROT_NONE);
  const std::lock_guard lock(mutex_);
  ranges_[number(at)] = {bytes, kind, false};
  return at;
}

bool Memory::release(Kind kind, void* at) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto it = ranges_.find(number(at));
    if (it == ranges_.end() || it->second.kind != kind || it->second.mapped) return false;
    bytes = it->second.bytes;
    ranges_.erase(it);
  }
  // The addresses stay taken, so that a use after the end faults instead of finding something new.
  mmap(at, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (kind == Kind::device) give(pages(bytes));
  return true;
}

void Memory::add_mapped(void* at, std::size_t bytes, Kind kind) {
  const std::lock_guard lock(mutex_);
  ranges_[number(at)] = {bytes, kind, true};
}

bool Memory::is_mapped(void* at, Kind kind) {
  const std::lock_guard lock(mutex_);
  const auto it = ranges_.find(number(at));
  return it != ranges_.end() && it->second.kind == kind && it->second.mapped;
}

bool Memory::is_mapped_at(const void* at) {
  const std::lock_guard lock(mutex_);
  auto it = ranges_.upper_bound(number(at));
  if (it == ranges_.begin()) return false;
  --it;
  return number(at) < it->first + it->second.bytes && it->second.kind == Kind::device && it->second.mapped;
}

bool Memory::touches_range(const void* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (const auto& [start, range] : ranges_)
    if (start < number(at) + bytes && number(at) < start + range.bytes) return true;
  return false;
}

bool Memory::in_one_range(const void* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto it = ranges_.upper_bound(number(at));
  if (it == ranges_.begin()) return false;
  --it;
  return number(at) + bytes <= it->first + it->second.bytes;
}

void Memory::remove_mapped(void* at) {
  const std::lock_guard lock(mutex_);
  ranges_.erase(number(at));
}

Kind Memory::kind_of(const void* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::uintptr_t from = number(at);
  const std::uintptr_t end = from + bytes;
  Kind kind = Kind::pageable;
  do {  // mapped ranges may lie side by side
    auto it = ranges_.upper_bound(from);
    if (it == ranges_.begin()) return Kind::pageable;
    --it;
    const std::uintptr_t until = it->first + it->second.bytes;
    if (from >= until) return Kind::pageable;
    kind = it->second.kind;
    from = until;
  } while (from < end);
  return kind;
}

bool Memory::touches_device(const void* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (const auto& [start, range] : ranges_)
    if (range.kind == Kind::device && start < number(at) + bytes && number(at) < start + range.bytes) return true;
  return false;
}

}  // namespace fake_cuda
