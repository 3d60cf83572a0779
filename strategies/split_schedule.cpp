// Schedules whose backward is split: the gradient of a chunk's input goes to the stage before at once, and the gradients of its weights
// are made later, where a stage would wait.
//
// zb-h1: 1F1B, with as many gradients of weights put off as there are stages before (Qi et al. 2023, "Zero Bubble Pipeline Parallelism";
// PyTorch's ScheduleInterleavedZeroBubble of one chunk). Every stage has at most p micro batches in memory, as 1F1B's first.
//
// In the others a stage has two chunks in a V: stage s of p the places s and 2p - 1 - s. Chunk 0 goes down the stages, chunk 1 up.
// zbv: as in section 6 of that paper, which PyTorch's ScheduleZBVZeroBubble follows: no stage waits where a forward, a backward and the
// gradients of weights take the same time.
// v-half, v-min: the repeating blocks of Qi et al. 2024, "Pipeline Parallelism with Controllable Memory". Two chunks of a micro batch
// live on a stage for half of 1F1B's time, or for a third of it. Within that memory actions go earlier where a stage would wait.
// dualpipev: DeepSeek's DualPipe cut in half (deepseek-ai/DualPipe, dualpipev.py). In its middle each forward stands next to a backward.
#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "engine/base/error.h"
#include "strategies/schedule.h"

namespace mbench::strategies {
namespace {

using Kind = Action::Kind;

// A stage's actions as they are written down. Micro batches are counted by kind and chunk. Those beyond the last are left out, so that
// what has too few for a pattern runs the part of the pattern that it has.
class Writer {
 public:
  explicit Writer(int micro_batches) : micro_batches_(micro_batches) {}

  void forward(int chunk) { add(Kind::forward, chunk); }
  void backward(int chunk) {
    add(Kind::backward, chunk);
    put_off_.push_back(chunk);
  }
  // The oldest that was put off.
  void weights() {
    if (put_off_.empty()) return;
    add(Kind::weight_gradient, put_off_.front());
    put_off_.pop_front();
  }
  void weights_of(int chunk) {
    const auto oldest = std::find(put_off_.begin(), put_off_.end(), chunk);
    if (oldest == put_off_.end()) return;
    put_off_.erase(oldest);
    add(Kind::weight_gradient, chunk);
  }
  void whole_backward(int chunk) {
    add(Kind::backward, chunk);
    add(Kind::weight_gradient, chunk);
  }
  int count(Kind kind, int chunk) const {
    return next_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk)];
  }
  bool puts_off() const { return !put_off_.empty(); }
  bool puts_off(int chunk) const { return std::find(put_off_.begin(), put_off_.end(), chunk) != put_off_.end(); }
  Schedule take() { return std::move(steps_); }

 private:
  void add(Kind kind, int chunk) {
    const int micro = next_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk)]++;
    if (micro < micro_batches_) steps_.push_back({kind, chunk, micro});
  }

  int micro_batches_;
  std::array<std::array<int, kChunksOfV>, kActionKinds> next_{};
  std::deque<int> put_off_;  // chunks whose gradients of weights are still to be made
  Schedule steps_;
};

Schedule zb_h1(int stages, int stage, int micro_batches) {
  Writer w(micro_batches);
  const int warmup = std::min(stages - 1 - stage, micro_batches);
  for (int i = 0; i < warmup; ++i) w.forward(0);
  for (int i = 0; i < micro_batches; ++i) {
    if (warmup + i < micro_batches) w.forward(0);
    w.backward(0);
    if (i >= stage) w.weights();
  }
  while (w.puts_off()) w.weights();
  return w.take();
}

Schedule zbv(int stages, int stage, int micro_batches) {
  Writer w(micro_batches);
  const int full = std::max(2 * stages - 1, micro_batches);  // as many as the pattern has at least
  const auto behind = [&](int chunk) { return w.count(Kind::forward, chunk); };
  const auto back = [&](int chunk) {
    w.backward(chunk);
    w.weights_of(chunk);
  };
  for (int i = 0; i < 2 * (stages - stage) - 1; ++i) w.forward(0);
  for (int i = 0; i < stage; ++i) w.forward(1), w.forward(0);
  for (int i = 0; i < stages - stage; ++i) w.forward(1), back(1);
  while (behind(1) < behind(0) || behind(0) < full) {
    if (behind(0) < full) w.forward(0);
    back(0);
    w.forward(1);
    back(1);
  }
  for (int i = 0; i < stage; ++i) w.backward(0), w.backward(1);
  for (int i = 0; i < stages - stage; ++i) w.backward(0), w.weights_of(0);
  while (w.puts_off(1)) w.weights_of(1);
  while (w.puts_off(0)) w.weights_of(0);
  return w.take();
}

Schedule dualpipev(int stages, int stage, int micro_batches) {
  Writer w(micro_batches);
  const int before = stages - 1 - stage, through = stage + 1, full = std::max(2 * stages, micro_batches);
  for (int i = 0; i < 2 * before; ++i) w.forward(0);
  for (int i = 0; i < through; ++i) w.forward(0), w.forward(1);
  for (int i = 0; i < before; ++i) w.backward(1), w.weights(), w.forward(1);
  for (int i = 0; i < full - 2 * stages + through; ++i) {
    w.forward(0), w.whole_backward(1);
    w.forward(1), w.whole_backward(0);
  }
  for (int i = 0; i < before; ++i) {
    w.whole_backward(1);
    w.forward(1), w.whole_backward(0);
  }
  // The second half puts gradients of weights off.
  bool split = false;
  const auto back = [&](int chunk) { split ? w.backward(chunk) : w.whole_backward(chunk); };
  for (int i = 0; i < through; ++i) {
    split = split || (i == through / 2 && stage % 2 == 1);
    back(1);
    split = split || (i == through / 2 && stage % 2 == 0);
    back(0);
  }
  for (int i = 0; i < before; ++i) {
    w.weights();
    back(0);
  }
  while (w.puts_off()) w.weights();
  return w.take();
}

// The block of a V-shaped schedule: when a stage does each of a micro batch's four actions. The next micro batch does the same six units
// of time later; in the two that are left of these six the stage makes gradients of weights.
struct Block {
  std::array<int, 4> at;
};
constexpr int kPeriod = 6;
constexpr std::array<Action, 4> kOfBlock{
    {{Kind::forward, 0, 0}, {Kind::forward, 1, 0}, {Kind::backward, 1, 0}, {Kind::backward, 0, 0}}};

Block block_of(ScheduleKind kind, int p, int s) {
  if (kind == ScheduleKind::v_min) {
    const int gap = p % 3 == 0 ? 2 : 0;  // so that no two actions meet
    return {{s, 2 * p - s - 1, 2 * p + gap + s, 4 * p + gap - s - 1}};
  }
  const int gap = p % 2 == 0 ? 3 : 0;
  return {{2 * s, 3 * p - s - 2, 3 * p + gap + 2 * s - 1, 6 * p + gap - s - 2}};
}

// Chunks of micro batches that a stage holds at most while its blocks repeat.
int most_in_flight(ScheduleKind kind, int p) {
  return 2 + 2 * (kind == ScheduleKind::v_min ? (p + 1) / 3 : p / 2);
}

// Repeats the block of each stage in units of time, each action as early as it can be.
class Repeated {
 public:
  Repeated(ScheduleKind kind, int stages, int micro_batches)
      : stages_(stages),
        micro_batches_(micro_batches),
        most_(most_in_flight(kind, stages)),
        mine_(static_cast<std::size_t>(stages)),
        done_(static_cast<std::size_t>(4 * stages),
              std::vector<int>(static_cast<std::size_t>(micro_batches), kNotYet)) {
    for (int s = 0; s < stages; ++s) mine_[static_cast<std::size_t>(s)].block = block_of(kind, stages, s);
  }

  std::vector<Schedule> run() {
    const std::size_t all = static_cast<std::size_t>(kPeriod * micro_batches_);
    std::size_t left = all * static_cast<std::size_t>(stages_);
    for (int now = 0; left > 0; ++now) {
      std::size_t moved = 0;
      for (int s = 0; s < stages_; ++s) moved += act(s, now) ? 1 : 0;
      left -= moved;
      idle_ = moved > 0 ? 0 : idle_ + 1;
      check(idle_ <= kPeriod * stages_, "schedule", "a schedule in which every stage waits for another");
    }
    std::vector<Schedule> schedules;
    for (Stage& s : mine_) schedules.push_back(std::move(s.steps));
    return schedules;
  }

 private:
  static constexpr int kNotYet = 1 << 30;
  struct Stage {
    Block block;
    std::array<int, 4> next{};  // micro batch, by action of the block
    std::deque<Action> put_off;
    int in_flight = 0;
    Schedule steps;
  };

  // When the action of the block comes in the repeated pattern.
  static int due(const Stage& s, std::size_t action) { return s.block.at[action] + kPeriod * s.next[action]; }
  // When what it needs is there.
  int ready(int stage, std::size_t action, int micro) const {
    const bool down = action == 0 || action == 2;  // comes from the stage before
    const int from = down ? stage - 1 : stage + 1;
    if (from >= 0 && from < stages_) return done(from, action)[static_cast<std::size_t>(micro)];
    return action == 0 ? 0 : done(stage, action - 1)[static_cast<std::size_t>(micro)];
  }
  const std::vector<int>& done(int stage, std::size_t action) const {
    return done_[static_cast<std::size_t>(4 * stage) + action];
  }

  // Forwards that the pattern has before that time and that have not been done.
  int skipped(const Stage& s, int time) const {
    int n = 0;
    for (const std::size_t forward : {0, 1}) {
      const int first = due(s, forward);
      if (first < time) n += std::min(micro_batches_ - s.next[forward], (time - first + kPeriod - 1) / kPeriod);
    }
    return n;
  }

  // What the stage does in this unit of time: the pattern's next, if it can be; else gradients of weights; else what comes later in the
  // pattern, if the forwards that it overtakes still find room.
  bool act(int stage, int now) {
    Stage& s = mine_[static_cast<std::size_t>(stage)];
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    std::ranges::sort(order, {}, [&](std::size_t a) { return due(s, a); });
    bool earliest = true;
    std::optional<std::size_t> chosen;
    for (const std::size_t a : order) {
      if (s.next[a] == micro_batches_) continue;
      const bool forward = kOfBlock[a].kind == Kind::forward;
      const bool fits = !forward || s.in_flight + (earliest ? 0 : skipped(s, due(s, a))) < most_;
      if (fits && ready(stage, a, s.next[a]) <= now) {
        chosen = a;
        break;
      }
      if (earliest && !s.put_off.empty()) break;
      earliest = false;
    }
    if (chosen) {
      do_next(stage, *chosen, now);
      return true;
    }
    if (s.put_off.empty()) return false;
    s.steps.push_back(s.put_off.front());
    s.put_off.pop_front();
    --s.in_flight;
    return true;
  }

  void do_next(int stage, std::size_t a, int now) {
    Stage& s = mine_[static_cast<std::size_t>(stage)];
    Action step = kOfBlock[a];
    step.micro = s.next[a]++;
    s.steps.push_back(step);
    done_[static_cast<std::size_t>(4 * stage) + a][static_cast<std::size_t>(step.micro)] = now + 1;
    if (step.kind == Kind::forward)
      ++s.in_flight;
    else
      s.put_off.push_back({Kind::weight_gradient, step.chunk, step.micro});
  }

  int stages_, micro_batches_, most_, idle_ = 0;
  std::vector<Stage> mine_;
  std::vector<std::vector<int>> done_;  // [stage, action of the block][micro batch]: the end, or kNotYet
};

}  // namespace

std::vector<Schedule> split_schedules(ScheduleKind kind, int stages, int micro_batches) {
  if (kind == ScheduleKind::v_half || kind == ScheduleKind::v_min) return Repeated(kind, stages, micro_batches).run();
  const auto one = kind == ScheduleKind::zb_h1 ? zb_h1 : kind == ScheduleKind::zbv ? zbv : dualpipev;
  std::vector<Schedule> all;
  for (int stage = 0; stage < stages; ++stage) all.push_back(one(stages, stage, micro_batches));
  return all;
}

}  // namespace mbench::strategies
