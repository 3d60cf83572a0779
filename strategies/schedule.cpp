// GPipe, 1F1B and interleaved 1F1B, and the messages of all schedules.
#include "strategies/schedule.h"

#include <algorithm>

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

Schedule steps_of(ScheduleKind kind, int stages, int stage, const InterleavedOrder& order) {
  Schedule steps;
  const int total = order.micro_batches * order.chunks;
  int warmup = total;  // forwards before the first backward
  if (kind == ScheduleKind::one_f_one_b) warmup = std::min(stages - stage - 1, total);
  if (kind == ScheduleKind::interleaved)
    warmup = std::min((stages - stage - 1) * 2 + (order.chunks - 1) * order.group, total);
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

// What is computed, with a message before it where another stage made what it needs, and behind it where another needs what it made.
Schedule with_messages(const Schedule& steps, const Pipeline& p, int stage, RoundReceives* round) {
  Schedule schedule;
  const bool first = stage == 0, last = stage == p.stages - 1;
  for (const Action& step : steps) {
    const int position = position_of(p.kind, p.stages, stage, step.chunk);
    const bool forward = step.kind == Action::Kind::forward;
    const int from = p.stage_at(forward ? position - 1 : position + 1),
              to = p.stage_at(forward ? position + 1 : position - 1);
    const bool other = from >= 0 && from != stage;
    if (step.kind == Action::Kind::weight_gradient) {
      schedule.push_back(step);
      continue;
    }
    if (round && (forward ? first : last))
      round->before(step, schedule);
    else if (other)
      schedule.push_back(
          {forward ? Action::Kind::receive_activation : Action::Kind::receive_gradient, step.chunk, step.micro});
    schedule.push_back(step);
    if (to >= 0 && to != stage)
      schedule.push_back(
          {forward ? Action::Kind::send_activation : Action::Kind::send_gradient, step.chunk, step.micro});
  }
  return schedule;
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
  return with_messages(steps_of(kind, stages, stage, order), pipeline, stage, chunks > 1 ? &round : nullptr);
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
