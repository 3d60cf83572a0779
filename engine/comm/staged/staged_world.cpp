#include "engine/comm/staged/staged_world.h"

#include <algorithm>

namespace mbench {
namespace {

// A message on its way; what it brings, if anything, is written to the device when it is waited for.
class StagedPending final : public Pending {
 public:
  StagedPending(std::unique_ptr<Pending> inner, Tensor host, Device* device, Tensor to)
      : inner_(std::move(inner)), host_(std::move(host)), device_(device), to_(std::move(to)) {}
  void wait() override {
    inner_->wait();
    if (device_) device_->write(to_, {host_.data(), host_.bytes()});
    host_.reset();
    to_.reset();
  }

 private:
  std::unique_ptr<Pending> inner_;
  Tensor host_;
  Device* device_;  // null: nothing is brought
  Tensor to_;
};

class StagedGroup final : public Group {
 public:
  StagedGroup(Device& device, Device& host_device, std::unique_ptr<Group> inner)
      : Group(device, inner->name(), inner->rank(), inner->size()),
        host_device_(host_device),
        inner_(std::move(inner)) {}

  double host_max(double value) override { return inner_->host_max(value); }
  std::vector<double> host_gather(const std::vector<double>& values) override {
    return inner_->host_gather(values);
  }

 protected:
  void do_all_reduce(const Tensor& x, ReduceOp op) override {
    const Tensor host = fetch(x);
    inner_->all_reduce(host, op);
    bring(host, x);
  }
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) override {
    const Tensor host = fetch(x);
    auto inner = inner_->start_all_reduce(host);
    return std::make_unique<StagedPending>(std::move(inner), host, &device(), x);
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
  void do_broadcast(const Tensor& x, int root) override {
    const Tensor host = fetch(x);
    inner_->broadcast(host, root);
    if (rank() != root) bring(host, x);
  }
  std::unique_ptr<Pending> do_start_send(const Tensor& x, int to, int tag) override {
    const Tensor host = fetch(x);
    auto inner = inner_->start_send(host, to, tag);
    return std::make_unique<StagedPending>(std::move(inner), host, nullptr, Tensor());
  }
  void do_receive(const Tensor& x, int from, int tag) override {
    const Tensor host = room_for(x);
    settle(device().meter().bubble_seconds);
    inner_->receive(host, from, tag);
    bring(host, x);
  }
  void do_barrier() override {
    device().synchronize();
    inner_->barrier();
  }

 private:
  // The time until the device has done what was enqueued before is not the message's: the front, which
  // measures the whole call, is told so.
  void settle(double& seconds) {
    const double begin = device().now();
    device().synchronize();
    seconds -= device().now() - begin;
  }
  Tensor room_for(const Tensor& x) {
    return host_device_.empty(x.shape(), x.dtype(), Category::other, "a message in host memory");
  }
  Tensor fetch(const Tensor& x) {
    const Tensor host = room_for(x);
    settle(device().meter().communication_seconds);
    device().read(x, {host.data(), host.bytes()});
    return host;
  }
  void bring(const Tensor& host, const Tensor& to) { device().write(to, {host.data(), host.bytes()}); }

  Device& host_device_;
  std::unique_ptr<Group> inner_;
};

}  // namespace

std::unique_ptr<Group> StagedWorld::group(Device& device, const std::string& name,
                                          const std::vector<int>& members) {
  auto host = host_.group(host_device_, name, members);
  return host ? std::make_unique<StagedGroup>(device, host_device_, std::move(host)) : nullptr;
}

}  // namespace mbench
