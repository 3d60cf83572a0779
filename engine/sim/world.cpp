#include "engine/sim/world.h"

#include <algorithm>

namespace mbench {
namespace {

class DonePending final : public Pending {
 public:
  void wait() override {}
};

// Counts alone.
class LoneGroup final : public Group {
 public:
  using Group::Group;
  double host_max(double value) override { return value; }
  std::vector<double> host_gather(const std::vector<double>& values) override {
    std::vector<double> all;
    for (int i = 0; i < size(); ++i) all.insert(all.end(), values.begin(), values.end());
    return all;
  }

 protected:
  void do_all_reduce(const Tensor&, ReduceOp) override {}
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor&) override {
    return std::make_unique<DonePending>();
  }
  void do_all_gather(const Tensor&, const Tensor&) override {}
  void do_reduce_scatter(const Tensor&, const Tensor&) override {}
  void do_broadcast(const Tensor&, int) override {}
  std::unique_ptr<Pending> do_start_send(const Tensor&, int, int) override {
    return std::make_unique<DonePending>();
  }
  void do_receive(const Tensor&, int, int) override {}
  void do_barrier() override {}
};

// A collective that the stream waits for when wait() is called.
class SimPending final : public Pending {
 public:
  SimPending(VirtualClock& clock, double end) : clock_(clock), end_(end) {}
  void wait() override { clock_.wait_until(end_); }

 private:
  VirtualClock& clock_;
  double end_;
};

// A group has a stream of its own, as communicators of NCCL do; collectives wait for the compute stream, and
// it for them unless they were only started.
class SimGroup final : public Group {
 public:
  SimGroup(Device& device, const std::string& name, int rank, std::vector<int> members, SimNetwork& network,
           const Links& links, VirtualClock& clock)
      : Group(device, name, rank, static_cast<int>(members.size())),
        members_(std::move(members)),
        network_(network),
        links_(links),
        clock_(clock),
        reach_(links.reach(members_)) {
    for (const int m : members_)
      if (const int s = network_.stage_of(m); stages_.empty() || stages_.back() != s) stages_.push_back(s);
  }

  double host_max(double value) override {
    double largest = value;
    for (const auto& v : exchange({value})) largest = std::max(largest, v[0]);
    return largest;
  }
  std::vector<double> host_gather(const std::vector<double>& values) override {
    const auto by_stage = exchange(values);
    std::vector<double> all;
    for (const int m : members_) {
      const auto stage = std::find(stages_.begin(), stages_.end(), network_.stage_of(m)) - stages_.begin();
      const auto& part = by_stage[static_cast<std::size_t>(stage)];
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 protected:
  void do_all_reduce(const Tensor& x, ReduceOp) override {
    clock_.wait_until(collective("all_reduce", links_.all_reduce(bytes(x), reach_)));
  }
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) override {
    return started("all_reduce", links_.all_reduce(bytes(x), reach_));
  }
  void do_all_gather(const Tensor&, const Tensor& out) override {
    clock_.wait_until(collective("all_gather", links_.all_gather(bytes(out), reach_)));
  }
  void do_reduce_scatter(const Tensor& in, const Tensor&) override {
    clock_.wait_until(collective("reduce_scatter", links_.all_gather(bytes(in), reach_)));
  }
  std::unique_ptr<Pending> do_start_all_gather(const Tensor&, const Tensor& out) override {
    return started("all_gather", links_.all_gather(bytes(out), reach_));
  }
  std::unique_ptr<Pending> do_start_reduce_scatter(const Tensor& in, const Tensor&) override {
    return started("reduce_scatter", links_.all_gather(bytes(in), reach_));
  }
  void do_broadcast(const Tensor& x, int) override {
    clock_.wait_until(collective("broadcast", links_.broadcast(bytes(x), reach_)));
  }

  // A message leaves when the sender's stream has got there, and moves when the receiver's has too.
  std::unique_ptr<Pending> do_start_send(const Tensor&, int to, int tag) override {
    clock_.host(clock_.times().message);
    network_.send(name(), stage(rank()), stage(to), tag, clock_.now());
    if (clock_.times().messages_block) clock_.synchronize();
    return std::make_unique<DonePending>();
  }
  void do_receive(const Tensor& x, int from, int tag) override {
    clock_.host(clock_.times().message);
    const double left = network_.receive(name(), stage(from), stage(rank()), tag);
    const double begin = std::max(left, clock_.now());
    const double end = begin + links_.message(bytes(x), members_[from], members_[rank()]);
    clock_.wait_until(end);
    if (clock_.times().messages_block) clock_.synchronize();
    trace("receive", begin, end);
  }
  void do_barrier() override { clock_.wait_until(host_max(clock_.synchronize())); }

 private:
  static double bytes(const Tensor& x) { return static_cast<double>(x.bytes()); }
  int stage(int member) const { return network_.stage_of(members_[member]); }

  // All stages' values; nobody waits where all members are peers of this stage.
  std::vector<std::vector<double>> exchange(std::vector<double> values) {
    if (stages_.size() == 1) return {std::move(values)};
    return network_.meet(name(), stages_, stage(rank()), std::move(values));
  }

  // Enqueues a collective and returns when it ends: all members have got there, and the group's stream is
  // free.
  double collective(std::string_view what, double seconds) {
    clock_.host(clock_.times().collective);
    const double begin = host_max(std::max(clock_.now(), stream_));
    stream_ = begin + seconds;
    trace(what, begin, stream_);
    return stream_;
  }

  // A collective that the stream does not wait for yet.
  std::unique_ptr<Pending> started(std::string_view what, double seconds) {
    const double end = collective(what, seconds);
    clock_.overlap({end - seconds, end});
    return std::make_unique<SimPending>(clock_, end);
  }

  void trace(std::string_view what, double begin, double end) {
    if (Timeline* t = device().timeline())
      t->add(Track::communication, fmt::format("{} {}", what, name()), begin, end);
  }

  std::vector<int> members_;
  SimNetwork& network_;
  const Links& links_;
  VirtualClock& clock_;
  Links::Reach reach_;
  std::vector<int> stages_;  // of the members, in order
  double stream_ = 0;
};

}  // namespace

std::unique_ptr<Group> SimWorld::group(Device& device, const std::string& name,
                                       const std::vector<int>& members) {
  if (members.empty()) return nullptr;
  const auto me = std::find(members.begin(), members.end(), rank_);
  check(me != members.end(), "sim", "rank {} is not a member of group {}", rank_, name);
  const int rank = static_cast<int>(me - members.begin());
  if (!network_) return std::make_unique<LoneGroup>(device, name, rank, static_cast<int>(members.size()));
  return std::make_unique<SimGroup>(device, name, rank, members, *network_, *links_, *clock_);
}

}  // namespace mbench
