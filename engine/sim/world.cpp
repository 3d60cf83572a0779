#include "engine/sim/world.h"

#include <algorithm>
#include <cstring>
#include <map>

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

 protected:
  void do_all_reduce(const Tensor&, ReduceOp) override {}
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor&) override { return std::make_unique<DonePending>(); }
  void do_all_gather(const Tensor&, const Tensor&) override {}
  void do_reduce_scatter(const Tensor&, const Tensor&) override {}
  void do_all_to_all(const Tensor&, const Tensor&, const Rows&) override {}
  std::unique_ptr<Pending> do_start_all_to_all(const Tensor&, const Tensor&, const Rows&) override {
    return std::make_unique<DonePending>();
  }
  void do_broadcast(const Tensor&, int) override {}
  void do_reduce(const Tensor&, int) override {}
  std::unique_ptr<Pending> do_start_send(const Tensor&, int, int) override { return std::make_unique<DonePending>(); }
  std::unique_ptr<Pending> do_start_receive(const Tensor&, int, int) override {
    return std::make_unique<DonePending>();
  }
  void do_barrier() override {}
  double do_host_max(double value) override { return value; }
  std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int) override {
    return std::vector<Bytes>(static_cast<std::size_t>(size()), Bytes(mine.begin(), mine.end()));
  }
};

// A collective that the stream waits for when wait() is called.
class SimPending final : public Pending {
 public:
  SimPending(VirtualClock& clock, Interval span, TimePart part) : clock_(clock), span_(span), part_(part) {}
  void wait() override { clock_.wait_for(span_, part_); }
  const Interval& span() const { return span_; }

 private:
  VirtualClock& clock_;
  Interval span_;
  TimePart part_;
};

// Collectives wait for the compute stream, and it for them unless they were only started.
class SimGroup final : public Group {
 public:
  SimGroup(Device& device, const GroupName& name, int rank, std::vector<int> members, SimNetwork& network,
           const Links& links, VirtualClock& clock)
      : Group(device, name, rank, static_cast<int>(members.size())),
        members_(std::move(members)),
        network_(network),
        links_(links),
        clock_(clock),
        stream_(clock.add_stream(name.text)),
        reach_(links.reach(members_)) {
    for (const int m : members_)
      if (const int s = network_.stage_of(m); stages_.empty() || stages_.back() != s) stages_.push_back(s);
  }
  int ranks_on_node() const override { return reach_.per_node; }

 protected:
  void do_all_reduce(const Tensor& x, ReduceOp) override { blocking("all_reduce", spent(sim::Call::all_reduce, x)); }
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) override {
    return started("all_reduce", spent(sim::Call::start_all_reduce, x));
  }
  std::unique_ptr<Pending> do_start_all_reduce_after(std::unique_ptr<Pending> before, const Tensor& x) override {
    const auto* first = dynamic_cast<const SimPending*>(&before->made());
    if (!first) return Group::do_start_all_reduce_after(std::move(before), x);
    return started("all_reduce", spent(sim::Call::start_all_reduce, x), &first->span());
  }
  void do_all_gather(const Tensor&, const Tensor& out) override {
    blocking("all_gather", spent(sim::Call::all_gather, out));
  }
  void do_reduce_scatter(const Tensor& in, const Tensor&) override {
    blocking("reduce_scatter", spent(sim::Call::reduce_scatter, in));
  }
  std::unique_ptr<Pending> do_start_all_gather(const Tensor&, const Tensor& out) override {
    return started("all_gather", spent(sim::Call::all_gather, out));
  }
  std::unique_ptr<Pending> do_start_reduce_scatter(const Tensor& in, const Tensor&) override {
    return started("reduce_scatter", spent(sim::Call::reduce_scatter, in));
  }
  void do_all_to_all(const Tensor& in, const Tensor&, const Rows& rows) override {
    blocking("all_to_all", slowest(exchange_seconds(sim::Call::all_to_all, in, rows)));
  }
  std::unique_ptr<Pending> do_start_all_to_all(const Tensor& in, const Tensor&, const Rows& rows) override {
    return started("all_to_all", slowest(exchange_seconds(sim::Call::start_all_to_all, in, rows)));
  }
  void do_forwarded_all_to_all(const std::vector<Parcel>& parcels, const Rows& rows, std::int64_t node_rows) override {
    blocking("all_to_all",
             slowest(links_.forwarded(row_bytes_of(parcels), rows.send, rows.receive, node_rows, reach_)));
  }
  std::unique_ptr<Pending> do_start_forwarded_all_to_all(const std::vector<Parcel>& parcels, const Rows& rows,
                                                         std::int64_t node_rows) override {
    return started("all_to_all",
                   slowest(links_.forwarded(row_bytes_of(parcels), rows.send, rows.receive, node_rows, reach_)));
  }
  // As RecordingGroup's.
  std::unique_ptr<Pending> do_start_shift(const Tensor& in, const Tensor&) override {
    return started("shift", spent(sim::Call::shift, in), nullptr, !device().in_one_call());
  }
  void do_broadcast(const Tensor& x, int) override { blocking("broadcast", spent(sim::Call::broadcast, x)); }
  void do_reduce(const Tensor& x, int) override { blocking("reduce", spent(sim::Call::reduce, x)); }
  std::unique_ptr<Pending> do_start_broadcast(const Tensor& x, int) override {
    return started("broadcast", spent(sim::Call::broadcast, x));
  }
  std::unique_ptr<Pending> do_start_reduce(const Tensor& x, int) override {
    return started("reduce", spent(sim::Call::reduce, x));
  }

  // A message leaves when the sender's stream has got there, and moves when the receiver's has too.
  std::unique_ptr<Pending> do_start_send(const Tensor&, int to, int tag) override {
    clock_.host(clock_.times().message);
    network_.send(name(), stage(rank()), stage(to), tag, clock_.now());
    if (clock_.times().messages_block) clock_.synchronize();
    return std::make_unique<DonePending>();
  }
  std::unique_ptr<Pending> do_start_receive(const Tensor& x, int from, int tag) override {
    clock_.host(clock_.times().message);
    return std::make_unique<SimReceive>(*this, from, tag, boxes_[{from, tag}].started++, clock_.now(),
                                        links_.message(bytes(x), members_[from], members_[rank()]));
  }
  void do_barrier() override { wait_for(do_host_max(clock_.synchronize())); }

  double do_host_max(double value) override {
    double largest = value;
    for (const auto& v : gather(std::as_bytes(std::span(&value, 1)))) {
      double theirs = 0;
      std::memcpy(&theirs, v.data(), sizeof theirs);
      largest = std::max(largest, theirs);
    }
    return largest;
  }
  std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int) override {
    const auto by_stage = gather(mine);
    std::vector<Bytes> all;
    for (const int m : members_) {
      const auto stage = std::find(stages_.begin(), stages_.end(), network_.stage_of(m)) - stages_.begin();
      all.push_back(by_stage[static_cast<std::size_t>(stage)]);
    }
    return all;
  }

 private:
  // Messages of a sender and a tag: those that receives were started for, and when those taken so far had
  // left. Receives may be waited for in another order than they were started in.
  struct Box {
    std::uint64_t started = 0, taken = 0;
    std::map<std::uint64_t, double> left;
  };

  // A message moves when it has left and its receive was started, whichever is later; the wait ends when it
  // has arrived.
  class SimReceive final : public Pending {
   public:
    SimReceive(SimGroup& group, int from, int tag, std::uint64_t number, double begin, double seconds)
        : group_(group), from_(from), tag_(tag), number_(number), begin_(begin), seconds_(seconds) {}
    void wait() override {
      const double left = group_.left(from_, tag_, number_);
      const double begin = std::max(begin_, left), end = begin + seconds_;
      group_.clock_.wait_until(left, TimePart::bubble);
      group_.wait_for(end);
      if (group_.clock_.times().messages_block) group_.clock_.synchronize();
      group_.trace("receive", begin, end);
    }

   private:
    SimGroup& group_;
    int from_, tag_;
    std::uint64_t number_;
    double begin_, seconds_;
  };

  // When the message of that number left its sender.
  double left(int from, int tag, std::uint64_t number) {
    Box& box = boxes_[{from, tag}];
    for (; box.taken <= number; ++box.taken)
      box.left[box.taken] = network_.receive(name(), stage(from), stage(rank()), tag);
    const double time = box.left.at(number);
    box.left.erase(number);
    return time;
  }

  double spent(sim::Call call, const Tensor& x) const { return links_.seconds(call, bytes(x), x.dtype(), reach_); }
  double exchange_seconds(sim::Call call, const Tensor& in, const Rows& rows) const {
    return links_.all_to_all(call, row_bytes(in), rows.send, rows.receive, reach_);
  }
  // Stages may exchange parts of different sizes.
  double slowest(double seconds) { return do_host_max(seconds); }

  static double bytes(const Tensor& x) { return static_cast<double>(x.bytes()); }
  int stage(int member) const { return network_.stage_of(members_[member]); }

  // All stages' values; nobody waits where all members are peers of this stage.
  std::vector<Bytes> gather(std::span<const std::byte> mine) {
    Bytes values(mine.begin(), mine.end());
    if (stages_.size() == 1) return {std::move(values)};
    return network_.meet(name(), stages_, stage(rank()), std::move(values));
  }

  void wait_for(double time) { clock_.wait_until(time, part()); }

  CollectiveCall call(double seconds) {
    CollectiveCall c{stream_, seconds, part()};
    c.over_tp = axes() == Axes{Axis::tp};
    c.called = !device().in_one_call();
    c.meets = stages_.size() > 1;
    return c;
  }
  // All members have to get there.
  Interval run(std::string_view what, const CollectiveCall& call) {
    const Interval span = clock_.run(call, do_host_max(clock_.enter(call)));
    trace(what, span.begin, span.end);
    return span;
  }
  void blocking(std::string_view what, double seconds) { run(what, call(seconds)); }
  std::unique_ptr<Pending> started(std::string_view what, double seconds, const Interval* behind = nullptr,
                                   bool slows = true) {
    CollectiveCall c = call(seconds);
    c.started = true, c.slows = slows, c.behind = behind;
    return std::make_unique<SimPending>(clock_, run(what, c), part());
  }

  void trace(std::string_view what, double begin, double end) {
    if (Timeline* t = device().timeline())
      t->add(clock_.track(stream_), fmt::format("{} {}", what, name()), begin, end);
  }

  std::vector<int> members_;
  SimNetwork& network_;
  const Links& links_;
  VirtualClock& clock_;
  int stream_;
  Links::Reach reach_;
  std::vector<int> stages_;                   // of the members, in order
  std::map<std::pair<int, int>, Box> boxes_;  // by sender and tag
};

}  // namespace

std::unique_ptr<Group> SimWorld::group(Device& device, const GroupName& name, const std::vector<int>& members) {
  if (members.empty()) return nullptr;
  const auto me = std::find(members.begin(), members.end(), rank_);
  check(me != members.end(), "sim", "rank {} is not a member of group {}", rank_, name.text);
  const int rank = static_cast<int>(me - members.begin());
  if (!network_) return std::make_unique<LoneGroup>(device, name, rank, static_cast<int>(members.size()));
  return std::make_unique<SimGroup>(device, name, rank, members, *network_, *links_, *clock_);
}

}  // namespace mbench
