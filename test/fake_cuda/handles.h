// Streams and events as the runtime hands them out. A handle that is not alive is refused, not followed.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <set>

#include "test/fake_cuda/engine.h"

struct CUstream_st {
  std::shared_ptr<fake_cuda::Queue> queue;
  int device = 0;
};

struct CUevent_st {
  std::shared_ptr<fake_cuda::Recording> last;  // null until it is recorded
  bool timed = true;
  bool passed() const { return !last || last->passed; }
};

namespace fake_cuda {

// Those of one type that are alive.
template <class Handle>
class Alive {
 public:
  // Never destroyed: handles may be given back while the program ends.
  static Alive& get() {
    static Alive& alive = *new Alive;
    return alive;
  }
  Handle* add(Handle* h) {
    const std::lock_guard lock(mutex_);
    all_.insert(h);
    return h;
  }
  bool has(Handle* h) {
    const std::lock_guard lock(mutex_);
    return all_.contains(h);
  }
  // Whether it was alive; it is deleted.
  bool end(Handle* h) {
    const std::lock_guard lock(mutex_);
    if (all_.erase(h) == 0) return false;
    delete h;
    return true;
  }

 private:
  std::mutex mutex_;
  std::set<Handle*> all_;
};

// The queue of a stream, of the default one for null; null where the handle is not alive.
std::shared_ptr<Queue> queue_of(cudaStream_t stream);

// The GPU that this thread has chosen.
int current_device();

// What every call of the runtime returns. A fault that stopped the GPU takes precedence; any error is kept for cudaGetLastError().
cudaError_t returned(cudaError_t code);
cudaError_t refused(cudaError_t code, std::string_view call, std::string_view why);

}  // namespace fake_cuda
