#include "engine/comm/staged/staged_world.h"

#include <algorithm>

namespace mbench::comm {
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

// A collective of copies in host memory: what it brings is written to the device afterwards.
struct Staged {
  Collective host;
  struct Arrival {
    Tensor from, to;
  };
  std::vector<Arrival> arrivals;
};

// What arrives is written when it is waited for. The host's copies live as long.
class StagedPending final : public Pending {
 public:
  // The time of waiting is that part of a step, and goes to `seconds`.
  StagedPending(std::unique_ptr<Pending> inner, Staged staged, Device& device, TimePart part, double& seconds)
      : inner_(std::move(inner)), staged_(std::move(staged)), device_(device), part_(part), seconds_(seconds) {}
  void wait() override {
    if (!staged_->arrivals.empty()) settle(device_, part_, seconds_);
    inner_->wait();
    for (const auto& [from, to] : staged_->arrivals) device_.write(to, {from.data(), from.bytes()});
    staged_.reset();
  }

 private:
  std::unique_ptr<Pending> inner_;
  std::optional<Staged> staged_;
  Device& device_;
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
  void do_run(const Collective& c) override {
    if (std::holds_alternative<Receive>(c)) return do_start(c)->wait();
    const Staged staged = std::visit([this](const auto& each) { return stage(each); }, c);
    inner_->run(staged.host);
    for (const auto& [from, to] : staged.arrivals) device().write(to, {from.data(), from.bytes()});
  }
  std::unique_ptr<Pending> do_start(const Collective& c) override {
    Staged staged = std::visit([this](const auto& each) { return stage(each); }, c);
    auto inner = inner_->start(staged.host);
    const bool receives = std::holds_alternative<Receive>(c);
    Meter& meter = device().meter();
    return std::make_unique<StagedPending>(std::move(inner), std::move(staged), device(),
                                           receives ? TimePart::bubble : part(),
                                           receives ? meter.bubble_seconds : meter.communication_seconds);
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
  template <class C>
  Staged stage(const C& c) {
    C host = c;
    if constexpr (requires { c.parcels; }) {
      Staged staged;
      for (Parcel& p : host.parcels) staged.arrivals.push_back(stage_in_out(p));
      staged.host = std::move(host);
      return staged;
    } else if constexpr (requires { c.in; }) {
      const Staged::Arrival arrival = stage_in_out(host);
      return {std::move(host), {arrival}};
    } else if constexpr (std::is_same_v<C, Receive>) {
      host.x = room_for(c.x);
      return {host, {{host.x, c.x}}};
    } else {
      host.x = fetch(c.x);
      if (brings(c)) return {host, {{host.x, c.x}}};
      return {host, {}};
    }
  }
  template <class InOut>
  Staged::Arrival stage_in_out(InOut& c) {
    const Tensor to = c.out;
    c.in = fetch(c.in), c.out = room_for(to);
    return {c.out, to};
  }
  // Whether it writes the tensor that it reads here.
  bool brings(const AllReduce&) const { return true; }
  bool brings(const Broadcast& c) const { return rank() != c.root; }
  bool brings(const Reduce& c) const { return rank() == c.root; }
  bool brings(const Send&) const { return false; }

  Tensor room_for(const Tensor& x) {
    return host_device_.empty(x.shape(), x.dtype(), Category::other, "a message in host memory");
  }
  Tensor fetch(const Tensor& x) {
    const Tensor host = room_for(x);
    settle(device(), part(), device().meter().communication_seconds);
    device().read(x, {host.data(), host.bytes()});
    return host;
  }

  Device& host_device_;
  std::unique_ptr<Group> inner_;
};

}  // namespace

std::unique_ptr<Group> StagedWorld::group(Device& device, const GroupName& name, const std::vector<int>& members) {
  auto host = host_.group(host_device_, name, members);
  return host ? std::make_unique<StagedGroup>(device, host_device_, std::move(host)) : nullptr;
}

}  // namespace mbench::comm
