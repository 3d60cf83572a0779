// A GPU as a device: one compute stream, memory that grows in one range of addresses, copies through pinned
// buffers. What fails while kernels run is found at the next wait; the error names the op enqueued last.
#pragma once
#include <cuda_runtime_api.h>

#include "engine/backend/cuda/cuda.h"
#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/device/event_timer.h"
#include "engine/backend/cuda/device/staging.h"

namespace mbench::cuda {

// A stream that ends with its owner.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaDevice final : public StreamDevice {
 public:
  explicit CudaDevice(const DeviceOptions& options);
  ~CudaDevice() override;

  OpTable& ops() override { return table_; }
  std::string name() const override { return name_; }
  bool real() const override { return true; }
  void write(const Tensor& to, std::span<const std::byte> source) override;
  float read(const Tensor& scalar, float declared) override;
  void read(const Tensor& from, std::span<std::byte> to) override;
  // The stream's clock, by CUDA events: the difference of two calls is what the stream took between them.
  double synchronize() override;
  // The host's clock: a stream does not tell when it will be done. Spans of phases are thus when the host
  // enqueued them.
  double now() const override;
  bool immediate() const override { return false; }
  std::unique_ptr<Gauge> gauge() override { return options_.gauge ? options_.gauge() : nullptr; }

  void* stream() const override { return stream_.get(); }
  int begin_interval() override { return timer_.begin(); }
  void end_interval(int interval, Track track, std::string name, double& seconds) override {
    timer_.end(interval, track, std::move(name), &seconds);
  }
  void while_waiting(std::function<void(double)> check) override { check_ = std::move(check); }

  // As a backend of the table: its ops, remembered for errors and timed for a trace.
  template <class Op>
  friend void compute(CudaDevice& device, const Op& op) {
    device.last_op_ = Op::name;
    const int interval = device.timeline() ? device.timer_.begin() : -1;
    compute(device.ops_, op);
    if (interval >= 0) device.timer_.end(interval, Track::compute, std::string(Op::name), nullptr);
  }

 protected:
  void do_copy(const Tensor& from, const Tensor& to) override;

 private:
  void wait();  // until the stream is idle
  template <class Ask>
  void wait_until_ready(const Ask& ask);  // ask(): cudaErrorNotReady until what is waited for has come

  DeviceOptions options_;
  std::string name_;
  Stream stream_;
  Staging staging_;
  EventTimer timer_;
  CudaOps ops_;
  TableOf<CudaDevice> table_;
  std::string_view last_op_ = "start";
  std::function<void(double)> check_;
};

}  // namespace mbench::cuda
