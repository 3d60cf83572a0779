// CUDA's runtime: errors, devices, streams and events.
#include <cstring>
#include <string>

#include "test/fake_cuda/capture.h"
#include "test/fake_cuda/handles.h"
#include "test/fake_cuda/memory.h"
#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device = 0;

constexpr struct {
  cudaError_t code;
  const char *name, *text;
} kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
};

}  // namespace

int current_device() {
  return device;
}

cudaError_t returned(cudaError_t code) {
  if (const cudaError_t fault = Engine::get().fault(); fault != cudaSuccess) code = fault;
  if (code != cudaSuccess) last_error = code;
  return code;
}

cudaError_t refused(cudaError_t code, std::string_view call, std::string_view why) {
  complain(call, why);
  return returned(code);
}

std::shared_ptr<Queue> queue_of(cudaStream_t stream) {
  static const auto& standard = *new std::shared_ptr<Queue>(Engine::get().new_queue());
  if (stream == nullptr) return standard;
  return Alive<CUstream_st>::get().has(stream) ? stream->queue : nullptr;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

const char* cudaGetErrorName(cudaError_t code) {
  for (const auto& e : kErrors)
    if (e.code == code) return e.name;
  return "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t code) {
  for (const auto& e : kErrors)
    if (e.code == code) return e.text;
  return "unknown error";
}
cudaError_t cudaPeekAtLastError() {
  return returned(last_error);
}
// A fault stays; any other error is forgotten once it has been told.
cudaError_t cudaGetLastError() {
  const cudaError_t code = returned(last_error);
  last_error = cudaSuccess;
  return code;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().count;
  return returned(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int d) {
  if (d < 0 || d >= settings().count) return returned(cudaErrorInvalidDevice);
  fake_cuda::device = d;
  return returned(cudaSuccess);
}
cudaError_t cudaGetDevice(int* d) {
  *d = fake_cuda::device;
  return returned(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int d) {
  if (d < 0 || d >= settings().count) return returned(cudaErrorInvalidDevice);
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "fake GPU (emulated)");
  std::memcpy(p->uuid.bytes, "fake GPU no.", 13);
  p->uuid.bytes[15] = static_cast<char>(d);
  p->totalGlobalMem = settings().memory;
  p->major = settings().capability / 10, p->minor = settings().capability % 10;
  p->multiProcessorCount = 4;
  p->pciBusID = 16 * (d + 1);
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->sharedMemPerBlock = std::size_t{48} << 10;
  p->sharedMemPerBlockOptin = std::size_t{227} << 10;
  return returned(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int d) {
  if (d < 0 || d >= settings().count) return returned(cudaErrorInvalidDevice);
  switch (what) {
    case cudaDevAttrMultiProcessorCount:
      *value = 4;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = settings().capability / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = settings().capability % 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      break;
    default:
      return refused(cudaErrorInvalidValue, "cudaDeviceGetAttribute", "this attribute is not emulated");
  }
  return returned(cudaSuccess);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return returned(cudaSuccess);
}
cudaError_t cudaDeviceSynchronize() {
  if (breaks_capture("cudaDeviceSynchronize")) return returned(cudaErrorStreamCaptureUnsupported);
  Engine::get().wait_all();
  return returned(cudaSuccess);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = settings().memory;
  *free = *total - std::min(*total, Memory::get().used());
  return returned(cudaSuccess);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (flags != cudaStreamNonBlocking)
    return refused(cudaErrorInvalidValue, "cudaStreamCreate", "streams that wait for the default one are not emulated");
  static_cast<void>(priority);  // any is taken, and clamped to the range
  *stream = Alive<CUstream_st>::get().add(new CUstream_st{Engine::get().new_queue(true), current_device()});
  return returned(cudaSuccess);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
// What it has under way is still done.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return returned(Alive<CUstream_st>::get().end(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (breaks_capture("cudaStreamQuery")) return returned(cudaErrorStreamCaptureUnsupported);
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  return returned(Engine::get().idle(queue) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (breaks_capture("cudaStreamSynchronize")) return returned(cudaErrorStreamCaptureUnsupported);
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  Engine::get().wait_idle(queue);
  return returned(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = Alive<CUevent_st>::get().add(new CUevent_st{nullptr, (flags & cudaEventDisableTiming) == 0});
  return returned(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return returned(Alive<CUevent_st>::get().end(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto queue = queue_of(stream);
  if (!queue || !Alive<CUevent_st>::get().has(event)) return returned(cudaErrorInvalidResourceHandle);
  event->last = std::make_shared<Recording>();
  if (queue->capture)
    queue->capture->record(queue, event->last);
  else
    record_event(queue, event->last);
  return returned(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const auto queue = queue_of(stream);
  if (!queue || !Alive<CUevent_st>::get().has(event)) return returned(cudaErrorInvalidResourceHandle);
  if (!event->last) return returned(cudaSuccess);
  const auto capture = event->last->capture;
  if (queue->capture && !capture)
    return refused(cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent", "an event from outside of the capture");
  if (capture && queue->capture && queue->capture != capture)
    return refused(cudaErrorStreamCaptureMerge, "cudaStreamWaitEvent", "an event of another capture");
  if (!capture) {
    wait_event(queue, event->last);
    return returned(cudaSuccess);
  }
  if (capture->ended())
    return refused(cudaErrorCapturedEvent, "cudaStreamWaitEvent", "an event of a capture that has ended");
  if (!queue->capture) capture->join(queue);
  capture->wait(queue, event->last);
  return returned(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (breaks_capture("cudaEventQuery")) return returned(cudaErrorStreamCaptureUnsupported);
  if (!Alive<CUevent_st>::get().has(event)) return returned(cudaErrorInvalidResourceHandle);
  if (event->last && event->last->capture)
    return refused(cudaErrorCapturedEvent, "cudaEventQuery", "the event passes in a graph");
  return returned(event->passed() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (breaks_capture("cudaEventSynchronize")) return returned(cudaErrorStreamCaptureUnsupported);
  if (!Alive<CUevent_st>::get().has(event)) return returned(cudaErrorInvalidResourceHandle);
  if (event->last && event->last->capture)
    return refused(cudaErrorCapturedEvent, "cudaEventSynchronize", "the event passes in a graph");
  if (const auto recording = event->last) Engine::get().wait_for(*recording);
  return returned(cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  for (const cudaEvent_t e : {from, to})
    if (!Alive<CUevent_st>::get().has(e) || !e->timed || !e->last)
      return refused(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime",
                     "an event that was never recorded, or does not tell the time");
  for (const cudaEvent_t e : {from, to})
    if (e->last->capture) return refused(cudaErrorCapturedEvent, "cudaEventElapsedTime", "the event passes in a graph");
  for (const cudaEvent_t e : {from, to})
    if (!e->passed()) return returned(cudaErrorNotReady);
  *ms = static_cast<float>((to->last->time - from->last->time) * 1e3);
  return returned(cudaSuccess);
}

}  // extern "C"
