#include "engine/comm/staged/staged_world.h"

#include <algorithm>

namespace mbench {
namespace {

// The time until the device has done what was enqueued before is not a message's: the front, which measures
// the whole call, is told so.
void settle(Device& device, TimePart part, double& seconds) {
  const double begin = device.now();
  device.synchronize();
  const double took = device.now() - begin;
  seconds -= took;
  at(device.meter().seconds, part) -= took;
}

// A message on its way that brings nothing: the host's copy lives as long.
class StagedSend final : public Pending {
 public:
  StagedSend(std::unique_ptr<Pending> inner, Tensor host) : inner_(std::move(inner)), host_(std::move(host)) {}
  void wait() override {
    inner_->wait();
    host_.reset();
  }

 private:
  std::unique_ptr<Pending> inner_;
  Tensor host_;
};

// What is written to the device when it is waited for.
class StagedArrival final : public Pending {
 public:
  // `sent` is what it was made from, if anything was. The wait's time is that part of a step, and goes to `seconds`.
  StagedArrival(std::unique_ptr<Pending> inner, Tensor sent, Tensor host, Device& device, Tensor to, TimePart part,
                double& seconds)
      : inner_(std::move(inner)),
        sent_(std::move(sent)),
        host_(std::move(host)),
        device_(device),
        to_(std::move(to)),
        part_(part),
        seconds_(seconds) {}
  void wait() override {
    settle(device_, part_, seconds_);
    inner_->wait();
    device_.write(to_, {host_.data(), host_.bytes()});
    for (Tensor* t : {&sent_, &host_, &to_}) t->reset();
  }

 private:
  std::unique_ptr<Pending> inner_;
  Tensor sent_, host_;
  Device& device_;
  Tensor to_;
  TimePart part_;
  double& seconds_;
};

class StagedGroup final : public Group {
 public:
  StagedGroup(Device& device, Device& host_device, std::unique_ptr<Group> inner)
      : Group(device, inner->named(), inner->rank(), inner->size()),
        host_device_(host_device),
        inner_(std::move(inner)) {}

 protected:
  bool device_waits() const override { return true; }
  void do_all_reduce(const Tensor& x, ReduceOp op) override {
    const Tensor host = fetch(x);
    inner_->all_reduce(host, op);
    bring(host, x);
  }
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) override {
    const Tensor host = fetch(x);
    return arrival(inner_->start_all_reduce(host), Tensor(), host, x, part(), device().meter().communication_seconds);
  }
  void do_all_gather(const Tensor& in, const Tensor& out) override {
    const Tensor host = fetch(in), all = room_for(out);
    inner_->all_gather(host, all);
    bring(all, out);
  }
  void do_reduce_scatter(const Tensor& in, const Tensor& out) override {
    const Tensor host = fetch(in), part = room_for(out);
    inner_->reduce_scatter(host, part);
    bring(part, out);
  }
  void do_all_to_all(const Tensor& in, const Tensor& out, const Rows& rows) override {
    const Tensor host = fetch(in), all = room_for(out);
    if (rows.equal)
      inner_->all_to_all(host, all);
    else
      inner_->all_to_all(host, all, rows.send, rows.receive);
    bring(all, out);
  }
  std::unique_ptr<Pending> do_start_all_to_all(const Tensor& in, const Tensor& out, const Rows& rows) override {
    const Tensor host = fetch(in), all = room_for(out);
    auto inner =
        rows.equal ? inner_->start_all_to_all(host, all) : inner_->start_all_to_all(host, all, rows.send, rows.receive);
    return arrival(std::move(inner), host, all, out, part(), device().meter().communication_seconds);
  }
  void do_broadcast(const Tensor& x, int root) override {
    const Tensor host = fetch(x);
    inner_->broadcast(host, root);
    if (rank() != root) bring(host, x);
  }
  void do_reduce(const Tensor& x, int root) override {
    const Tensor host = fetch(x);
    inner_->reduce(host, root);
    if (rank() == root) bring(host, x);
  }
  std::unique_ptr<Pending> do_start_send(const Tensor& x, int to, int tag) override {
    const Tensor host = fetch(x);
    auto inner = inner_->start_send(host, to, tag);
    return std::make_unique<StagedSend>(std::move(inner), host);
  }
  std::unique_ptr<Pending> do_start_receive(const Tensor& x, int from, int tag) override {
    const Tensor host = room_for(x);
    return arrival(inner_->start_receive(host, from, tag), Tensor(), host, x, TimePart::bubble,
                   device().meter().bubble_seconds);
  }
  void do_barrier() override {
    device().synchronize();
    inner_->barrier();
  }
  double do_host_max(double value) override { return inner_->host_max(value); }
  std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int to) override {
    return inner_->host_gather(mine, to);
  }

 private:
  std::unique_ptr<Pending> arrival(std::unique_ptr<Pending> inner, const Tensor& sent, const Tensor& host,
                                   const Tensor& to, TimePart part, double& seconds) {
    return std::make_unique<StagedArrival>(std::move(inner), sent, host, device(), to, part, seconds);
  }
  Tensor room_for(const Tensor& x) {
    return host_device_.empty(x.shape(), x.dtype(), Category::other, "a message in host memory");
  }
  Tensor fetch(const Tensor& x) {
    const Tensor host = room_for(x);
    settle(device(), part(), device().meter().communication_seconds);
    device().read(x, {host.data(), host.bytes()});
    return host;
  }
  void bring(const Tensor& host, const Tensor& to) { device().write(to, {host.data(), host.bytes()}); }

  Device& host_device_;
  std::unique_ptr<Group> inner_;
};

}  // namespace

std::unique_ptr<Group> StagedWorld::group(Device& device, const GroupName& name, const std::vector<int>& members) {
  auto host = host_.group(host_device_, name, members);
  return host ? std::make_unique<StagedGroup>(device, host_device_, std::move(host)) : nullptr;
}

}  // namespace mbench
