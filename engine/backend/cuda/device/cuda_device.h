// A GPU as a device: one compute stream, memory that grows in one range of addresses, copies through pinned buffers. Offloaded data lie in
// page-locked memory and are copied on streams next to the compute stream. A failure of a running kernel is found at the next wait; the
// error names the op enqueued last.
#pragma once
#include <cuda_runtime_api.h>

#include "engine/backend/cuda/cuda.h"
#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/device/event_timer.h"
#include "engine/backend/cuda/device/host_copies.h"
#include "engine/backend/cuda/device/staging.h"
#include "engine/backend/cuda/device/stream.h"
#include "engine/ops/ops.h"

namespace mbench::cuda {

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
  // The stream's clock, by CUDA events: the difference of two calls is the stream's time between them.
  double synchronize() override;
  // The host's clock, since a stream does not report when it will be done. So spans of phases are the times at which the host enqueued
  // them.
  double now() const override;
  bool immediate() const override { return false; }
  bool multiplies_turned_fp8() const override { return turned_fp8_; }
  std::unique_ptr<Gauge> gauge() override { return options_.gauge ? options_.gauge() : nullptr; }

  // As a CUDA graph: `step` is captured from the stream, with all that waits for it or that it waits for, and launched. Streams must have
  // been used before: what a library makes at its first call is not made during capture.
  std::unique_ptr<RecordedStep> record(const std::function<void()>& step) override;

  void* stream() const override { return stream_.get(); }
  // The device's events cannot resolve the times inside a graph.
  int begin_interval() override { return capturing_ ? -1 : timer_.begin(); }
  void end_interval(int interval, Track track, std::string name, TimePart part, double* sum) override {
    if (interval >= 0) timer_.end(interval, track, std::move(name), {&at(meter().seconds, part), sum});
  }
  std::vector<GemmChoice> gemm_choices() const override;
  void after_replay(std::function<void()> call) override { after_replay_ = std::move(call); }
  void while_waiting(std::function<void(double)> check) override { check_ = std::move(check); }

  // The interface for the table of backends. It runs ops and remembers them for errors. It times them only while a trace is taken: two
  // events around each op are too many for a step that is a sample.
  template <class Op>
  friend void compute(CudaDevice& device, const Op& op) {
    device.last_op_ = Op::name;
    const int interval = device.timeline() ? device.begin_interval() : -1;
    compute(device.ops_, op);
    if (interval >= 0) device.end_interval(interval, Track::compute, std::string(Op::name), part_of<Op>(), nullptr);
  }

 protected:
  void do_copy(const Tensor& from, const Tensor& to) override;
  std::unique_ptr<Device> open_host() override;
  std::unique_ptr<HostCopy> do_start_copy(CopyWay way, const Tensor& from, const Tensor& to) override;

 private:
  class Captured;
  void need_no_capture(std::string_view call) const;
  void wait();  // until the stream is idle
  template <class Ask>
  void wait_until_ready(const Ask& ask);  // ask(): cudaErrorNotReady until the awaited event has come

  DeviceOptions options_;
  bool turned_fp8_;
  std::string name_;
  Stream stream_;
  Staging staging_;
  std::unique_ptr<HostCopies> host_copies_;  // once the host device is opened
  EventTimer timer_;
  CudaOps ops_;
  TableOf<CudaDevice> table_;
  std::string_view last_op_ = "start";
  std::function<void(double)> check_;
  std::function<void()> after_replay_;
  bool capturing_ = false;
};

}  // namespace mbench::cuda
