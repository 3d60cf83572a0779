#include "engine/sim/recording_world.h"

#include <algorithm>

namespace mbench::sim {
namespace {

using Kind = ClockEvent::Kind;

class RecordedPending final : public Pending {
 public:
  RecordedPending(RecordedGroups& recorded, std::uint32_t number, TimePart part)
      : recorded_(recorded), number_(number), part_(part) {}
  void wait() override {
    ClockEvent event{Kind::wait, part_};
    event.pending = number_;
    recorded_.now->clock.push_back(event);
  }
  std::uint32_t number() const { return number_; }

 private:
  RecordedGroups& recorded_;
  std::uint32_t number_;
  TimePart part_;
};

class SentAlready final : public Pending {
 public:
  void wait() override {}
};

// A receive is one event: what overlaps with it is not known to recordings.
class RecordedReceive final : public Pending {
 public:
  explicit RecordedReceive(RecordedGroups& recorded)
      : recorded_(recorded), action_events_(recorded.now), events_(action_events_->clock.size()) {}
  void wait() override {
    if (recorded_.now != action_events_ || action_events_->clock.size() != events_) recorded_.unknown = true;
  }

 private:
  RecordedGroups& recorded_;
  const ActionEvents* action_events_;
  std::size_t events_;
};

class RecordingGroup final : public Group {
 public:
  RecordingGroup(Device& device, const GroupName& name, int rank, const std::vector<int>& members, const Links* links,
                 RecordedGroups& recorded, std::uint16_t number)
      : Group(device, name, rank, static_cast<int>(members.size())),
        links_(links),
        recorded_(recorded),
        number_(number) {
    if (links_) reach_ = links_->reach(members);
  }
  int ranks_on_node() const override { return links_ ? reach_.per_node : size(); }

 protected:
  void do_all_reduce(const Tensor& x, ReduceOp) override {
    add("all_reduce", Kind::collective, spent(Call::all_reduce, x));
  }
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor& x) override {
    return start("all_reduce", spent(Call::start_all_reduce, x));
  }
  std::unique_ptr<Pending> do_start_all_reduce_after(std::unique_ptr<Pending> before, const Tensor& x) override {
    const auto* first = dynamic_cast<const RecordedPending*>(&before->made());
    if (!first) return Group::do_start_all_reduce_after(std::move(before), x);
    auto pending = start("all_reduce", spent(Call::start_all_reduce, x));
    recorded_.now->clock.back().after = first->number();
    return pending;
  }
  void do_all_gather(const Tensor&, const Tensor& out) override {
    add("all_gather", Kind::collective, spent(Call::all_gather, out));
  }
  void do_reduce_scatter(const Tensor& in, const Tensor&) override {
    add("reduce_scatter", Kind::collective, spent(Call::reduce_scatter, in));
  }
  std::unique_ptr<Pending> do_start_all_gather(const Tensor&, const Tensor& out) override {
    return start("all_gather", spent(Call::all_gather, out));
  }
  std::unique_ptr<Pending> do_start_reduce_scatter(const Tensor& in, const Tensor&) override {
    return start("reduce_scatter", spent(Call::reduce_scatter, in));
  }
  void do_broadcast(const Tensor& x, int) override { add("broadcast", Kind::collective, spent(Call::broadcast, x)); }
  void do_reduce(const Tensor& x, int) override { add("reduce", Kind::collective, spent(Call::reduce, x)); }
  std::unique_ptr<Pending> do_start_broadcast(const Tensor& x, int) override {
    return start("broadcast", spent(Call::broadcast, x));
  }
  std::unique_ptr<Pending> do_start_reduce(const Tensor& x, int) override {
    return start("reduce", spent(Call::reduce, x));
  }
  std::unique_ptr<Pending> do_start_send(const Tensor&, int, int) override {
    add("send", Kind::send, 0);
    return std::make_unique<SentAlready>();
  }
  std::unique_ptr<Pending> do_start_receive(const Tensor& x, int, int) override {
    add("receive", Kind::receive, 0).flops = bytes(x);
    return std::make_unique<RecordedReceive>(recorded_);
  }
  void do_all_to_all(const Tensor& in, const Tensor&, const Rows& rows) override {
    add("all_to_all", Kind::collective, all_to_all(Call::all_to_all, in, rows));
  }
  std::unique_ptr<Pending> do_start_all_to_all(const Tensor& in, const Tensor&, const Rows& rows) override {
    return start("all_to_all", all_to_all(Call::start_all_to_all, in, rows));
  }
  void do_forwarded_all_to_all(const std::vector<Parcel>& parcels, const Rows& rows, std::int64_t node_rows) override {
    add("all_to_all", Kind::collective,
        links_ ? links_->forwarded(row_bytes_of(parcels), rows.send, rows.receive, node_rows, reach_) : 0);
  }
  std::unique_ptr<Pending> do_start_forwarded_all_to_all(const std::vector<Parcel>& parcels, const Rows& rows,
                                                         std::int64_t node_rows) override {
    return start("all_to_all",
                 links_ ? links_->forwarded(row_bytes_of(parcels), rows.send, rows.receive, node_rows, reach_) : 0);
  }
  // Within one call of the framework's, copy engines move it (Userbuffers' use_ce), beside which kernels are no slower.
  std::unique_ptr<Pending> do_start_shift(const Tensor& in, const Tensor&) override {
    auto pending = start("shift", spent(Call::shift, in));
    recorded_.now->clock.back().slows = !device().in_one_call();
    return pending;
  }
  void do_barrier() override { add("barrier", Kind::barrier, 0); }
  // Values of the host decide what is done, and here there are none.
  double do_host_max(double value) override {
    recorded_.unknown = true;
    return value;
  }
  std::vector<Bytes> do_host_gather(std::span<const std::byte> mine, int) override {
    recorded_.unknown = true;
    return std::vector<Bytes>(static_cast<std::size_t>(size()), Bytes(mine.begin(), mine.end()));
  }

 private:
  static double bytes(const Tensor& x) { return static_cast<double>(x.bytes()); }
  double spent(Call call, const Tensor& x) const {
    return links_ ? links_->seconds(call, bytes(x), x.dtype(), reach_) : 0;
  }
  double all_to_all(Call call, const Tensor& x, const Rows& rows) const {
    return links_ ? links_->all_to_all(call, row_bytes(x), rows.send, rows.receive, reach_) : 0;
  }
  ClockEvent& add(const char* what, Kind kind, double seconds) {
    ClockEvent event{kind, part(), number_};
    event.what = what;
    event.seconds = seconds;
    event.times = device().in_one_call() ? 0 : 1;
    return recorded_.now->clock.emplace_back(event);
  }
  std::unique_ptr<Pending> start(const char* what, double seconds) {
    add(what, Kind::start, seconds).pending = recorded_.pendings;
    return std::make_unique<RecordedPending>(recorded_, recorded_.pendings++, part());
  }

  const Links* links_;
  RecordedGroups& recorded_;
  std::uint16_t number_;
  Links::Reach reach_;
};

}  // namespace

std::unique_ptr<Group> RecordingWorld::group(Device& device, const GroupName& name, const std::vector<int>& members) {
  const int number = recorded_.made++;
  if (members.empty()) return nullptr;
  const auto me = std::find(members.begin(), members.end(), rank_);
  check(me != members.end(), "sim", "rank {} is not a member of group {}", rank_, name.text);
  RecordedGroup group{name.text, name.axes, number, static_cast<int>(members.size()), {}};
  for (const int m : members) {
    const int c = classes_.of_rank[static_cast<std::size_t>(m)];
    if (std::find(group.classes.rbegin(), group.classes.rend(), c) == group.classes.rend()) group.classes.push_back(c);
  }
  recorded_.groups.push_back(std::move(group));
  return std::make_unique<RecordingGroup>(device, name, static_cast<int>(me - members.begin()), members, links_,
                                          recorded_, static_cast<std::uint16_t>(recorded_.groups.size() - 1));
}

}  // namespace mbench::sim
