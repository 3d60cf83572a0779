#include "test/engine/sim/threaded/world.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace mbench {
namespace {

// A collective that the stream waits for when wait() is called.
class SimPending final : public comm::Pending {
 public:
  SimPending(sim::VirtualClock& clock, sim::TimeSpan span, TimePart part) : clock_(clock), span_(span), part_(part) {}
  void wait() override { clock_.wait_for(span_, part_); }
  const sim::TimeSpan& span() const { return span_; }

 private:
  sim::VirtualClock& clock_;
  sim::TimeSpan span_;
  TimePart part_;
};

// Collectives wait for the compute stream, and it for them unless they were only started.
class SimGroup final : public comm::Group {
 public:
  // `number`: among the groups of the world, the same on all ranks.
  SimGroup(Device& device, const comm::GroupName& name, int number, int rank, std::vector<int> members,
           SimNetwork& network, const sim::Links& links, sim::VirtualClock& clock)
      : comm::Group(device, name, rank, static_cast<int>(members.size())),
        number_(number),
        members_(std::move(members)),
        network_(network),
        links_(links),
        clock_(clock),
        stream_(clock.add_stream(name.text)),
        reach_(links.reach(members_, name.axes)) {
    for (const int m : members_)
      if (const int s = network_.stage_of(m); stages_.empty() || stages_.back() != s) stages_.push_back(s);
  }
  int ranks_on_node() const override { return reach_.per_node; }

 protected:
  void do_run(const comm::Collective& c) override {
    if (const auto* message = std::get_if<comm::Send>(&c)) return send(*message);
    if (const auto* message = std::get_if<comm::Receive>(&c)) return receive_now(*message);
    meet(c, call(seconds(c, false)));
  }
  std::unique_ptr<comm::Pending> do_start(const comm::Collective& c) override {
    if (std::holds_alternative<comm::Send>(c)) return comm::Group::do_start(c);
    if (const auto* message = std::get_if<comm::Receive>(&c)) return receive(*message);
    return started(c, nullptr);
  }
  std::unique_ptr<comm::Pending> do_start_after(comm::Pending& before, const comm::Collective& c) override {
    const auto* first = dynamic_cast<const SimPending*>(&before.made());
    if (!first) return comm::Group::do_start_after(before, c);
    return started(c, &first->span());
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
  class SimReceive final : public comm::Pending {
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
      box.left[box.taken] = network_.receive(number_, stage(from), stage(rank()), tag);
    const double time = box.left.at(number);
    box.left.erase(number);
    return time;
  }

  // A message leaves when the sender's stream has got there, and moves when the receiver's has too.
  void send(const comm::Send& message) {
    clock_.host(clock_.times().message);
    network_.send(number_, stage(rank()), stage(message.to), message.tag, clock_.now());
    if (clock_.times().messages_block) clock_.synchronize();
  }
  double seconds_of(const comm::Receive& message) const {
    return links_.message(static_cast<double>(message.x.bytes()), members_[message.from], members_[rank()]);
  }
  std::unique_ptr<comm::Pending> receive(const comm::Receive& message) {
    clock_.host(clock_.times().message);
    return std::make_unique<SimReceive>(*this, message.from, message.tag, boxes_[{message.from, message.tag}].started++,
                                        clock_.now(), seconds_of(message));
  }
  void receive_now(const comm::Receive& message) {
    clock_.host(clock_.times().message);
    const double at = left(message.from, message.tag, boxes_[{message.from, message.tag}].started++);
    const sim::TimeSpan span = clock_.receive(at, seconds_of(message), part());
    trace("receive", span.begin, span.end);
  }

  // Of an all-to-all, stages may exchange parts of different sizes: the slowest counts.
  double seconds(const comm::Collective& c, bool started) {
    const double own = sim::whole_ticks(links_.seconds(c, started, size(), reach_) * device().rows_of_fullest());
    const bool differs =
        std::holds_alternative<comm::AllToAll>(c) || std::holds_alternative<comm::ForwardedAllToAll>(c);
    return differs ? do_host_max(own) : own;
  }

  int stage(int member) const { return network_.stage_of(members_[member]); }

  // All stages' values; nobody waits where all members are peers of this stage.
  std::vector<Bytes> gather(std::span<const std::byte> mine) {
    Bytes values(mine.begin(), mine.end());
    if (stages_.size() == 1) return {std::move(values)};
    return network_.meet(number_, stages_, stage(rank()), std::move(values));
  }

  void wait_for(double time) { clock_.wait_until(time, part()); }

  sim::CollectiveCall call(double seconds) {
    sim::CollectiveCall c{stream_, seconds, part()};
    c.over_tp = axes() == Axes{Axis::tp};
    c.called = !device().in_one_call();
    c.meets = stages_.size() > 1;
    return c;
  }
  // All members have to get there.
  sim::TimeSpan meet(const comm::Collective& c, const sim::CollectiveCall& call) {
    const sim::TimeSpan span = clock_.run(call, do_host_max(clock_.enter(call)));
    trace(name_of(c), span.begin, span.end);
    return span;
  }
  std::unique_ptr<comm::Pending> started(const comm::Collective& c, const sim::TimeSpan* behind) {
    sim::CollectiveCall start = call(seconds(c, true));
    start.started = true, start.behind = behind;
    start.slows = sim::Links::slows_kernels(c, device().in_one_call());
    return std::make_unique<SimPending>(clock_, meet(c, start), part());
  }

  void trace(std::string_view what, double begin, double end) {
    if (Timeline* t = device().timeline())
      t->add(clock_.track(stream_), fmt::format("{} {}", what, name()), begin, end);
  }

  int number_;
  std::vector<int> members_;
  SimNetwork& network_;
  const sim::Links& links_;
  sim::VirtualClock& clock_;
  int stream_;
  sim::Links::Reach reach_;
  std::vector<int> stages_;                   // of the members, in order
  std::map<std::pair<int, int>, Box> boxes_;  // by sender and tag
};

}  // namespace

std::unique_ptr<comm::Group> SimWorld::group(Device& device, const comm::GroupName& name,
                                             const std::vector<int>& members) {
  const int number = made_++;
  if (members.empty()) return nullptr;
  const auto me = std::find(members.begin(), members.end(), rank_);
  check(me != members.end(), "sim", "rank {} is not a member of group {}", rank_, name.text);
  const int rank = static_cast<int>(me - members.begin());
  return std::make_unique<SimGroup>(device, name, number, rank, members, network_, links_, clock_);
}

}  // namespace mbench
