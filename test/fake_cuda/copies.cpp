// CUDA's runtime: memory of the GPU and of the host, and copies between them.
#include <cstring>
#include <memory>
#include <vector>

#include "test/fake_cuda/capture.h"
#include "test/fake_cuda/handles.h"
#include "test/fake_cuda/memory.h"
#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

cudaError_t allocate(Kind kind, void** at, std::size_t bytes) {
  *at = nullptr;
  if (Engine::get().fault() != cudaSuccess || bytes == 0) return returned(cudaSuccess);
  *at = Memory::get().allocate(kind, bytes);
  return returned(*at ? cudaSuccess : cudaErrorMemoryAllocation);
}

// Freeing waits for all that runs, as the real one does.
cudaError_t release(Kind kind, void* at, const char* call) {
  if (at == nullptr) return returned(cudaSuccess);
  Engine::get().wait_all();
  if (!Memory::get().release(kind, at)) return refused(cudaErrorInvalidValue, call, "no allocation begins there");
  return returned(cudaSuccess);
}

// What a copy of that kind may read and write; kind "default" goes by the addresses.
bool allowed(cudaMemcpyKind kind, Kind to, Kind from) {
  const bool to_device = to == Kind::device, from_device = from == Kind::device;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    default:
      return true;
  }
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  if (breaks_capture("cudaMalloc")) return returned(cudaErrorStreamCaptureUnsupported);
  return allocate(Kind::device, at, bytes);
}
cudaError_t cudaFree(void* at) {
  if (breaks_capture("cudaFree")) return returned(cudaErrorStreamCaptureUnsupported);
  return release(Kind::device, at, "cudaFree");
}
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  if (breaks_capture("cudaMallocHost")) return returned(cudaErrorStreamCaptureUnsupported);
  return allocate(Kind::pinned, at, bytes);
}
cudaError_t cudaHostAlloc(void** at, std::size_t bytes, unsigned) {
  if (breaks_capture("cudaHostAlloc")) return returned(cudaErrorStreamCaptureUnsupported);
  return allocate(Kind::pinned, at, bytes);
}
cudaError_t cudaFreeHost(void* at) {
  if (breaks_capture("cudaFreeHost")) return returned(cudaErrorStreamCaptureUnsupported);
  return release(Kind::pinned, at, "cudaFreeHost");
}
cudaError_t cudaHostRegister(void* at, std::size_t bytes, unsigned) {
  if (Engine::get().fault() != cudaSuccess) return returned(Engine::get().fault());
  if (bytes == 0) return refused(cudaErrorInvalidValue, "cudaHostRegister", "no bytes");
  if (Memory::get().touches_range(at, bytes))
    return refused(cudaErrorHostMemoryAlreadyRegistered, "cudaHostRegister", "a part of it is locked already");
  Memory::get().add_mapped(at, bytes, Kind::pinned);
  return returned(cudaSuccess);
}
cudaError_t cudaHostUnregister(void* at) {
  Engine::get().wait_all();
  if (!Memory::get().is_mapped(at, Kind::pinned))
    return refused(cudaErrorHostMemoryNotRegistered, "cudaHostUnregister", "no locked range begins there");
  Memory::get().remove_mapped(at);
  return returned(cudaSuccess);
}
cudaError_t cudaMallocAsync(void** at, std::size_t bytes, cudaStream_t stream) {
  if (!queue_of(stream)) return returned(cudaErrorInvalidResourceHandle);
  if (queue_of(stream)->capture)
    return refused(cudaErrorStreamCaptureUnsupported, "cudaMallocAsync", "memory of graphs is not emulated");
  return allocate(Kind::device, at, bytes);
}
cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  if (queue_of(stream)->capture)
    return refused(cudaErrorStreamCaptureUnsupported, "cudaFreeAsync", "memory of graphs is not emulated");
  if (Memory::get().kind_of(at, 1) != Kind::device)
    return refused(cudaErrorInvalidValue, "cudaFreeAsync", "no allocation begins there");
  Engine::get().enqueue(queue, [at] {
    if (!Memory::get().release(Kind::device, at)) {
      complain("cudaFreeAsync", "no allocation begins there");
      Engine::get().stop(cudaErrorInvalidValue);
    }
    return Step::done;
  });
  return returned(cudaSuccess);
}

// From pageable memory the bytes are taken before the call returns, to pageable memory they are there when it
// returns; pinned memory is read and written when the stream comes to it.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return returned(cudaSuccess);
  Memory& memory = Memory::get();
  const Kind target = memory.kind_of(to, bytes), source = memory.kind_of(from, bytes);
  if (!allowed(kind, target, source))
    return refused(cudaErrorInvalidValue, "cudaMemcpyAsync", "the addresses are not what the direction says");
  if ((target != Kind::device && memory.touches_device(to, bytes)) ||
      (source != Kind::device && memory.touches_device(from, bytes)))
    return refused(cudaErrorInvalidValue, "cudaMemcpyAsync", "a range goes beyond its allocation");
  if ((target == Kind::pinned && !memory.in_one_range(to, bytes)) ||
      (source == Kind::pinned && !memory.in_one_range(from, bytes)))
    return refused(cudaErrorInvalidValue, "cudaMemcpyAsync", "a range goes from one locked piece to the next");
  if (queue->capture && (source == Kind::pageable || target == Kind::pageable))
    return refused(cudaErrorStreamCaptureUnsupported, "cudaMemcpyAsync",
                   "pageable memory in a capture is not emulated");
  if (source == Kind::pageable && target == Kind::device) {
    const auto* begin = static_cast<const std::byte*>(from);
    Engine::get().enqueue(queue, [to, taken = std::vector<std::byte>(begin, begin + bytes)] {
      std::memcpy(to, taken.data(), taken.size());
      return Step::done;
    });
    return returned(cudaSuccess);
  }
  Engine::get().enqueue(queue, [to, from, bytes] {
    std::memmove(to, from, bytes);
    return Step::done;
  });
  if (target == Kind::pageable) Engine::get().wait_idle(queue);
  return returned(cudaSuccess);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t code = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return code == cudaSuccess ? cudaStreamSynchronize(nullptr) : code;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  if (bytes > 0 && Memory::get().kind_of(to, bytes) != Kind::device)
    return refused(cudaErrorInvalidValue, "cudaMemsetAsync", "the range is not memory of the GPU");
  Engine::get().enqueue(queue, [to, value, bytes] {
    std::memset(to, value, bytes);
    return Step::done;
  });
  return returned(cudaSuccess);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  const cudaError_t code = cudaMemsetAsync(to, value, bytes, nullptr);
  return code == cudaSuccess ? cudaStreamSynchronize(nullptr) : code;
}

}  // extern "C"
