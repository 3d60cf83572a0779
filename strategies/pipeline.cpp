// Pipeline parallelism: layers are cut into stages of equal length, or where the layers and two more divide,
// so that the first and the last hold one layer less for the embedding and the head (as Llama 3 405B, 126
// layers on 16 stages), or with as many layers in the first and the last as the point says and equal ones between; micro
// batches flow through them in the order of a schedule. GPipe (Huang et al.
// 2019): all forwards, then all backwards. 1F1B (Narayanan et al. 2019): after a warm-up of as many forwards
// as there are stages behind, one forward and one backward in turn. Interleaved 1F1B (Narayanan et al. 2021):
// a stage holds several chunks of layers, stage s the chunks s, s + p, s + 2p, ..., which shortens the
// bubble; it runs a group of micro batches through one chunk, then through the next.
#include <algorithm>
#include <numeric>
#include <utility>

#include "strategies/schedule.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

using nlohmann::json;

struct Step {  // one forward or backward
  bool forward;
  int chunk, micro;
};

// The order in which a stage goes through chunks and micro batches, forward; backward the chunks are turned round. The last
// group has what is left of the micro batches.
struct InterleavedOrder {
  int chunks, micro_batches, group;

  Step at(bool forward, int index) const {
    const int first = index / (group * chunks) * group, size = std::min(group, micro_batches - first);
    const int within = index - first * chunks, chunk = within / size;
    return {forward, forward ? chunk : chunks - 1 - chunk, first + within % size};
  }
};

std::vector<Step> steps_of(ScheduleKind kind, int stages, int stage, const InterleavedOrder& order) {
  std::vector<Step> steps;
  const int total = order.micro_batches * order.chunks;
  int warmup = total;  // forwards before the first backward
  if (kind == ScheduleKind::one_f_one_b) warmup = std::min(stages - stage - 1, total);
  if (kind == ScheduleKind::interleaved)
    warmup = std::min((stages - stage - 1) * 2 + (order.chunks - 1) * order.group, total);
  const auto step = [&](bool forward, int index) {
    return kind == ScheduleKind::interleaved ? order.at(forward, index) : Step{forward, 0, index};
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

Schedule make_schedule(ScheduleKind kind, int stages, int stage, int chunks, int micro_batches, int group) {
  const InterleavedOrder order{chunks, micro_batches, group > 0 ? group : stages};
  const int last = stages * chunks - 1;
  Schedule schedule;
  const auto add = [&](Action::Kind k, int chunk, int micro) { schedule.push_back({k, chunk, micro}); };
  // What goes round from the last stage to the first, and back, is received when it comes: `stages` steps after its sender
  // began it, before the step that wants it where a group is larger than that. Left with its sender until then, it would hold
  // up all stages behind each other.
  const auto receive_round = [&](bool forward, int index) {
    if (index < stages) return;
    const Step from = order.at(forward, index - stages);
    if (forward && from.chunk + 1 < chunks) add(Action::Kind::receive_activation, from.chunk + 1, from.micro);
    if (!forward && from.chunk > 0) add(Action::Kind::receive_gradient, from.chunk - 1, from.micro);
  };
  int forwards = 0, backwards = 0;
  for (const Step& s : steps_of(kind, stages, stage, order)) {
    const int position = s.chunk * stages + stage;
    if (s.forward) {
      if (stage > 0)
        add(Action::Kind::receive_activation, s.chunk, s.micro);
      else if (chunks > 1)
        receive_round(true, forwards);
      ++forwards;
      add(Action::Kind::forward, s.chunk, s.micro);
      if (position < last) add(Action::Kind::send_activation, s.chunk, s.micro);
    } else {
      if (stage < stages - 1)
        add(Action::Kind::receive_gradient, s.chunk, s.micro);
      else if (chunks > 1)
        receive_round(false, backwards);
      ++backwards;
      add(Action::Kind::backward, s.chunk, s.micro);
      if (position > 0) add(Action::Kind::send_gradient, s.chunk, s.micro);
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

bool names_stages(const Point& p) {
  return p.first_stage_layers > 0 || p.last_stage_layers > 0;
}

// The stages between those whose layers are named, and what is left for them.
struct Between {
  std::int64_t stages, layers;
  bool even() const { return stages == 0 ? layers == 0 : layers >= stages && layers % stages == 0; }
};

Between between(const Point& p) {
  return {p.pp - (p.first_stage_layers > 0) - (p.last_stage_layers > 0),
          p.model.layers - p.first_stage_layers - p.last_stage_layers};
}

// Layers of a stage, where those of an end are named.
std::int64_t layers_of_stage(const Point& p, std::int64_t stage) {
  if (stage == 0 && p.first_stage_layers > 0) return p.first_stage_layers;
  if (stage == p.pp - 1 && p.last_stage_layers > 0) return p.last_stage_layers;
  const Between b = between(p);
  return b.layers / b.stages;
}

// A stage whose layers the chunks of a stage do not divide.
std::optional<std::int64_t> not_in_chunks(const Point& p) {
  for (const std::int64_t stage : {std::int64_t{0}, p.pp / 2, p.pp - 1})
    if (layers_of_stage(p, stage) % p.virtual_stages != 0) return stage;
  return std::nullopt;
}

MaybeFault bad_stages(const Point& p) {
  if (!names_stages(p)) return std::nullopt;
  const std::string given =
      p.first_stage_layers == 0  ? fmt::format("last_stage_layers {}", p.last_stage_layers)
      : p.last_stage_layers == 0 ? fmt::format("first_stage_layers {}", p.first_stage_layers)
                                 : fmt::format("first_stage_layers {} and last_stage_layers {}", p.first_stage_layers, p.last_stage_layers);
  const Way first = within("first_stage_layers", 0, p.model.layers), last = within("last_stage_layers", 0, p.model.layers);
  const Way one = p.first_stage_layers > 0 ? first : last, other = p.last_stage_layers > 0 ? last : first;
  if (p.pp == 1) return infeasible({within("pp", 2, p.model.layers), one}, "{} with pp 1", given);
  if (const Between b = between(p); !b.even())
    return infeasible({one, other}, "{} of {} layers with pp {} leave {} to {} stages, which have as many each", given, p.model.layers, p.pp,
                      b.layers, b.stages);
  if (const auto stage = not_in_chunks(p))
    return infeasible({one, other}, "{} of {} layers with pp {}: virtual_stages {} does not divide the {} layers of stage {}", given,
                      p.model.layers, p.pp, p.virtual_stages, layers_of_stage(p, *stage), *stage);
  return std::nullopt;
}

// Groups of so many: all full, or the last one with a micro batch for every stage at least, so that none waits for another
// in the midst of a step.
bool fills_groups(const Point& p, std::int64_t group) {
  const std::int64_t left = p.micro_batches() % group;
  return group >= p.pp && group <= p.micro_batches() && (left == 0 || left >= p.pp);
}

MaybeFault bad_group(const Point& p) {
  const std::int64_t micro = p.micro_batches(), group = p.micro_batch_group;
  const Way batches = multiple("global_batch", p.micro_batch * p.dp);
  if (group == 0) {
    if (micro % p.pp == 0) return std::nullopt;
    return infeasible({batches, within("micro_batch_group", p.pp, micro)},
                      "schedule interleaved needs the {} micro batches to be a multiple of pp {}", micro, p.pp);
  }
  if (micro < p.pp)
    return infeasible({batches}, "micro_batch_group {} of {} micro batches with pp {}", group, micro, p.pp);
  const Way groups = within("micro_batch_group", 0, micro);
  if (group < p.pp) return infeasible({groups}, "micro_batch_group {} with pp {}", group, p.pp);
  if (group > micro) return infeasible({groups}, "micro_batch_group {} of {} micro batches", group, micro);
  if (fills_groups(p, group)) return std::nullopt;
  return infeasible({groups}, "micro_batch_group {} leaves {} of {} micro batches to the last group, fewer than pp {}", group,
                    micro % group, micro, p.pp);
}

constexpr Way kInterleaved = one_of("schedule", "interleaved"), kOneByOne = one_of("schedule", "1f1b");

MaybeFault bad_schedule(const Point& p) {
  if (p.schedule != ScheduleKind::interleaved) {
    if (p.virtual_stages > 1)
      return infeasible({kInterleaved, exactly("virtual_stages", 1)}, "virtual_stages {} with schedule {}", p.virtual_stages,
                        name_of(p.schedule));
    if (p.micro_batch_group > 0)
      return infeasible({kInterleaved, exactly("micro_batch_group", 0)}, "micro_batch_group {} with schedule {}", p.micro_batch_group,
                        name_of(p.schedule));
    return std::nullopt;
  }
  if (p.pp == 1) return infeasible({within("pp", 2, p.model.layers), kOneByOne}, "schedule interleaved with pp 1");
  if (p.virtual_stages == 1)
    return infeasible({within("virtual_stages", 2, p.model.layers), kOneByOne}, "schedule interleaved with virtual_stages 1");
  return bad_group(p);
}

MaybeFault refuse(const Point& p) {
  const std::int64_t chunks = p.pp * p.virtual_stages;
  // Public runs of models that this engine does not have cut otherwise: of those it is not for us to say.
  const bool ours = !model().why_not(p);
  if (ours) {
    if (auto bad = bad_stages(p)) return bad;
    if (!names_stages(p) && !divides(p.model.layers, chunks, p.virtual_stages > 1))
      return p.virtual_stages > 1 ? infeasible({within("virtual_stages", 1, p.model.layers), within("pp", 1, p.model.layers)},
                                               "pp {} x virtual_stages {} does not divide the {} layers", p.pp, p.virtual_stages,
                                               p.model.layers)
                                  : infeasible({within("pp", 1, p.model.layers)}, "pp {} does not divide the {} layers", p.pp, p.model.layers);
  }
  return bad_schedule(p);
}

// Up to two layers less at the ends than between; of two stages, up to two more or less in the first.
Choice choices_of_stages(const Point& p) {
  constexpr std::int64_t kFewer = 2;
  Choice ends{"first_stage_layers,last_stage_layers", {json::array({0, 0})}, true};
  const std::int64_t mean = p.model.layers / p.pp;
  const auto add = [&](std::int64_t first, std::int64_t last) {
    Point other = p;
    other.first_stage_layers = first, other.last_stage_layers = last;
    if (first > 0 && last > 0 && !refuse(other)) ends.values.push_back(json::array({first, last}));
  };
  for (std::int64_t first = mean - kFewer; p.pp == 2 && first <= mean + kFewer; ++first)
    if (2 * first != p.model.layers) add(first, p.model.layers - first);
  for (std::int64_t middle = mean; p.pp > 2 && middle <= mean + kFewer; ++middle)
    for (std::int64_t first = middle - kFewer; first <= middle; ++first) {
      const std::int64_t last = p.model.layers - first - (p.pp - 2) * middle;
      if (last >= middle - kFewer && last <= middle && first + last < 2 * middle) add(first, last);
    }
  return ends;
}

// All micro batches at once, and twice as many as stages.
Choice choices_of_group(const Point& p) {
  Choice group{"micro_batch_group", {0}, true};
  for (const std::int64_t n : {2 * p.pp, p.micro_batches()}) {
    Point other = p;
    other.micro_batch_group = n;
    if (n > p.pp && n != group.values.back() && !refuse(other)) group.values.push_back(n);
  }
  return group;
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
  return {pp, schedule, choices_of_group(p), choices_of_stages(p)};
}

constexpr Way kNotDeferred = one_of("defer_embedding_wgrad", "false");

MaybeFault bad_deferral(const Point& p) {
  if (!p.defer_embedding_wgrad) {
    if (p.wgrad_deferral_limit == 0) return std::nullopt;
    return infeasible({exactly("wgrad_deferral_limit", 0), one_of("defer_embedding_wgrad", "true")},
                      "wgrad_deferral_limit {} with defer_embedding_wgrad false", p.wgrad_deferral_limit);
  }
  if (p.pp == 1) return infeasible({within("pp", 2, p.model.layers), kNotDeferred}, "defer_embedding_wgrad true with pp 1");
  if (framework_of(p.framework)->keeps.weight_gradients == WeightGradients::apart)
    return infeasible({one_of("framework.gradient_accumulation_fusion", "true"), kNotDeferred},
                      "defer_embedding_wgrad true with gradient_accumulation_fusion false");
  // Gradients that each micro batch reduces and drops.
  if (p.zero == Zero::stage_2 || p.zero == Zero::stage_3 || p.zero == Zero::fsdp || p.zero == Zero::oss_sdp)
    return not_built_in({one_of("zero", "0|1|oss"), kNotDeferred}, "defer_embedding_wgrad with zero {}", name_of(p.zero));
  if (p.offload != Offload::none)
    return not_built_in({one_of("offload", "none"), kNotDeferred}, "defer_embedding_wgrad with offload {}", name_of(p.offload));
  if (p.model.mtp_layers > 0)
    return not_built_in({exactly("model.mtp_layers", 0), kNotDeferred}, "defer_embedding_wgrad with mtp_layers {}", p.model.mtp_layers);
  return std::nullopt;
}

MaybeFault why_not_pipelined(const Point& p) {
  if (auto why = refuse(p)) return why;
  return bad_deferral(p);
}

void write(const Point& point, Plan& plan) {
  const int stages = static_cast<int>(point.pp), chunks = static_cast<int>(point.virtual_stages);
  plan.mesh.resize(Axis::pp, stages);
  const int all = stages * chunks;
  const std::vector<std::int64_t> layers = layers_of_chunks(point);
  std::vector<std::int64_t> first_layer(layers.size());
  std::exclusive_scan(layers.begin(), layers.end(), first_layer.begin(), std::int64_t{0});
  plan.chunks.assign(stages, {});
  for (int stage = 0; stage < stages; ++stage) {
    for (int c = 0; c < chunks; ++c) {
      const int position = c * stages + stage;
      const auto at = static_cast<std::size_t>(position);
      const bool first = position == 0, last = position == all - 1;
      plan.chunks[stage].push_back({stage, position, first_layer[at], layers[at], first, last});
    }
    plan.schedule.push_back(make_schedule(point.schedule, stages, stage, chunks,
                                          static_cast<int>(point.micro_batches()),
                                          static_cast<int>(point.micro_batch_group)));
  }
  if (point.defer_embedding_wgrad)
    plan.deferred_products = point.wgrad_deferral_limit == 0 ? point.micro_batches() : std::min(point.wgrad_deferral_limit, point.micro_batches());
}

}  // namespace

std::vector<std::int64_t> layers_of_chunks(const Point& p) {
  const std::int64_t all = p.pp * p.virtual_stages, layers = p.model.layers;
  std::vector<std::int64_t> of(static_cast<std::size_t>(all), layers / all);
  if (names_stages(p)) {  // a stage's layers are shared evenly by its chunks (Megatron-Core: get_num_layers_to_build)
    for (std::int64_t i = 0; i < all; ++i)
      of[static_cast<std::size_t>(i)] = layers_of_stage(p, i % p.pp) / p.virtual_stages;
  } else if (layers % all != 0) {
    // The first layer of a chunk, or of all that follow the last one.
    const auto first_layer = [&](std::int64_t position) {
      return std::clamp<std::int64_t>(position * (layers + 2) / all - 1, 0, layers);
    };
    for (std::int64_t i = 0; i < all; ++i) of[static_cast<std::size_t>(i)] = first_layer(i + 1) - first_layer(i);
  }
  return of;
}

Strategy pipeline() {
  return {"pipeline",
          {"pp", "schedule", "virtual_stages", "micro_batch_group", "first_stage_layers", "last_stage_layers",
           "defer_embedding_wgrad", "wgrad_deferral_limit"},
          why_not_pipelined,
          choices,
          write};
}

}  // namespace mbench::strategies
