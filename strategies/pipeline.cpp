// Pipeline parallelism: layers are cut into stages of equal length, or where the layers and two more divide,
// so that the first and the last hold one layer less for the embedding and the head (as Llama 3 405B, 126
// layers on 16 stages); micro batches flow through them in the order of a schedule. GPipe (Huang et al.
// 2019): all forwards, then all backwards. 1F1B (Narayanan et al. 2019): after a warm-up of as many forwards
// as there are stages behind, one forward and one backward in turn. Interleaved 1F1B (Narayanan et al. 2021):
// a stage holds several chunks of layers, stage s the chunks s, s + p, s + 2p, ..., which shortens the
// bubble.
#include <algorithm>

#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

struct Step {  // one forward or backward
  bool forward;
  int chunk, micro;
};

Step interleaved_step(bool forward, int index, int stages, int chunks) {
  const int group = stages * chunks;
  const int chunk = index % group / stages;
  return {forward, forward ? chunk : chunks - 1 - chunk, index / group * stages + index % stages};
}

std::vector<Step> steps_of(ScheduleKind kind, int stages, int stage, int chunks, int micro_batches) {
  std::vector<Step> steps;
  const int total = micro_batches * chunks;
  int warmup = total;  // forwards before the first backward
  if (kind == ScheduleKind::one_f_one_b) warmup = std::min(stages - stage - 1, total);
  if (kind == ScheduleKind::interleaved)
    warmup = std::min((stages - stage - 1) * 2 + (chunks - 1) * stages, total);
  const auto step = [&](bool forward, int index) {
    return kind == ScheduleKind::interleaved ? interleaved_step(forward, index, stages, chunks)
                                             : Step{forward, 0, index};
  };
  for (int i = 0; i < warmup; ++i) steps.push_back(step(true, i));
  for (int i = warmup; i < total; ++i) {
    steps.push_back(step(true, i));
    steps.push_back(step(false, i - warmup));
  }
  for (int i = total - warmup; i < total; ++i) steps.push_back(step(false, i));
  return steps;
}

}  // namespace

Schedule make_schedule(ScheduleKind kind, int stages, int stage, int chunks, int micro_batches) {
  Schedule schedule;
  for (const Step& s : steps_of(kind, stages, stage, chunks, micro_batches)) {
    const int position = s.chunk * stages + stage, last = stages * chunks - 1;
    const auto add = [&](Action::Kind k) { schedule.push_back({k, s.chunk, s.micro}); };
    if (s.forward) {
      if (position > 0) add(Action::Kind::receive_activation);
      add(Action::Kind::forward);
      if (position < last) add(Action::Kind::send_activation);
    } else {
      if (position < last) add(Action::Kind::receive_gradient);
      add(Action::Kind::backward);
      if (position > 0) add(Action::Kind::send_gradient);
    }
  }
  return schedule;
}

namespace {

// Equal stages where they come out even. Else the embedding and the head count as a layer each, and chunks differ by one at
// most; in chunks of less than four, unless several to a stage come out even, that would be no balance.
bool divides(std::int64_t layers, std::int64_t chunks, bool interleaved) {
  const bool balanced = chunks > 1 && ((interleaved && (layers + 2) % chunks == 0) ||
                                       (layers + 2 + chunks - 1) / chunks >= 4);
  return layers % chunks == 0 || balanced;
}

MaybeRefusal bad_schedule(const Point& p) {
  if (p.schedule != ScheduleKind::interleaved) {
    if (p.virtual_stages == 1) return std::nullopt;
    return infeasible("virtual_stages {} with schedule {}, need schedule interleaved or virtual_stages 1",
                      p.virtual_stages, name_of(p.schedule));
  }
  if (p.pp == 1) return infeasible("schedule interleaved with pp 1, need pp of 2 or more, or schedule 1f1b");
  if (p.virtual_stages == 1)
    return infeasible("schedule interleaved with virtual_stages 1, need 2 or more, or schedule 1f1b");
  if (p.micro_batches() % p.pp != 0)
    return infeasible("schedule interleaved needs the {} micro batches to be a multiple of pp {}, need {}",
                      p.micro_batches(), p.pp, nearest_multiples(p.micro_batches(), p.pp));
  return std::nullopt;
}

MaybeRefusal refuse(const Point& p) {
  const std::int64_t chunks = p.pp * p.virtual_stages;
  // Public runs of models that this engine does not have cut otherwise: of those it is not for us to say.
  const bool ours = !model().why_not(p);
  if (ours && !divides(p.model.layers, chunks, p.virtual_stages > 1))
    return infeasible("pp {}{} does not divide the {} layers, need {} {}", p.pp,
                      p.virtual_stages > 1 ? fmt::format(" x virtual_stages {}", p.virtual_stages) : "",
                      p.model.layers, p.virtual_stages > 1 ? "their product" : "pp",
                      nearest_divisors(chunks, p.model.layers));
  return bad_schedule(p);
}

std::vector<Choice> choices(const Point& p, std::int64_t devices) {
  Choice pp{"pp", {}}, schedule{"schedule,virtual_stages", {}};
  for (std::int64_t n = 1; n <= std::min(p.model.layers, devices); ++n) {
    Point other = p;
    other.pp = n;
    if (!refuse(other)) pp.values.push_back(n);
  }
  // Of a single stage all are the same.
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::gpipe})
    for (std::int64_t n = 1; n <= p.model.layers / p.pp; ++n) {
      Point other = p;
      other.schedule = kind;
      other.virtual_stages = n;
      if (!refuse(other)) schedule.values.push_back({name_of(kind), n});
      if (kind != ScheduleKind::interleaved) break;
    }
  if (p.pp == 1) schedule.values.resize(1);
  return {pp, schedule};
}

void write(const Point& point, Plan& plan) {
  const int stages = static_cast<int>(point.pp), chunks = static_cast<int>(point.virtual_stages);
  plan.mesh.resize(Axis::pp, stages);
  const int all = stages * chunks;
  const bool even = point.model.layers % all == 0;
  const std::int64_t layers = point.model.layers;
  // The first layer of a chunk, or of all that follow the last one.
  const auto first_layer = [&](int position) {
    if (even) return position * (layers / all);
    return std::clamp<std::int64_t>(position * (layers + 2) / all - 1, 0, layers);
  };
  plan.chunks.assign(stages, {});
  for (int stage = 0; stage < stages; ++stage) {
    for (int c = 0; c < chunks; ++c) {
      const int position = c * stages + stage;
      const bool first = position == 0, last = position == all - 1;
      plan.chunks[stage].push_back({stage, position, first_layer(position),
                                    first_layer(position + 1) - first_layer(position), first, last});
    }
    plan.schedule.push_back(
        make_schedule(point.schedule, stages, stage, chunks, static_cast<int>(point.micro_batches())));
  }
}

}  // namespace

Strategy pipeline() {
  return {"pipeline", {"pp", "schedule", "virtual_stages"}, refuse, choices, write};
}

}  // namespace mbench::strategies
