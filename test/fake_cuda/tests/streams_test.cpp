// The fake GPU itself: it keeps CUDA's rules and nothing beyond them, and refuses what a real one refuses.
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "test/catch.h"
#include "test/fake_cuda/kernels.h"

namespace {

struct Stream {
  cudaStream_t get = nullptr;
  Stream() { REQUIRE(cudaStreamCreateWithFlags(&get, cudaStreamNonBlocking) == cudaSuccess); }
  ~Stream() { cudaStreamDestroy(get); }
};

template <class T>
struct OnGpu {
  T* at = nullptr;
  explicit OnGpu(std::size_t n) { REQUIRE(cudaMalloc(reinterpret_cast<void**>(&at), n * sizeof(T)) == cudaSuccess); }
  ~OnGpu() { cudaFree(at); }
};

template <class T>
struct Pinned {
  T* at = nullptr;
  explicit Pinned(std::size_t n) {
    REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&at), n * sizeof(T)) == cudaSuccess);
  }
  ~Pinned() { cudaFreeHost(at); }
};

inline void put_kernel(int* to, int value) {
  *to = value;
}

void put(int* to, int value, cudaStream_t stream) {
  fake_cuda::learn(put_kernel);
  void* arguments[] = {&to, &value};
  REQUIRE(cudaLaunchKernel(reinterpret_cast<const void*>(put_kernel), dim3(1), dim3(1), arguments, 0, stream) ==
          cudaSuccess);
}

int value_of(const int* at) {
  int value = 0;
  REQUIRE(cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess);
  return value;
}

}  // namespace

TEST_CASE("memory of a new allocation is NaN") {
  const OnGpu<float> x(1000);
  float host[1000] = {};
  REQUIRE(cudaMemcpy(host, x.at, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(std::isnan(host[0]));
  CHECK(std::isnan(host[999]));
}

TEST_CASE("a stream runs in order; streams without events run in any order, and in different ones") {
  const OnGpu<int> x(1);
  const Stream a, b;
  int first = 0, second = 0;
  for (int i = 0; i < 60; ++i) {
    put(x.at, 0, a.get);
    put(x.at, 1, a.get);
    put(x.at, 2, b.get);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const int last = value_of(x.at);
    CHECK(last != 0);
    first += last == 1, second += last == 2;
  }
  CHECK(first > 0);
  CHECK(second > 0);
}

TEST_CASE("an event orders streams") {
  const OnGpu<int> x(1);
  const Stream a, b;
  cudaEvent_t done = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&done, cudaEventDisableTiming) == cudaSuccess);
  for (int i = 0; i < 60; ++i) {
    put(x.at, 0, a.get);
    put(x.at, 1, a.get);
    REQUIRE(cudaEventRecord(done, a.get) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(b.get, done, 0) == cudaSuccess);
    put(x.at, 2, b.get);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(value_of(x.at) == 2);
  }
  CHECK(cudaEventDestroy(done) == cudaSuccess);
  CHECK(cudaEventRecord(done, a.get) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("an event recorded anew: each who waits, waits for the recording he saw") {
  const OnGpu<int> x(2);
  const Stream late, soon, after_late, after_soon;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  for (int i = 0; i < 60; ++i) {
    for (int k = 0; k < 20; ++k) put(x.at, k, late.get);
    REQUIRE(cudaEventRecord(event, late.get) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(after_late.get, event, 0) == cudaSuccess);
    put(x.at, 100, after_late.get);
    put(x.at + 1, 1, soon.get);
    REQUIRE(cudaEventRecord(event, soon.get) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(after_soon.get, event, 0) == cudaSuccess);
    put(x.at + 1, 2, after_soon.get);
    REQUIRE(cudaEventSynchronize(event) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaEventQuery(event) == cudaSuccess);
    CHECK(value_of(x.at) == 100);
    CHECK(value_of(x.at + 1) == 2);
  }
  cudaEventDestroy(event);
}

TEST_CASE("a pinned buffer is read when the stream comes to it, a pageable one at once") {
  const OnGpu<int> x(2);
  const Pinned<int> pinned(1);
  const Stream s, gate;
  int pageable = 1;
  *pinned.at = 1;
  // The stream is held up by one that waits for work given only after the buffers have changed.
  cudaEvent_t open = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&open, cudaEventDisableTiming) == cudaSuccess);
  for (int i = 0; i < 400; ++i) put(x.at, 0, gate.get);
  REQUIRE(cudaEventRecord(open, gate.get) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(s.get, open, 0) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(x.at, &pageable, sizeof(int), cudaMemcpyHostToDevice, s.get) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(x.at + 1, pinned.at, sizeof(int), cudaMemcpyHostToDevice, s.get) == cudaSuccess);
  pageable = 2;
  *pinned.at = 2;
  REQUIRE(cudaStreamSynchronize(s.get) == cudaSuccess);
  CHECK(value_of(x.at) == 1);
  CHECK(value_of(x.at + 1) == 2);
  cudaEventDestroy(open);
}

TEST_CASE("what a real GPU refuses is refused") {
  const OnGpu<int> x(4);
  const Stream s;
  int host = 0;
  CHECK(cudaMemcpyAsync(x.at, &host, 4, cudaMemcpyDeviceToHost, s.get) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(x.at, &host, 4, cudaMemcpyDeviceToDevice, s.get) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(x.at, x.at + 2, 20, cudaMemcpyDeviceToDevice, s.get) == cudaErrorInvalidValue);
  CHECK(cudaFree(x.at + 1) == cudaErrorInvalidValue);
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  void* at = nullptr;
  CHECK(cudaMalloc(&at, std::size_t{1} << 40) == cudaErrorMemoryAllocation);
  fake_cuda::learn(put_kernel);
  const auto* kernel = reinterpret_cast<const void*>(put_kernel);
  void* arguments[] = {&at, &host};
  CHECK(cudaLaunchKernel(kernel, dim3(0), dim3(1), arguments, 0, s.get) == cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(1025), arguments, 0, s.get) == cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(kernel, dim3(1, 65536), dim3(32), arguments, 0, s.get) == cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(32), arguments, 49153, s.get) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10) == cudaErrorInvalidValue);
  CHECK(cudaLaunchKernel(&host, dim3(1), dim3(1), arguments, 0, s.get) == cudaErrorInvalidDeviceFunction);
  cudaEvent_t never = nullptr;
  REQUIRE(cudaEventCreate(&never) == cudaSuccess);
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, never, never) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventQuery(never) == cudaSuccess);  // never recorded counts as passed
  cudaEventDestroy(never);
  cudaGetLastError();
  CHECK(cudaStreamSynchronize(s.get) == cudaSuccess);
}

namespace {

// What `work` enqueues on the stream and those that join it.
cudaGraph_t captured(cudaStream_t stream, const std::function<void()>& work, cudaError_t want = cudaSuccess) {
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  work();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == want);
  CHECK((graph != nullptr) == (want == cudaSuccess));
  return graph;
}

struct Event {
  cudaEvent_t get = nullptr;
  Event() { REQUIRE(cudaEventCreateWithFlags(&get, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { cudaEventDestroy(get); }
};

}  // namespace

TEST_CASE("what is captured is done at each launch, in the order that its events give, and not before") {
  const Stream stream, side;
  const OnGpu<int> a(1), b(1);
  const Event fork, join;
  put(a.at, 1, stream.get), put(b.at, 1, stream.get);
  REQUIRE(cudaStreamSynchronize(stream.get) == cudaSuccess);
  const cudaGraph_t graph = captured(stream.get, [&] {
    put(a.at, 7, stream.get);
    CHECK(cudaEventRecord(fork.get, stream.get) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(side.get, fork.get, 0) == cudaSuccess);
    CHECK(cudaMemcpyAsync(b.at, a.at, sizeof(int), cudaMemcpyDeviceToDevice, side.get) == cudaSuccess);
    CHECK(cudaEventRecord(join.get, side.get) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(stream.get, join.get, 0) == cudaSuccess);
    put(a.at, 8, stream.get);
  });
  REQUIRE(graph != nullptr);
  CHECK((value_of(a.at) == 1 && value_of(b.at) == 1));
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  for (int launch = 0; launch < 20; ++launch) {
    put(a.at, 2, stream.get), put(b.at, 2, stream.get);
    CHECK(cudaGraphLaunch(executable, stream.get) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream.get) == cudaSuccess);
    CHECK((value_of(a.at) == 8 && value_of(b.at) == 7));
  }
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaEventQuery(join.get) == cudaErrorCapturedEvent);
}

TEST_CASE("a capture is refused what would wait, what it does not hold, and an end that leaves work behind") {
  const Stream stream, side;
  const OnGpu<int> a(1);
  const Event outside, fork;
  REQUIRE(cudaEventRecord(outside.get, side.get) == cudaSuccess);
  captured(
      stream.get, [&] { CHECK(cudaEventQuery(outside.get) == cudaErrorStreamCaptureUnsupported); },
      cudaErrorStreamCaptureInvalidated);
  captured(
      stream.get,
      [&] {
        void* more = nullptr;
        CHECK(cudaMalloc(&more, 4) == cudaErrorStreamCaptureUnsupported);
      },
      cudaErrorStreamCaptureInvalidated);
  captured(
      stream.get, [&] { CHECK(cudaStreamSynchronize(side.get) == cudaErrorStreamCaptureUnsupported); },
      cudaErrorStreamCaptureInvalidated);
  const cudaGraph_t graph = captured(stream.get, [&] {
    CHECK(cudaStreamWaitEvent(stream.get, outside.get, 0) == cudaErrorStreamCaptureIsolation);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CHECK(cudaStreamIsCapturing(stream.get, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusActive);
    CHECK(cudaStreamIsCapturing(side.get, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusNone);
  });
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  captured(
      stream.get,
      [&] {
        CHECK(cudaEventRecord(fork.get, stream.get) == cudaSuccess);
        CHECK(cudaStreamWaitEvent(side.get, fork.get, 0) == cudaSuccess);
        put(a.at, 3, side.get);
      },
      cudaErrorStreamCaptureUnjoined);
  put(a.at, 4, side.get);  // the stream is free again
  REQUIRE(cudaStreamSynchronize(side.get) == cudaSuccess);
  CHECK(value_of(a.at) == 4);
}
