// Bytes of a device outside the engine's arena: workspaces of libraries, scratch of kernels. They are no part of the
// peak that a plan is judged by, which must be the same on every device. But they count against the device's limit, and
// a row reports the most that there were.
#pragma once
#include <cstddef>
#include <string_view>

#include "engine/device/allocator.h"

namespace mbench {

// Charges the allocator of a device for as long as it lives.
class LibraryMemory {
 public:
  explicit LibraryMemory(Allocator& memory) : memory_(memory) {}
  ~LibraryMemory() { memory_.change_library(bytes_, 0, ""); }
  LibraryMemory(const LibraryMemory&) = delete;
  LibraryMemory& operator=(const LibraryMemory&) = delete;

  // Sets it to `bytes`; call it before the memory is asked for. Throws OutOfMemory, and changes nothing, where the
  // limit has no room.
  void resize(std::size_t bytes, std::string_view what) {
    memory_.change_library(bytes_, bytes, what);
    bytes_ = bytes;
  }

 private:
  Allocator& memory_;
  std::size_t bytes_ = 0;
};

}  // namespace mbench
