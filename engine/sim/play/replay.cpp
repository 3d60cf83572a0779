#include "engine/sim/play/replay.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "engine/sim/play/player.h"
#include "engine/sim/recording/repeats.h"

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

// One class of ranks.
struct Actor {
  Actor(const HostTimes& times, const StepEvents& step_events, const Schedule& schedule, int stage)
      : player(step_events, times),
        step_events(step_events),
        schedule(schedule),
        stage(stage),
        rounds(step_events.groups.size(), 0) {
    // As run_point measures: every rank is ready before the sample begins, and it ends with the stream.
    lead_in.clock.push_back({Kind::synchronize});
    if (step_events.groups.front().size > 1) lead_in.clock.push_back({Kind::barrier});
    lead_in.clock.push_back({Kind::synchronize});
    lead_out.clock.push_back({Kind::synchronize});
  }

  Player player;
  const StepEvents& step_events;
  const Schedule& schedule;
  int stage;
  std::vector<std::size_t> rounds;  // by group
  ActionEvents lead_in, lead_out;

  const ActionEvents* action_events = nullptr;
  const Action* action = nullptr;
  std::size_t next_events = 0, event = 0;
  bool met = false, done = false;  // met: has come to the meeting of this event
  double before = 0;               // the clock when this event began
  double start = 0, action_start = 0;
  ReplayedTime time;
  Timeline* timeline = nullptr;  // where the sample's spans go
  const HostPauses* pauses = nullptr;

  double now() const { return player.clock().now(); }

  // The recordings in their order; false after the last.
  bool turn() {
    if (action && timeline) timeline->add(Track::phase, phase_name(*action), action_start, now());
    const std::size_t n = schedule.size(), i = next_events++;
    action = nullptr;
    event = 0;
    if (i == 0) return action_events = &step_events.setup, true;
    if (i == 1) return action_events = &lead_in, true;
    if (i == 2) {
      start = now();
      time = {};
      player.clock().charge_to(&time.parts);
      player.trace(timeline);
      time.add_sent(step_events.begin.sent);
      return action_events = &step_events.begin, true;
    }
    if (i < n + 3) {
      action = &schedule[i - 3];
      action_start = now();
      pause(i - 3);
      return action_events = nullptr, true;
    }
    if (i == n + 3) {
      pause(n);
      time.add_sent(step_events.deferred.sent);
      return action_events = &step_events.deferred, true;
    }
    if (i == n + 4) {
      time.add_sent(step_events.end.sent);
      return action_events = &step_events.end, true;
    }
    if (i == n + 5) return action_events = &lead_out, true;
    time.step = now() - start;
    return false;
  }

  // The device drains before the host pauses.
  void pause(std::size_t place) {
    if (!pauses) return;
    const auto found = pauses->find(place);
    if (found == pauses->end()) return;
    player.clock().synchronize();
    player.clock().host(found->second);
  }
};

class Replay {
 public:
  Replay(const Plan& plan, const RankClasses& classes, const std::map<int, StepEvents>& step_events,
         const HostTimes& times, const Links* links, std::vector<Timeline>* timelines,
         const std::vector<HostPauses>& pauses)
      : plan_(plan),
        classes_(classes),
        links_(links),
        micro_batches_(static_cast<int>(plan.training.micro_batches)),
        repeats_(times) {
    actors_.reserve(classes.classes.size());
    for (const RankClasses::Class& c : classes.classes)
      actors_.emplace_back(times, step_events.at(c.kind), plan.schedule[static_cast<std::size_t>(c.stage)], c.stage);
    if (timelines) {
      timelines->resize(actors_.size());
      for (std::size_t i = 0; i < actors_.size(); ++i) actors_[i].timeline = &(*timelines)[i];
    }
    for (std::size_t i = 0; i < pauses.size(); ++i) actors_[i].pauses = &pauses[i];
    std::size_t chunks = 0;
    for (const auto& stage : plan.chunks) chunks += stage.size();
    for (std::size_t position = 0; position < chunks; ++position)
      stage_at_.push_back(plan.stage_at(static_cast<int>(position)));
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
      if (!a.action_events) {
        if (!a.turn()) {
          a.done = true;
          return true;
        }
        if (a.action) {
          a.action_events = &a.step_events.of(*a.action, micro_batches_);
          a.time.add_sent(a.action_events->sent);
          if (again(a)) {
            a.action_events = nullptr;
            moved = true;
            continue;
          }
        }
      }
      const std::vector<ClockEvent>& events = a.action_events->clock;
      for (; a.event < events.size(); ++a.event, moved = true)
        if (!play(a, events[a.event])) return moved;
      a.action_events = nullptr;
      moved = true;
    }
  }

  // An action that does what it did another time; false where it has to be played.
  bool again(Actor& a) {
    if (a.timeline) return false;
    VirtualClock& clock = a.player.clock();
    std::optional<Repeats::Known>* known = repeats_.of(*a.action_events, a.step_events, clock);
    if (!known) return false;
    if (!*known) {
      const VirtualClock before = clock;
      const ReplayedTime spent = std::exchange(a.time, {});
      for (const ClockEvent& e : a.action_events->clock) play(a, e);
      *known = {clock.since(before), std::exchange(a.time, spent)};
    } else {
      clock.repeat((*known)->move);
    }
    a.time += (*known)->time;
    return true;
  }

  // False where it must wait.
  bool play(Actor& a, const ClockEvent& e) {
    const double before = a.now();
    switch (e.kind) {
      case Kind::kernel:
        a.time.matmul_flops += e.flops;
        a.time.launches += e.times;
        return a.player.play(e);
      case Kind::wait:
        a.player.play(e);
        a.time.communication += a.now() - before;
        return true;
      case Kind::collective:
      case Kind::start: {
        double begin = 0;
        if (!a.met) a.before = before;
        if (!meet(a, e.group, a.met ? 0 : a.player.enter(e), begin)) return false;
        a.player.run(e, begin);
        a.time.communication += a.now() - a.before;
        return true;
      }
      case Kind::send:
        left(a, true) = a.player.send();
        a.time.communication += a.now() - before;
        return true;
      case Kind::receive: {
        const double left_at = left(a, false);
        if (left_at == kNotYet) return false;
        a.player.receive(e, left_at, message(a, e.flops));
        a.time.bubble += a.now() - before;
        return true;
      }
      case Kind::barrier: {
        double latest = 0;
        if (!meet(a, e.group, a.met ? 0 : a.player.clock().synchronize(), latest)) return false;
        a.player.clock().wait_until(latest, TimePart::communication_other);
        return true;
      }
      default:
        return a.player.play(e);
    }
  }

  // The latest time at which a member comes; false until all have come. `mine` counts when it comes first.
  bool meet(Actor& a, std::uint16_t group, double mine, double& latest) {
    const RecordedGroup& g = a.step_events.groups[group];
    if (!g.meets()) {
      latest = mine;
      return true;
    }
    std::vector<Meetings::Round>& rounds = meetings_[g.number].rounds;
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
    const int position = position_of(a);
    const bool activation =
        a.action->kind == Action::Kind::send_activation || a.action->kind == Action::Kind::receive_activation;
    const int to = !sending ? position : activation ? position + 1 : position - 1;
    return (activation ? activation_left_
                       : gradient_left_)[static_cast<std::size_t>(to * micro_batches_ + a.action->micro)];
  }

  int position_of(const Actor& a) const {
    return plan_.chunks[static_cast<std::size_t>(a.stage)][static_cast<std::size_t>(a.action->chunk)].position;
  }

  double message(const Actor& a, double bytes) const {
    if (!links_) return 0;
    const int position = position_of(a),
              from = a.action->kind == Action::Kind::receive_activation ? position - 1 : position + 1;
    return links_->message(bytes, rank_of(stage_at_[static_cast<std::size_t>(from)]), rank_of(a.stage));
  }
  int rank_of(int stage) const { return classes_.classes[static_cast<std::size_t>(stage)].rank; }

  const Plan& plan_;
  const RankClasses& classes_;
  const Links* links_;
  int micro_batches_;
  std::vector<int> stage_at_;  // [position]
  Repeats repeats_;
  std::vector<Actor> actors_;
  std::vector<double> activation_left_, gradient_left_;  // [position, micro batch]
  std::map<int, Meetings> meetings_;                     // by the group's number
};

}  // namespace

std::vector<ReplayedTime> replay_time(const Plan& plan, const Recording& recording, const HostTimes& times,
                                      const Links* links, std::vector<Timeline>* timelines,
                                      const std::vector<HostPauses>& pauses) {
  return Replay(plan, recording.classes, recording.step_events, times, links, timelines, pauses).run();
}

double alone(const StepEvents& step_events, std::initializer_list<const ActionEvents*> in_turn,
             const HostTimes& times) {
  constexpr double kAhead = 1e9;
  Player player(step_events, times);
  player.clock().host(-kAhead);
  for (const ActionEvents* action_events : in_turn)
    for (const ClockEvent& e : action_events->clock) {
      const bool collective = e.kind == Kind::collective || e.kind == Kind::start;
      if (collective && !step_events.groups[e.group].meets())
        player.run(e, player.enter(e));
      else if (e.kind != Kind::host_work)
        player.play(e);
    }
  return player.clock().now();
}

}  // namespace mbench::sim
