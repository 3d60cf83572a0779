// While it lives, memory is asked for on that stream (base/memory_stream.h). Where blocks lie on a device does not depend on it: a simulation
// records it for frameworks whose allocator has a pool for each stream. Of the calling thread.
#pragma once
#include <utility>

#include "engine/base/memory_stream.h"

namespace mbench {

class OnStream {
 public:
  explicit OnStream(MemoryStream stream) : before_(std::exchange(now_, stream)) {}
  ~OnStream() { now_ = before_; }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;
  static MemoryStream now() { return now_; }

 private:
  static constinit inline thread_local MemoryStream now_ = MemoryStream::compute;
  MemoryStream before_;
};

}  // namespace mbench
