#include "engine/sim/recording/recording_world.h"

#include <algorithm>

#include "engine/sim/play/ticks.h"

namespace mbench::sim {
namespace {

using Kind = ClockEvent::Kind;

class RecordedPending final : public comm::Pending {
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

class SentAlready final : public comm::Pending {
 public:
  void wait() override {}
};

// A receive is one event: nothing overlaps with it.
class RecordedReceive final : public comm::Pending {
 public:
  explicit RecordedReceive(RecordedGroups& recorded)
      : recorded_(recorded), action_events_(recorded.now), events_(action_events_->clock.size()) {}
  void wait() override {
    check(recorded_.now == action_events_ && action_events_->clock.size() == events_, "sim",
          "a message that arrives while something else is done, which no recording has an event for");
  }

 private:
  RecordedGroups& recorded_;
  const ActionEvents* action_events_;
  std::size_t events_;
};

class RecordingGroup final : public comm::Group {
 public:
  RecordingGroup(Device& device, const comm::GroupName& name, int rank, const std::vector<int>& members,
                 const Links* links, RecordedGroups& recorded, std::uint16_t number)
      : comm::Group(device, name, rank, static_cast<int>(members.size())),
        links_(links),
        recorded_(recorded),
        number_(number) {
    if (links_) reach_ = links_->reach(members, name.axes);
  }
  int ranks_on_node() const override { return links_ ? reach_.per_node : size(); }

 protected:
  void do_run(const comm::Collective& c) override {
    if (std::holds_alternative<comm::Send>(c)) {
      add(c, Kind::send, 0);
    } else if (const auto* message = std::get_if<comm::Receive>(&c)) {
      add(c, Kind::receive, 0).flops = static_cast<double>(message->x.bytes());
    } else {
      add(c, Kind::collective, seconds(c, false));
    }
  }
  std::unique_ptr<comm::Pending> do_start(const comm::Collective& c) override { return start(c, ClockEvent::kNone); }
  std::unique_ptr<comm::Pending> do_start_after(comm::Pending& before, const comm::Collective& c) override {
    const auto* first = dynamic_cast<const RecordedPending*>(&before.made());
    if (!first) return comm::Group::do_start_after(before, c);
    return start(c, first->number());
  }
  void do_barrier() override { add_event("barrier", Kind::barrier, 0); }
  // No step decides by values of other ranks' hosts what it does.
  double do_host_max(double) override { fail(ErrorKind::internal, "sim", "a step that asks other ranks' hosts"); }
  std::vector<Bytes> do_host_gather(std::span<const std::byte>, int) override {
    fail(ErrorKind::internal, "sim", "a step that asks other ranks' hosts");
  }

 private:
  double seconds(const comm::Collective& c, bool started) {
    return links_ ? whole_ticks(links_->seconds(c, started, size(), reach_) * device().rows_of_fullest()) : 0;
  }
  ClockEvent& add_event(const char* what, Kind kind, double seconds) {
    ClockEvent event{kind, part(), number_};
    event.what = what;
    event.seconds = seconds;
    event.times = device().in_one_call() ? 0 : 1;
    return recorded_.now->clock.emplace_back(event);
  }
  ClockEvent& add(const comm::Collective& c, Kind kind, double seconds) { return add_event(name_of(c), kind, seconds); }
  std::unique_ptr<comm::Pending> start(const comm::Collective& c, std::uint32_t after) {
    if (std::holds_alternative<comm::Send>(c) || std::holds_alternative<comm::Receive>(c)) {
      do_run(c);
      if (std::holds_alternative<comm::Send>(c)) return std::make_unique<SentAlready>();
      return std::make_unique<RecordedReceive>(recorded_);
    }
    ClockEvent& event = add(c, Kind::start, seconds(c, true));
    event.pending = recorded_.pendings;
    event.after = after;
    event.slows = Links::slows_kernels(c, device().in_one_call());
    return std::make_unique<RecordedPending>(recorded_, recorded_.pendings++, part());
  }

  const Links* links_;
  RecordedGroups& recorded_;
  std::uint16_t number_;
  Links::Reach reach_;
};

}  // namespace

std::unique_ptr<comm::Group> RecordingWorld::group(Device& device, const comm::GroupName& name,
                                                   const std::vector<int>& members) {
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
