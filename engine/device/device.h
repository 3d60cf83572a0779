// What the engine runs on: one memory, one table of ops, one clock. Backends implement it; everything above
// sees only this. Ops are enqueued in host order on the device's compute stream; host code reads device
// values through read() alone, for which a simulated device has a declared answer.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "engine/device/meter.h"
#include "engine/device/tensor.h"

namespace mbench {

class OpTable;  // engine/ops/ops.h

class Device {
 public:
  Device(std::unique_ptr<RawMemory> raw, std::size_t memory_limit) : memory_(std::move(raw), memory_limit) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Allocator& memory() { return memory_; }
  Meter& meter() { return meter_; }
  Tensor empty(const Shape& shape, DType dtype, Category category, std::string_view what) {
    return Tensor(memory_, shape, dtype, category, what);
  }

  virtual OpTable& ops() = 0;
  virtual std::string name() const = 0;
  // Whether values exist at all; false on a simulated device.
  virtual bool real() const = 0;
  // Host to device. `source` holds exactly the tensor's bytes.
  virtual void write(const Tensor& to, std::span<const std::byte> source) = 0;
  // Device to host, after everything enqueued before it; where nothing is real, `declared` is the answer.
  virtual float read(const Tensor& scalar, float declared) = 0;
  virtual void read(const Tensor& from, std::span<std::byte> to) = 0;
  // Waits for everything enqueued; returns the device's time in seconds since an arbitrary start.
  virtual double synchronize() = 0;

 private:
  Allocator memory_;
  Meter meter_;
};

}  // namespace mbench
