#include "engine/comm/group.h"

#include <fmt/format.h>

namespace mbench {
namespace {

// Adds the time between construction and destruction, on the device's clock, to one of the meter's, and to
// the trace if one is being taken.
class Stopwatch {
 public:
  Stopwatch(Device& device, double& seconds, const std::string& group, std::string_view what)
      : device_(device), seconds_(seconds), group_(group), what_(what), start_(device.now()) {}
  ~Stopwatch() {
    const double end = device_.now();
    seconds_ += end - start_;
    if (Timeline* t = device_.timeline(); t && device_.immediate())
      t->add(Track::communication, fmt::format("{} {}", what_, group_), start_, end);
  }

 private:
  Device& device_;
  double& seconds_;
  const std::string& group_;
  std::string_view what_;
  double start_;
};

class TimedPending final : public Pending {
 public:
  TimedPending(std::unique_ptr<Pending> inner, Device& device, double& seconds, const std::string& group,
               std::string_view what)
      : inner_(std::move(inner)), device_(device), seconds_(seconds), group_(group), what_(what) {}
  void wait() override {
    Stopwatch watch(device_, seconds_, group_, what_);
    inner_->wait();
  }

 private:
  std::unique_ptr<Pending> inner_;
  Device& device_;
  double& seconds_;
  const std::string& group_;
  std::string_view what_;
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
  Stopwatch watch(device_, meter.communication_seconds, name_, "all_reduce");
  do_all_reduce(x, op);
}

std::unique_ptr<Pending> Group::start_all_reduce(const Tensor& x) {
  if (size_ == 1) return std::make_unique<NothingPending>();
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(x.bytes());
  Stopwatch watch(device_, meter.communication_seconds, name_, "start all_reduce");
  return std::make_unique<TimedPending>(do_start_all_reduce(x), device_, meter.communication_seconds, name_,
                                        "wait all_reduce");
}

void Group::check_parts(std::string_view what, const Tensor& part, const Tensor& whole) const {
  if (whole.numel() == part.numel() * size_ && whole.dtype() == part.dtype()) return;
  fail(ErrorKind::internal, fmt::format("{} {}", name_, what), "sizes, got {} and {} over {} ranks",
       part.shape().str(), whole.shape().str(), size_);
}

void Group::all_gather(const Tensor& in, const Tensor& out) {
  check_parts("all_gather", in, out);
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(out.bytes());
  Stopwatch watch(device_, meter.communication_seconds, name_, "all_gather");
  do_all_gather(in, out);
}

std::unique_ptr<Pending> Group::start_all_gather(const Tensor& in, const Tensor& out) {
  check_parts("all_gather", in, out);
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(out.bytes());
  Stopwatch watch(device_, meter.communication_seconds, name_, "start all_gather");
  return std::make_unique<TimedPending>(do_start_all_gather(in, out), device_, meter.communication_seconds,
                                        name_, "wait all_gather");
}

void Group::reduce_scatter(const Tensor& in, const Tensor& out) {
  check_parts("reduce_scatter", out, in);
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(in.bytes());
  Stopwatch watch(device_, meter.communication_seconds, name_, "reduce_scatter");
  do_reduce_scatter(in, out);
}

std::unique_ptr<Pending> Group::start_reduce_scatter(const Tensor& in, const Tensor& out) {
  check_parts("reduce_scatter", out, in);
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(in.bytes());
  Stopwatch watch(device_, meter.communication_seconds, name_, "start reduce_scatter");
  return std::make_unique<TimedPending>(do_start_reduce_scatter(in, out), device_,
                                        meter.communication_seconds, name_, "wait reduce_scatter");
}

std::unique_ptr<Pending> Group::do_start_all_gather(const Tensor& in, const Tensor& out) {
  do_all_gather(in, out);
  return std::make_unique<NothingPending>();
}

std::unique_ptr<Pending> Group::do_start_reduce_scatter(const Tensor& in, const Tensor& out) {
  do_reduce_scatter(in, out);
  return std::make_unique<NothingPending>();
}

void Group::broadcast(const Tensor& x, int root) {
  if (size_ == 1) return;
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(x.bytes());
  Stopwatch watch(device_, meter.communication_seconds, name_, "broadcast");
  do_broadcast(x, root);
}

std::unique_ptr<Pending> Group::start_send(const Tensor& x, int to, int tag) {
  Meter& meter = device_.meter();
  meter.communication_bytes += static_cast<double>(x.bytes());
  Stopwatch watch(device_, meter.communication_seconds, name_, "start send");
  return std::make_unique<TimedPending>(do_start_send(x, to, tag), device_, meter.bubble_seconds, name_,
                                        "wait send");
}

void Group::receive(const Tensor& x, int from, int tag) {
  Stopwatch watch(device_, device_.meter().bubble_seconds, name_, "receive");
  do_receive(x, from, tag);
}

void Group::barrier() {
  if (size_ > 1) do_barrier();
}

}  // namespace mbench
