#include "engine/sim/replay.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "engine/sim/repeats.h"

namespace mbench::sim {
namespace {

using Kind = ClockEvent::Kind;
constexpr double kNotYet = std::numeric_limits<double>::infinity();

// Meetings of a group, round after round: who comes first waits for the others.
struct Meetings {
  struct Round {
    int came = 0;
    double latest = -kNotYet;
  };
  std::vector<Round> rounds;
};

class Replay;

// One class of ranks.
struct Actor {
  Actor(const HostTimes& times, const StepTapes& tapes, const Schedule& schedule, int stage)
      : clock(times),
        tapes(tapes),
        schedule(schedule),
        stage(stage),
        rounds(tapes.groups.size(), 0),
        pendings(tapes.pendings),
        copies(tapes.copies, 0) {
    for (const TapeGroup& g : tapes.groups) clock.add_stream(g.name);
    // As run_point measures: every rank is ready before the sample begins, and it ends with the stream.
    lead_in.clock.push_back({Kind::synchronize});
    if (tapes.groups.front().size > 1) lead_in.clock.push_back({Kind::barrier});
    lead_in.clock.push_back({Kind::synchronize});
    lead_out.clock.push_back({Kind::synchronize});
  }

  VirtualClock clock;
  const StepTapes& tapes;
  const Schedule& schedule;
  int stage;
  std::vector<std::size_t> rounds;  // by group
  std::vector<Interval> pendings;
  std::vector<double> copies;  // when they end
  Tape lead_in, lead_out;

  const Tape* tape = nullptr;
  const Action* action = nullptr;
  std::size_t next_tape = 0, event = 0;
  bool met = false, done = false;  // met: has come to the meeting of this event
  double before = 0;               // the clock when this event began
  double start = 0;
  ReplayedTime time;

  // The tapes in their order; false after the last.
  bool turn() {
    const std::size_t n = schedule.size(), i = next_tape++;
    action = nullptr;
    event = 0;
    if (i == 0) return tape = &tapes.setup, true;
    if (i == 1) return tape = &lead_in, true;
    if (i == 2) {
      start = clock.now();
      time = {};
      clock.charge_to(&time.parts);
      return tape = &tapes.begin, true;
    }
    if (i < n + 3) {
      action = &schedule[i - 3];
      return tape = nullptr, true;
    }
    if (i == n + 3) return tape = &tapes.end, true;
    if (i == n + 4) return tape = &lead_out, true;
    time.step = clock.now() - start;
    return false;
  }
};

class Replay {
 public:
  Replay(const Plan& plan, const RankClasses& classes, const std::map<int, StepTapes>& tapes,
         const HostTimes& times, const Links* links)
      : plan_(plan),
        classes_(classes),
        links_(links),
        micro_batches_(static_cast<int>(plan.training.micro_batches)),
        stages_(plan.mesh.size(Axis::pp)),
        repeats_(times) {
    actors_.reserve(classes.classes.size());
    for (const RankClasses::Class& c : classes.classes)
      actors_.emplace_back(times, tapes.at(c.kind), plan.schedule[static_cast<std::size_t>(c.stage)],
                           c.stage);
    std::size_t chunks = 0;
    for (const auto& stage : plan.chunks) chunks += stage.size();
    for (auto* left : {&activation_left_, &gradient_left_})
      left->assign(chunks * static_cast<std::size_t>(micro_batches_), kNotYet);
  }

  std::vector<ReplayedTime> run() {
    std::size_t left = actors_.size();
    while (left > 0) {
      bool moved = false;
      for (Actor& a : actors_) {
        if (a.done) continue;
        moved = go(a) || moved;
        if (a.done) --left;
      }
      check(moved, "sim", "every stage waits for another");
    }
    std::vector<ReplayedTime> times;
    for (const Actor& a : actors_) times.push_back(a.time);
    return times;
  }

 private:
  // Until it waits or has ended; whether it got anywhere.
  bool go(Actor& a) {
    bool moved = false;
    for (;;) {
      if (!a.tape) {
        if (!a.turn()) {
          a.done = true;
          return true;
        }
        if (a.action) {
          a.tape = &a.tapes.of(*a.action, micro_batches_);
          if (again(a)) {
            a.tape = nullptr;
            moved = true;
            continue;
          }
        }
      }
      const std::vector<ClockEvent>& events = a.tape->clock;
      for (; a.event < events.size(); ++a.event, moved = true)
        if (!play(a, events[a.event])) return moved;
      a.tape = nullptr;
      moved = true;
    }
  }

  // An action that does what it did another time; false where it has to be played.
  bool again(Actor& a) {
    std::optional<Repeats::Known>* known = repeats_.of(*a.tape, a.tapes, a.clock);
    if (!known) return false;
    if (!*known) {
      const VirtualClock before = a.clock;
      const ReplayedTime spent = std::exchange(a.time, {});
      for (const ClockEvent& e : a.tape->clock) play(a, e);
      *known = {a.clock.since(before), std::exchange(a.time, spent)};
    } else {
      a.clock.repeat((*known)->move);
    }
    a.time += (*known)->time;
    return true;
  }

  // False where it must wait.
  bool play(Actor& a, const ClockEvent& e) {
    VirtualClock& clock = a.clock;
    switch (e.kind) {
      case Kind::kernel:
        clock.kernel(e.seconds, e.part, e.times > 0);
        a.time.matmul_flops += e.flops;
        a.time.launches += e.times;
        return true;
      case Kind::collective:
      case Kind::start:
        return collective(a, e);
      case Kind::wait: {
        const double before = clock.now();
        clock.wait_for(a.pendings[e.pending], e.part);
        a.time.communication += clock.now() - before;
        return true;
      }
      case Kind::send: {
        const double before = clock.now();
        clock.host(clock.times().message);
        left(a, true) = clock.now();
        if (clock.times().messages_block) clock.synchronize();
        a.time.communication += clock.now() - before;
        return true;
      }
      case Kind::receive: {
        const double left_at = left(a, false);
        if (left_at == kNotYet) return false;
        const double before = clock.now();
        clock.host(clock.times().message);
        clock.wait_until(left_at, TimePart::bubble);
        clock.wait_until(clock.now() + message(a, e.flops), e.part);
        if (clock.times().messages_block) clock.synchronize();
        a.time.bubble += clock.now() - before;
        return true;
      }
      case Kind::synchronize:
        clock.synchronize();
        return true;
      case Kind::barrier: {
        const double mine = a.met ? 0 : clock.synchronize();
        double latest = 0;
        if (!meet(a, e.group, mine, latest)) return false;
        clock.wait_until(latest, TimePart::communication_other);
        return true;
      }
      case Kind::copy:
        a.copies[e.pending] = clock.start_copy(static_cast<CopyWay>(e.group), e.seconds).end;
        return true;
      case Kind::copy_wait:
        clock.wait_until(a.copies[e.pending], e.part);
        return true;
      case Kind::copy_host_wait:
        clock.host_waits_until(a.copies[e.pending], e.part);
        return true;
      case Kind::host_kernel:
        clock.host_kernel(e.seconds, e.part);
        return true;
      case Kind::host_work:
        clock.host_work(e.work, static_cast<int>(e.times));
        return true;
    }
    return true;
  }

  bool collective(Actor& a, const ClockEvent& e) {
    VirtualClock& clock = a.clock;
    double ready = 0, begin = 0;
    const Interval* before = e.after == ClockEvent::kNone ? nullptr : &a.pendings[e.after];
    if (!a.met) {
      a.before = clock.now();
      // What makes progress in calls alone is waited for before another call begins.
      if (before && clock.times().progress_in_calls) clock.wait_for(*before, e.part);
      ready = clock.enqueue(e.group, e.times > 0);
      if (before && !clock.times().progress_in_calls) ready = std::max(ready, before->end);
    }
    if (!meet(a, e.group, ready, begin)) return false;
    const double end = clock.occupy(e.group, begin, e.seconds).end;
    const bool blocks = clock.times().tensor_collectives_block && a.tapes.groups[e.group].name == "tp";
    if (e.kind == Kind::start) a.pendings[e.pending] = {end - e.seconds, end};
    if (e.kind == Kind::start && !blocks) {
      if (e.slows) clock.overlap({before && !clock.times().progress_in_calls ? before->begin : end - e.seconds, end});
    } else {
      if (a.tapes.groups[e.group].classes.size() > 1) clock.wait_until(end - e.seconds, TimePart::bubble);
      clock.wait_until(end, e.part);
    }
    a.time.communication += clock.now() - a.before;
    return true;
  }

  // The latest time at which a member comes; false until all have come. `mine` counts when it comes first.
  bool meet(Actor& a, std::uint16_t group, double mine, double& latest) {
    const TapeGroup& g = a.tapes.groups[group];
    if (g.classes.size() == 1) {
      latest = mine;
      return true;
    }
    std::vector<Meetings::Round>& rounds = meetings_[g.name].rounds;
    const std::size_t round = a.rounds[group];
    if (rounds.size() <= round) rounds.resize(round + 1);
    if (!a.met) {
      a.met = true;
      ++rounds[round].came;
      rounds[round].latest = std::max(rounds[round].latest, mine);
    }
    if (rounds[round].came < static_cast<int>(g.classes.size())) return false;
    a.met = false;
    ++a.rounds[group];
    latest = rounds[round].latest;
    return true;
  }

  // When the message of this action left its sender: a chunk's input comes from the one before it, its output's
  // gradient from the one behind it.
  double& left(const Actor& a, bool sending) {
    const int position =
        plan_.chunks[static_cast<std::size_t>(a.stage)][static_cast<std::size_t>(a.action->chunk)].position;
    const bool activation =
        a.action->kind == Action::Kind::send_activation || a.action->kind == Action::Kind::receive_activation;
    const int to = !sending ? position : activation ? position + 1 : position - 1;
    return (activation ? activation_left_
                       : gradient_left_)[static_cast<std::size_t>(to * micro_batches_ + a.action->micro)];
  }

  double message(const Actor& a, double bytes) const {
    if (!links_) return 0;
    const int from = a.action->kind == Action::Kind::receive_activation ? (a.stage + stages_ - 1) % stages_
                                                                        : (a.stage + 1) % stages_;
    return links_->message(bytes, rank_of(from), rank_of(a.stage));
  }
  int rank_of(int stage) const { return classes_.classes[static_cast<std::size_t>(stage)].rank; }

  const Plan& plan_;
  const RankClasses& classes_;
  const Links* links_;
  int micro_batches_, stages_;
  Repeats repeats_;
  std::vector<Actor> actors_;
  std::vector<double> activation_left_, gradient_left_;  // [position, micro batch]
  std::map<std::string, Meetings> meetings_;
};

}  // namespace

std::vector<ReplayedTime> replay_time(const Plan& plan, const Recording& recording, const HostTimes& times,
                                      const Links* links) {
  return Replay(plan, recording.classes, recording.tapes, times, links).run();
}

double alone(const StepTapes& tapes, std::initializer_list<const Tape*> in_turn, const HostTimes& times) {
  constexpr double kAhead = 1e9;
  VirtualClock clock(times);
  for (const TapeGroup& g : tapes.groups) clock.add_stream(g.name);
  clock.host(-kAhead);
  std::vector<Interval> pendings(tapes.pendings);
  std::vector<double> copies(tapes.copies, 0);
  for (const Tape* tape : in_turn)
    for (const ClockEvent& e : tape->clock) switch (e.kind) {
        case Kind::kernel:
          clock.kernel(e.seconds, e.part);
          break;
        case Kind::collective:
        case Kind::start: {
          if (tapes.groups[e.group].classes.size() > 1) break;
          const Interval* before = e.after == ClockEvent::kNone ? nullptr : &pendings[e.after];
          if (before && times.progress_in_calls) {
            clock.wait_for(*before, e.part);
            before = nullptr;
          }
          const double begin = std::max(clock.enqueue(e.group, e.times > 0), before ? before->end : 0),
                       end = clock.occupy(e.group, begin, e.seconds).end;
          const bool blocks = times.tensor_collectives_block && tapes.groups[e.group].name == "tp";
          if (e.kind == Kind::start) pendings[e.pending] = {begin, end};
          if (e.kind != Kind::start || blocks)
            clock.wait_until(end, e.part);
          else if (e.slows)
            clock.overlap({before ? before->begin : begin, end});
          break;
        }
        case Kind::wait:
          clock.wait_for(pendings[e.pending], e.part);
          break;
        case Kind::synchronize:
          clock.synchronize();
          break;
        case Kind::copy:
          copies[e.pending] = clock.start_copy(static_cast<CopyWay>(e.group), e.seconds).end;
          break;
        case Kind::copy_wait:
          clock.wait_until(copies[e.pending], e.part);
          break;
        case Kind::copy_host_wait:
          clock.host_waits_until(copies[e.pending], e.part);
          break;
        case Kind::host_kernel:
          clock.host_kernel(e.seconds, e.part);
          break;
        default:
          break;
      }
  return clock.now();
}

}  // namespace mbench::sim
