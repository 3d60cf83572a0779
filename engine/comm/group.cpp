#include "engine/comm/group.h"

#include <chrono>

namespace mbench {
namespace {

// Adds the host time between construction and destruction to one of the meter's clocks.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

class TimedPending final : public Pending {
 public:
  TimedPending(std::unique_ptr<Pending> inner, double& seconds)
      : inner_(std::move(inner)), seconds_(seconds) {}
  void wait() override {
    Stopwatch watch(seconds_);
    inner_->wait();
  }

 private:
  std::unique_ptr<Pending> inner_;
  double& seconds_;
};

class NothingPending final : public Pending {
 public:
  void wait() override {}
};

}  // namespace

void Group::all_reduce(const Tensor& x, ReduceOp op) {
  if (size_ == 1) return;
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(x.bytes());
  Stopwatch watch(meter.communication_seconds);
  do_all_reduce(x, op);
}

std::unique_ptr<Pending> Group::start_all_reduce(const Tensor& x) {
  if (size_ == 1) return std::make_unique<NothingPending>();
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(x.bytes());
  Stopwatch watch(meter.communication_seconds);
  return std::make_unique<TimedPending>(do_start_all_reduce(x), meter.communication_seconds);
}

void Group::all_gather(const Tensor& in, const Tensor& out) {
  check(out.numel() == in.numel() * size_ && out.dtype() == in.dtype(), name_ + " all_gather",
        "sizes, got {} -> {} over {} ranks", in.shape().str(), out.shape().str(), size_);
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(out.bytes());
  Stopwatch watch(meter.communication_seconds);
  do_all_gather(in, out);
}

void Group::reduce_scatter(const Tensor& in, const Tensor& out) {
  check(in.numel() == out.numel() * size_ && out.dtype() == in.dtype(), name_ + " reduce_scatter",
        "sizes, got {} -> {} over {} ranks", in.shape().str(), out.shape().str(), size_);
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(in.bytes());
  Stopwatch watch(meter.communication_seconds);
  do_reduce_scatter(in, out);
}

void Group::broadcast(const Tensor& x, int root) {
  if (size_ == 1) return;
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(x.bytes());
  Stopwatch watch(meter.communication_seconds);
  do_broadcast(x, root);
}

std::unique_ptr<Pending> Group::start_send(const Tensor& x, int to, int tag) {
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(x.bytes());
  Stopwatch watch(meter.communication_seconds);
  return std::make_unique<TimedPending>(do_start_send(x, to, tag), meter.bubble_seconds);
}

void Group::receive(const Tensor& x, int from, int tag) {
  Stopwatch watch(device_.meter().bubble_seconds);
  do_receive(x, from, tag);
}

void Group::barrier() {
  if (size_ > 1) do_barrier();
}

}  // namespace mbench
