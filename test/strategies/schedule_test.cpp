// Pipeline schedules, proved by running all stages of each against the rule of engine/plan/schedule.h with
// the strictest messages there are: a send is complete only when its receive is reached. What runs under
// these runs under any MPI, however little it buffers.
#include "strategies/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "test/catch.h"

using namespace mbench;
using Kind = Action::Kind;

namespace {

struct Pipeline {
  ScheduleKind kind;
  int stages, chunks, micro_batches, group;
  std::vector<Schedule> schedule;  // by stage

  Pipeline(ScheduleKind kind, int stages, int chunks, int micro_batches, int group = 0)
      : kind(kind), stages(stages), chunks(chunks), micro_batches(micro_batches), group(group > 0 ? group : stages) {
    schedule = strategies::make_schedules(kind, stages, chunks, micro_batches, group);
  }
  int position(int stage, const Action& a) const { return strategies::position_of(kind, stages, stage, a.chunk); }
  int stage_at(int position) const {
    for (int s = 0; s < stages; ++s)
      for (int c = 0; c < chunks; ++c)
        if (strategies::position_of(kind, stages, s, c) == position) return s;
    return -1;
  }
  // Whether a micro batch goes from that place to the next by a message.
  bool leaves(int position) const {
    const int next = stage_at(position + 1);
    return next >= 0 && next != stage_at(position);
  }
  bool comes(int position) const { return position > 0 && leaves(position - 1); }
  std::string str() const {
    return fmt::format("{}, {} stages, {} chunks, {} micro batches, groups of {}", name_of(kind), stages, chunks,
                       micro_batches, group);
  }
};

std::vector<Pipeline> all_pipelines() {
  std::vector<Pipeline> all;
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (int p = 1; p <= 8; ++p)
      for (int m = 1; m <= 16; ++m) all.emplace_back(kind, p, 1, m);
  for (int p = 2; p <= 8; ++p)
    for (int v = 2; v <= 4; ++v)
      for (int m = p; m <= 4 * p; m += p) all.emplace_back(ScheduleKind::interleaved, p, v, m);
  // Every size of groups that can be, with a last one that is not full too.
  for (int p = 2; p <= 6; ++p)
    for (int v = 2; v <= 4; ++v)
      for (int m = p; m <= 5 * p; ++m)
        for (int g = p; g <= m; ++g)
          if (m % g == 0 || m % g >= p) all.emplace_back(ScheduleKind::interleaved, p, v, m, g);
  for (int p = 2; p <= 9; ++p)
    for (int m = 1; m <= 3 * p; ++m) {
      all.emplace_back(ScheduleKind::zb_h1, p, 1, m);
      for (const ScheduleKind kind : {ScheduleKind::zbv, ScheduleKind::v_half, ScheduleKind::v_min})
        all.emplace_back(kind, p, 2, m);
      if (m >= 2 * p) all.emplace_back(ScheduleKind::dualpipev, p, 2, m);
    }
  return all;
}

bool is_send(Kind k) {
  return k == Kind::send_activation || k == Kind::send_gradient;
}
bool is_receive(Kind k) {
  return k == Kind::receive_activation || k == Kind::receive_gradient;
}

// One message: what it carries names it. An activation is named by the chunk that takes it in, a gradient by
// the chunk whose output it belongs to.
struct Message {
  int from, to, position, micro;
  bool gradient;
  auto operator<=>(const Message&) const = default;
};

// The message of an action of `stage`: sent up to the next position or down to the one before.
Message message_of(const Pipeline& p, int stage, const Action& a) {
  const int at = p.position(stage, a), up = p.stage_at(at + 1), down = p.stage_at(at - 1);
  switch (a.kind) {
    case Kind::send_activation:
      return {stage, up, at + 1, a.micro, false};
    case Kind::receive_activation:
      return {down, stage, at, a.micro, false};
    case Kind::send_gradient:
      return {stage, down, at - 1, a.micro, true};
    default:
      return {up, stage, at, a.micro, true};
  }
}

// Runs all stages; the place where they wait for each other, or nothing when all are done. Whether an action
// may go on never becomes false again, so the order in which stages are looked at does not matter.
std::optional<std::string> deadlock(const Pipeline& p) {
  std::vector<std::size_t> next(static_cast<std::size_t>(p.stages), 0);
  std::set<Message> started, received;
  std::map<std::tuple<int, int, bool>, Message> last_send;  // by sender, receiver and kind
  const auto advance = [&](int stage) {
    const Schedule& actions = p.schedule[stage];
    if (next[stage] == actions.size()) return false;
    const Action& a = actions[next[stage]];
    if (is_send(a.kind)) {
      const Message m = message_of(p, stage, a);
      const auto key = std::make_tuple(m.from, m.to, m.gradient);
      const auto previous = last_send.find(key);
      if (previous != last_send.end() && !received.count(previous->second)) return false;
      last_send.insert_or_assign(key, m);
      started.insert(m);
    } else if (is_receive(a.kind)) {
      const Message m = message_of(p, stage, a);
      if (!started.count(m)) return false;
      received.insert(m);
    }
    ++next[stage];
    return true;
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (int s = 0; s < p.stages; ++s)
      while (advance(s)) moved = true;
  }
  for (int s = 0; s < p.stages; ++s) {
    if (next[s] == p.schedule[s].size()) continue;
    const Action& a = p.schedule[s][next[s]];
    return fmt::format("stage {} waits in {} of chunk {}, micro batch {}", s, name_of(a.kind), a.chunk, a.micro);
  }
  if (started != received) return "a message that nobody receives";
  return std::nullopt;
}

// Steps until all is done, where a forward of a chunk takes 1/chunks, a backward twice that and messages nothing. A backward
// that is split takes as long as a forward, and so do the gradients of weights.
double makespan(const Pipeline& p) {
  std::map<std::tuple<int, int, bool>, double> done;  // by position, micro batch, backward
  std::vector<std::size_t> next(static_cast<std::size_t>(p.stages), 0);
  std::vector<double> clock(static_cast<std::size_t>(p.stages), 0);
  const int last = p.stages * p.chunks - 1;
  bool moved = true;
  while (moved) {
    moved = false;
    for (int s = 0; s < p.stages; ++s) {
      for (; next[s] < p.schedule[s].size(); ++next[s], moved = true) {
        const Action& a = p.schedule[s][next[s]];
        const double one = 1.0 / p.chunks;
        if (a.kind == Kind::weight_gradient) clock[s] += one;
        if (a.kind != Kind::forward && a.kind != Kind::backward) continue;
        const bool back = a.kind == Kind::backward;
        const int at = p.position(s, a);
        double ready = 0;
        if (back ? at < last : at > 0) {
          const auto it = done.find({back ? at + 1 : at - 1, a.micro, back});
          if (it == done.end()) break;
          ready = it->second;
        }
        clock[s] = std::max(clock[s], ready) + (back && !splits_backward(p.kind) ? 2 * one : one);
        done[{at, a.micro, back}] = clock[s];
      }
    }
  }
  return *std::max_element(clock.begin(), clock.end());
}

}  // namespace

TEST_CASE("no schedule deadlocks, though every send waits for its receive") {
  for (const Pipeline& p : all_pipelines()) {
    INFO(p.str());
    const auto stuck = deadlock(p);
    CHECK(stuck.value_or("") == "");
  }
}

TEST_CASE("the simulation finds a deadlock where there is one") {
  // The last stage sends gradients in the wrong order.
  Pipeline wrong(ScheduleKind::gpipe, 2, 1, 2);
  Schedule& last = wrong.schedule[1];
  const auto position = [&](const Action& a) { return std::find(last.begin(), last.end(), a); };
  REQUIRE(!deadlock(wrong));
  std::iter_swap(position({Kind::send_gradient, 0, 0}), position({Kind::send_gradient, 0, 1}));
  CHECK(deadlock(wrong));
  // A receive left out: the second send behind it never ends.
  Pipeline missing(ScheduleKind::gpipe, 2, 1, 2);
  std::erase(missing.schedule[1], Action{Kind::receive_activation, 0, 0});
  CHECK(deadlock(missing));
}

TEST_CASE("every chunk sees every micro batch once forward and once backward, in that order") {
  for (const Pipeline& p : all_pipelines()) {
    INFO(p.str());
    for (int s = 0; s < p.stages; ++s) {
      std::map<std::pair<int, int>, int> seen;  // 1 after the forward, 2 after the backward
      std::vector<int> last_micro(static_cast<std::size_t>(p.chunks), -1);
      bool in_order = true;
      for (const Action& a : p.schedule[s]) {
        int& state = seen[{a.chunk, a.micro}];
        if (a.kind == Kind::forward) in_order = in_order && state++ == 0;
        if (a.kind == Kind::backward) in_order = in_order && state++ == 1;
        // Gradients add up in the order of the micro batches whatever the schedule, so that sums are the same
        // bits.
        if (a.kind == Kind::backward) in_order = in_order && a.micro == ++last_micro[a.chunk];
      }
      CHECK(in_order);
      CHECK(static_cast<int>(seen.size()) == p.chunks * p.micro_batches);
      CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& entry) { return entry.second == 2; }));
    }
  }
}

TEST_CASE("an input arrives before its forward, an output leaves after it, and messages have two ends") {
  for (const Pipeline& p : all_pipelines()) {
    INFO(p.str());
    const int last = p.stages * p.chunks - 1;
    int links = 0;  // between places on different stages
    for (int at = 0; at < last; ++at) links += p.leaves(at) ? 1 : 0;
    std::map<Message, std::pair<int, int>> ends;  // sends, receives
    bool placed = true;
    for (int s = 0; s < p.stages; ++s) {
      std::map<std::tuple<Kind, int, int>, std::size_t> when;
      for (std::size_t i = 0; i < p.schedule[s].size(); ++i) {
        const Action& a = p.schedule[s][i];
        placed = placed && when.emplace(std::make_tuple(a.kind, a.chunk, a.micro), i).second;
        if (is_send(a.kind)) ++ends[message_of(p, s, a)].first;
        if (is_receive(a.kind)) ++ends[message_of(p, s, a)].second;
      }
      for (const Action& a : p.schedule[s]) {
        const int at = p.position(s, a);
        const auto check_order = [&](Kind before, Kind after, bool exists) {
          const auto x = when.find({before, a.chunk, a.micro}), y = when.find({after, a.chunk, a.micro});
          const bool both = x != when.end() && y != when.end();
          placed = placed && both == exists && (!both || x->second < y->second);
        };
        if (a.kind == Kind::forward) {
          check_order(Kind::receive_activation, Kind::forward, p.comes(at));
          check_order(Kind::forward, Kind::send_activation, p.leaves(at));
        }
        if (a.kind == Kind::backward) {
          check_order(Kind::receive_gradient, Kind::backward, p.leaves(at));
          check_order(Kind::backward, Kind::send_gradient, p.comes(at));
        }
      }
    }
    CHECK(placed);
    CHECK(static_cast<int>(ends.size()) == 2 * links * p.micro_batches);
    CHECK(std::all_of(ends.begin(), ends.end(),
                      [](const auto& e) { return e.second == std::make_pair(1, 1) && e.first.from != e.first.to; }));
  }
}

TEST_CASE("where backward is split, the gradients of weights follow each backward once, in its order") {
  for (const Pipeline& p : all_pipelines()) {
    INFO(p.str());
    for (const Schedule& schedule : p.schedule) {
      std::vector<int> back(static_cast<std::size_t>(p.chunks), 0), weights = back;
      bool in_order = true;
      for (const Action& a : schedule) {
        if (a.kind == Kind::backward) ++back[a.chunk];
        if (a.kind != Kind::weight_gradient) continue;
        in_order = in_order && a.micro == weights[a.chunk]++ && weights[a.chunk] <= back[a.chunk];
      }
      CHECK(in_order);
      for (const int n : weights) CHECK(n == (splits_backward(p.kind) ? p.micro_batches : 0));
    }
  }
}

TEST_CASE("a stage goes through its chunks group by group, and the last group has what is left") {
  // As Megatron-Core's get_schedule_table has it for 2 stages of 2 chunks, groups of 3 and 5 micro batches.
  const Pipeline p(ScheduleKind::interleaved, 2, 2, 5, 3);
  std::vector<std::pair<int, int>> forward, backward;
  for (const Action& a : p.schedule[0]) {
    if (a.kind == Kind::forward) forward.emplace_back(a.chunk, a.micro);
    if (a.kind == Kind::backward) backward.emplace_back(a.chunk, a.micro);
  }
  using Steps = std::vector<std::pair<int, int>>;
  CHECK(forward == Steps{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {0, 3}, {0, 4}, {1, 3}, {1, 4}});
  CHECK(backward == Steps{{1, 0}, {1, 1}, {1, 2}, {0, 0}, {0, 1}, {0, 2}, {1, 3}, {1, 4}, {0, 3}, {0, 4}});
}

TEST_CASE("of large groups the first stage takes what comes round before it wants it, or all stages would wait") {
  const auto at = [](const Schedule& schedule, const Action& a) {
    return std::find(schedule.begin(), schedule.end(), a);
  };
  for (const int group : {4, 5, 8}) {
    Pipeline p(ScheduleKind::interleaved, 4, 2, 16 / group * group, group);
    INFO(p.str());
    Schedule& first = p.schedule[0];
    const auto received = at(first, {Kind::receive_activation, 1, 0});
    const auto early = std::count_if(received, at(first, {Kind::forward, 1, 0}),
                                     [](const Action& a) { return a.kind == Kind::forward; });
    CHECK(early == group - 4);
    REQUIRE(!deadlock(p));
    // Each where it is wanted instead: that holds for groups of as many as stages alone.
    Schedule late;
    std::copy_if(first.begin(), first.end(), std::back_inserter(late),
                 [](const Action& a) { return a.kind != Kind::receive_activation; });
    for (auto i = late.begin(); i != late.end(); ++i)
      if (i->kind == Kind::forward && i->chunk == 1) i = late.insert(i, {Kind::receive_activation, 1, i->micro}) + 1;
    first = late;
    CHECK(deadlock(p).has_value() == (group > 4));
  }
}

// What 1F1B is for: the micro batches whose activations a stage keeps do not grow with their number.
TEST_CASE("micro batches in flight") {
  for (const Pipeline& p : all_pipelines()) {
    INFO(p.str());
    for (int s = 0; s < p.stages; ++s) {
      int now = 0, most = 0;
      for (const Action& a : p.schedule[s]) {
        now += (a.kind == Kind::forward) - (a.kind == Kind::backward);
        most = std::max(most, now);
      }
      CHECK(now == 0);
      const int total = p.micro_batches * p.chunks;
      if (p.kind == ScheduleKind::gpipe) CHECK(most == p.micro_batches);
      if (p.kind == ScheduleKind::one_f_one_b) CHECK(most == std::min(p.stages - s, p.micro_batches));
      // Narayanan et al. 2021: the first stage keeps at most as many chunks as p stages and the chunks ahead; of larger groups
      // as many more as these have.
      if (p.kind == ScheduleKind::interleaved)
        CHECK(most == std::min((p.stages - s - 1) * 2 + (p.chunks - 1) * p.group + 1, total));
    }
  }
}

// The bubble is p - 1 micro batches of idle time with GPipe and 1F1B, 1/v of that when interleaved.
TEST_CASE("a step takes as long as the schedule's paper says") {
  for (const Pipeline& p : all_pipelines()) {
    INFO(p.str());
    const double micro = 3;  // forward and backward of one micro batch on one stage
    if (splits_backward(p.kind)) continue;
    CHECK(makespan(p) == Approx(micro * (p.micro_batches + static_cast<double>(p.stages - 1) / p.chunks)));
  }
}

// Qi et al. 2023: the bubble of ZB-H1 is (p - 1)(F + B - W), and ZB-V has none. Counted from the first forward of all, the last stage's
// starts p - 1 chunks later. DualPipe-V has the bubble of ZB-V where micro batches are twice the stages.
TEST_CASE("a step whose backward is split takes as long as its paper says") {
  for (const Pipeline& p : all_pipelines()) {
    INFO(p.str());
    const double bubble = (makespan(p) - 3.0 * p.micro_batches) * p.chunks;  // in forwards of a chunk
    const int other = p.stages - 1;
    if (p.kind == ScheduleKind::zb_h1 && p.micro_batches >= p.stages) CHECK(bubble == Approx(other));
    if (p.kind == ScheduleKind::zbv && p.micro_batches >= 2 * p.stages - 1) CHECK(bubble == Approx(other));
    if (p.kind == ScheduleKind::dualpipev) CHECK(bubble == Approx(other));
    // No closed form: half and two thirds of 1F1B's 6 (p - 1) at most, once there are as many micro batches as stages.
    if (p.micro_batches < p.stages) continue;
    const int half = 3 * p.stages - (p.stages % 2 == 0 && p.stages > 2 ? 7 : 4);
    if (p.kind == ScheduleKind::v_half) CHECK(bubble <= half + 1e-9);
    if (p.kind == ScheduleKind::v_min) CHECK(bubble <= 4 * p.stages - 5 + 1e-9);
  }
}

// Chunks of micro batches whose inputs or gradients a stage still needs: p of ZB-H1, 2p half as large of ZB-V, as 1F1B's first stage has.
TEST_CASE("micro batches in memory where backward is split") {
  for (const Pipeline& p : all_pipelines()) {
    if (!splits_backward(p.kind)) continue;
    INFO(p.str());
    for (const Schedule& schedule : p.schedule) {
      int now = 0, most = 0;
      for (const Action& a : schedule) {
        now += (a.kind == Kind::forward) - (a.kind == Kind::weight_gradient);
        most = std::max(most, now);
      }
      CHECK(now == 0);
      if (p.kind == ScheduleKind::zb_h1) CHECK(most <= p.stages);
      if (p.kind == ScheduleKind::zbv) CHECK(most <= 2 * p.stages);
      if (p.kind == ScheduleKind::v_half) CHECK(most <= p.stages + 2);
      if (p.kind == ScheduleKind::v_min) CHECK(most <= 2 * ((p.stages + 1) / 3) + 2);
      if (p.kind == ScheduleKind::dualpipev) CHECK(most <= 2 * p.stages + 1);
    }
  }
}
