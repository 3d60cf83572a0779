#include "engine/sim/device.h"

namespace mbench::sim {

SimDevice::SimDevice(std::size_t memory_limit)
    : Device(std::make_unique<CountedMemory>(), memory_limit), name_("counting device"), ops_(*this) {}

SimDevice::SimDevice(std::string name, std::size_t memory_limit, std::unique_ptr<CostModel> costs,
                     VirtualClock& clock)
    : Device(std::make_unique<CountedMemory>(), memory_limit),
      name_(std::move(name)),
      costs_(std::move(costs)),
      clock_(&clock),
      ops_(*this) {}

SimDevice::SimDevice(std::unique_ptr<CostModel> costs, Tape** tape)
    : Device(std::make_unique<CountedMemory>(), 0),
      name_("recording device"),
      costs_(std::move(costs)),
      tape_(tape),
      ops_(*this) {}

void SimDevice::record_kernel(double seconds, const Cost& cost) {
  ClockEvent event{ClockEvent::Kind::kernel};
  event.seconds = seconds;
  if (cost.matmul) event.flops = cost.flops - cost.epilogue;
  (*tape_)->clock.push_back(event);
}

double SimDevice::synchronize() {
  if (tape_) (*tape_)->clock.push_back({ClockEvent::Kind::synchronize});
  return clock_ ? clock_->synchronize() : 0;
}

// A copy from the host costs its call; the inputs of a step are small.
void SimDevice::write(const Tensor&, std::span<const std::byte>) {
  check(!tape_, "sim", "values written while a step is recorded");
  if (clock_) clock_->host(clock_->times().launch);
}

float SimDevice::read(const Tensor&, float declared) {
  synchronize();
  return declared;
}

void SimDevice::read(const Tensor&, std::span<std::byte>) {
  fail(ErrorKind::internal, "sim", "values read from a device that has none");
}

void SimDevice::host_work(HostWork work) {
  if (tape_) {
    constexpr ClockEvent::Kind kinds[] = {ClockEvent::Kind::micro_batch, ClockEvent::Kind::recompute,
                                          ClockEvent::Kind::step, ClockEvent::Kind::next_step};
    (*tape_)->clock.push_back({kinds[static_cast<int>(work)]});
  }
  if (!clock_) return;
  switch (work) {
    case HostWork::micro_batch:
      return clock_->micro_batch();
    case HostWork::recompute:
      return clock_->host(clock_->times().recompute);
    case HostWork::step:
      return clock_->begin_step();
    case HostWork::next_step:
      return clock_->wait_for_loader();
  }
}

}  // namespace mbench::sim
