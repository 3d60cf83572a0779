// GPipe, 1F1B and interleaved 1F1B, and the messages of all schedules.
#include "strategies/schedule.h"

#include <algorithm>
#include <utility>

namespace mbench::strategies {
namespace {

// The order in which a stage goes through chunks and micro batches, forward; backward the chunks are turned round. The last
// group has what is left of the micro batches.
struct InterleavedOrder {
  int chunks, micro_batches, group;

  Action at(bool forward, int index) const {
    const int first = index / (group * chunks) * group, size = std::min(group, micro_batches - first);
    const int within = index - first * chunks, chunk = within / size;
    return {forward ? Action::Kind::forward : Action::Kind::backward, forward ? chunk : chunks - 1 - chunk,
            first + within % size};
  }
};

// Forwards before the first backward.
int warmup_of(ScheduleKind kind, int stages, int stage, const InterleavedOrder& order) {
  const int total = order.micro_batches * order.chunks;
  if (kind == ScheduleKind::one_f_one_b) return std::min(stages - stage - 1, total);
  if (kind == ScheduleKind::interleaved)
    return std::min((stages - stage - 1) * 2 + (order.chunks - 1) * order.group, total);
  return total;
}

Schedule steps_of(ScheduleKind kind, const InterleavedOrder& order, int warmup) {
  Schedule steps;
  const int total = order.micro_batches * order.chunks;
  const auto step = [&](bool forward, int index) {
    if (kind == ScheduleKind::interleaved) return order.at(forward, index);
    return Action{forward ? Action::Kind::forward : Action::Kind::backward, 0, index};
  };
  for (int i = 0; i < warmup; ++i) steps.push_back(step(true, i));
  for (int i = warmup; i < total; ++i) {
    steps.push_back(step(true, i));
    steps.push_back(step(false, i - warmup));
  }
  for (int i = total - warmup; i < total; ++i) steps.push_back(step(false, i));
  return steps;
}

// Receives of what goes round from the last stage to the first, and back, in an interleaved schedule. They are posted when it comes:
// `stages` steps after its sender began it, before the step that wants it where a group is larger than that. Left with its sender until
// then, it would hold up all stages behind each other.
class RoundReceives {
 public:
  RoundReceives(int stages, const InterleavedOrder& order) : stages_(stages), order_(order) {}

  void before(const Action& step, Schedule& out) {
    const bool forward = step.kind == Action::Kind::forward;
    const int index = (forward ? forwards_ : backwards_)++;
    if (index < stages_) return;
    const Action from = order_.at(forward, index - stages_);
    if (forward && from.chunk + 1 < order_.chunks)
      out.push_back({Action::Kind::receive_activation, from.chunk + 1, from.micro});
    if (!forward && from.chunk > 0) out.push_back({Action::Kind::receive_gradient, from.chunk - 1, from.micro});
  }

 private:
  int stages_, forwards_ = 0, backwards_ = 0;
  InterleavedOrder order_;
};

struct Pipeline {
  ScheduleKind kind;
  int stages, chunks;

  int last() const { return stages * chunks - 1; }
  // The stage that has that place, or none at the ends of the model.
  int stage_at(int position) const {
    if (position < 0 || position > last()) return -1;
    if (is_v_shaped(kind) && position >= stages) return last() - position;
    return position % stages;
  }
};

// Writes what a stage computes with the messages around it: one before it where another stage made what it needs, and one behind it
// where another needs what it made.
class Messages {
 public:
  Messages(const Pipeline& pipeline, int stage, RoundReceives* round)
      : pipeline_(pipeline), stage_(stage), round_(round) {}

  void receive(const Action& step) {
    const bool forward = step.kind == Action::Kind::forward;
    const int position = position_of(pipeline_.kind, pipeline_.stages, stage_, step.chunk),
              from = pipeline_.stage_at(forward ? position - 1 : position + 1);
    if (round_ && (forward ? stage_ == 0 : stage_ == pipeline_.stages - 1))
      round_->before(step, schedule_);
    else if (from >= 0 && from != stage_)
      add(forward ? Action::Kind::receive_activation : Action::Kind::receive_gradient, step);
  }
  void send(const Action& step) {
    const bool forward = step.kind == Action::Kind::forward;
    const int position = position_of(pipeline_.kind, pipeline_.stages, stage_, step.chunk),
              to = pipeline_.stage_at(forward ? position + 1 : position - 1);
    if (to >= 0 && to != stage_) add(forward ? Action::Kind::send_activation : Action::Kind::send_gradient, step);
  }
  void compute(const Action& step) { schedule_.push_back(step); }
  // From part `first` to `last`.
  void compute(Action step, int first, int last) {
    for (step.part = first; step.part <= last; ++step.part) schedule_.push_back(step);
  }
  Schedule take() { return std::move(schedule_); }

 private:
  void add(Action::Kind kind, const Action& step) { schedule_.push_back({kind, step.chunk, step.micro}); }

  Pipeline pipeline_;
  int stage_;
  RoundReceives* round_;
  Schedule schedule_;
};

Schedule with_messages(const Schedule& steps, const Pipeline& pipeline, int stage, RoundReceives* round) {
  Messages out(pipeline, stage, round);
  for (const Action& step : steps) {
    const bool messages = step.kind != Action::Kind::weight_gradient;
    if (messages) out.receive(step);
    out.compute(step);
    if (messages) out.send(step);
  }
  return out.take();
}

// `pairs`: where the forwards are that stand with the backward behind them.
Schedule with_turns(const Schedule& steps, const std::vector<std::size_t>& pairs, const Pipeline& pipeline, int stage,
                    RoundReceives* round, const std::vector<int>& pauses) {
  Messages out(pipeline, stage, round);
  const auto last = [&](const Action& step) { return pauses[static_cast<std::size_t>(step.chunk)]; };
  auto pair = pairs.begin();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Action& step = steps[i];
    if (step.kind == Action::Kind::weight_gradient) {
      out.compute(step);
      continue;
    }
    out.receive(step);
    if (pair == pairs.end() || *pair != i) {
      out.compute(step, 0, last(step));
      out.send(step);
      continue;
    }
    ++pair;
    const Action& backward = steps[++i];
    out.receive(backward);
    for (int part = 0; part <= std::max(last(step), last(backward)); ++part) {
      if (part <= last(backward)) out.compute(backward, part, part);
      if (part <= last(step)) out.compute(step, part, part);
    }
    out.send(step);
    out.send(backward);
  }
  return out.take();
}

}  // namespace

int position_of(ScheduleKind kind, int stages, int stage, int chunk) {
  if (is_v_shaped(kind) && chunk == 1) return 2 * stages - 1 - stage;
  return chunk * stages + stage;
}

Schedule make_schedule(ScheduleKind kind, int stages, int stage, int chunks, int micro_batches, int group) {
  const Pipeline pipeline{kind, stages, chunks};
  if (splits_backward(kind))
    return with_messages(split_schedules(kind, stages, micro_batches)[static_cast<std::size_t>(stage)], pipeline, stage,
                         nullptr);
  const InterleavedOrder order{chunks, micro_batches, group > 0 ? group : stages};
  RoundReceives round(stages, order);
  return with_messages(steps_of(kind, order, warmup_of(kind, stages, stage, order)), pipeline, stage,
                       chunks > 1 ? &round : nullptr);
}

std::vector<Schedule> make_schedules_in_turns(ScheduleKind kind, int stages, int micro_batches, int group,
                                              const std::vector<std::vector<int>>& pauses) {
  std::vector<Schedule> all;
  std::vector<std::vector<std::size_t>> pairs;
  if (splits_backward(kind)) all = split_schedules(kind, stages, micro_batches, &pairs);
  for (int stage = 0; stage < stages; ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    const int chunks = static_cast<int>(pauses[at].size());
    const Pipeline pipeline{kind, stages, chunks};
    if (splits_backward(kind)) {
      all[at] = with_turns(all[at], pairs[at], pipeline, stage, nullptr, pauses[at]);
      continue;
    }
    const InterleavedOrder order{chunks, micro_batches, group > 0 ? group : stages};
    const int total = micro_batches * chunks, warmup = std::min(warmup_of(kind, stages, stage, order) + 1, total);
    std::vector<std::size_t> mine;  // behind the warm-up forwards and backwards are one after the other
    for (int i = warmup; i < total; ++i) mine.push_back(static_cast<std::size_t>(2 * i - warmup));
    RoundReceives round(stages, order);
    all.push_back(
        with_turns(steps_of(kind, order, warmup), mine, pipeline, stage, chunks > 1 ? &round : nullptr, pauses[at]));
  }
  return all;
}

std::vector<Schedule> make_schedules(ScheduleKind kind, int stages, int chunks, int micro_batches, int group) {
  std::vector<Schedule> all;
  if (splits_backward(kind)) {
    all = split_schedules(kind, stages, micro_batches);
    for (int stage = 0; stage < stages; ++stage) {
      Schedule& mine = all[static_cast<std::size_t>(stage)];
      mine = with_messages(mine, {kind, stages, chunks}, stage, nullptr);
    }
    return all;
  }
  for (int stage = 0; stage < stages; ++stage)
    all.push_back(make_schedule(kind, stages, stage, chunks, micro_batches, group));
  return all;
}

}  // namespace mbench::strategies
