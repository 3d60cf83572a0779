#include "engine/platform/timed_device.h"

#include "engine/ops/ops.h"
#include "engine/ops/run.h"

namespace mbench::platform {
namespace {

class Clocked final : public TimedDevice {
 public:
  Clocked(Device& cpu, std::unique_ptr<RawMemory> memory)
      : TimedDevice(std::move(memory), 0), cpu_(cpu), table_(*this) {
    check(cpu.immediate(), "timed_device",
          "a device whose ops go on when their calls return, need one where they have ended");
  }
  OpTable& ops() override { return table_; }
  std::string name() const override { return cpu_.name(); }
  bool real() const override { return true; }
  void write(const Tensor& to, std::span<const std::byte> source) override { cpu_.write(to, source); }
  float read(const Tensor& scalar, float declared) override { return cpu_.read(scalar, declared); }
  void read(const Tensor& from, std::span<std::byte> to) override { cpu_.read(from, to); }
  double synchronize() override { return cpu_.synchronize(); }
  double now() const override { return cpu_.now(); }
  bool immediate() const override { return true; }
  const std::vector<TimedOp>& log() const override { return log_; }

 protected:
  void do_copy(const Tensor& from, const Tensor& to) override {
    const double begin = now();
    cpu_.copy(from, to);
    log_.push_back({ops::Copy::name, 2 * static_cast<double>(from.bytes()), now() - begin});
  }

 private:
  template <class Op>
  friend void compute(Clocked& device, const Op& op) {
    OpSlot<Op>& slot = slot_of<Op>(device.cpu_.ops());
    const double begin = device.now();
    slot.run(op);
    const double seconds = device.now() - begin;
    const Cost cost = op.cost();
    device.log_.push_back({Op::name, cost.matmul ? cost.flops : cost.bytes, seconds});
  }
  Device& cpu_;
  TableOf<Clocked> table_;
  std::vector<TimedOp> log_;
};

}  // namespace

std::unique_ptr<TimedDevice> TimedDevice::open(Device& cpu, std::unique_ptr<RawMemory> memory) {
  return std::make_unique<Clocked>(cpu, std::move(memory));
}

}  // namespace mbench::platform
