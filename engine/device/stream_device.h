// A device whose ops are enqueued on a stream and run later, as on a GPU: what a communicator needs of it to
// keep its messages in order with the ops. Handles are opaque here; the communicator knows their type.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/base/gemm_choice.h"
#include "engine/device/device.h"

namespace mbench {

class StreamDevice : public Device {
 public:
  using Device::Device;
  virtual void* stream() const = 0;  // the compute stream: a cudaStream_t
  // Two points of the compute stream: the time between them is added to that part of the meter's, to `sum` unless it is null (it
  // must outlive the next synchronize()), and to the trace, if one is being taken.
  virtual int begin_interval() = 0;
  virtual void end_interval(int interval, Track track, std::string name, TimePart part, double* sum) = 0;
  // `check` is called now and then while the host waits for the device, with the seconds it has waited so
  // far; it throws where there is nothing left to wait for. Empty: none.
  virtual void while_waiting(std::function<void(double)> check) = 0;
  // Is called when a recorded step has been enqueued again.
  virtual void after_replay(std::function<void()> call) = 0;
  // GEMMs of which the clock chose where the epilogue runs, in the order in which it did.
  virtual std::vector<GemmChoice> gemm_choices() const { return {}; }
};

}  // namespace mbench
