// A device whose ops are enqueued on a stream and run later, as on a GPU. A communicator needs this to keep its
// messages in order with the ops. Handles are opaque here; the communicator knows their type.
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
  // Two points of the compute stream. The time between them is added to that part of the meter, and to the trace if one
  // is being taken. It is also added to `sum`, which may be null and must outlive the next synchronize().
  virtual int begin_interval() = 0;
  virtual void end_interval(int interval, Track track, std::string name, TimePart part, double* sum) = 0;
  // `check` is called now and then while the host waits for the device, with the seconds it has waited so far. It
  // throws where there is nothing left to wait for. Empty: none.
  virtual void while_waiting(std::function<void(double)> check) = 0;
  // `call` is called when a recorded step has been enqueued again.
  virtual void after_replay(std::function<void()> call) = 0;
  // GEMMs for which measured time chose where the epilogue runs, in the order of the choices.
  virtual std::vector<GemmChoice> gemm_choices() const { return {}; }
};

}  // namespace mbench
