// Pipeline parallelism: layers are cut into stages (stages.h), and micro batches flow through them in the order of a schedule. GPipe (Huang et al.
// 2019): all forwards, then all backwards. 1F1B (Narayanan et al. 2019): after a warm-up of as many forwards
// as there are stages behind, one forward and one backward in turn. Interleaved 1F1B (Narayanan et al. 2021):
// a stage holds several chunks of layers, stage s the chunks s, s + p, s + 2p, ..., which shortens the
// bubble; it runs a group of micro batches through one chunk, then through the next. Schedules that split backward are in
// split_schedule.cpp.
#include <algorithm>
#include <utility>

#include "engine/framework/framework.h"
#include "engine/point/abilities.h"
#include "strategies/schedule.h"
#include "strategies/stages.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

using nlohmann::json;

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
  return infeasible({groups}, "micro_batch_group {} leaves {} of {} micro batches to the last group, fewer than pp {}",
                    group, micro % group, micro, p.pp);
}

constexpr Way kInterleaved = one_of("schedule", "interleaved"), kOneByOne = one_of("schedule", "1f1b");

// Zero bubble and its kin.
MaybeFault bad_split(const Point& p) {
  const std::string_view name = name_of(p.schedule);
  if (p.pp == 1) return infeasible({within("pp", 2, p.model.layers), kOneByOne}, "schedule {} with pp 1", name);
  const std::int64_t chunks = is_v_shaped(p.schedule) ? kChunksOfV : 1;
  if (p.virtual_stages != chunks)
    return infeasible({exactly("virtual_stages", chunks), kInterleaved}, "virtual_stages {} with schedule {}",
                      p.virtual_stages, name);
  if (p.micro_batch_group > 0)
    return infeasible({exactly("micro_batch_group", 0), kInterleaved}, "micro_batch_group {} with schedule {}",
                      p.micro_batch_group, name);
  if (p.schedule == ScheduleKind::dualpipev && p.micro_batches() < 2 * p.pp)
    return infeasible({multiple("global_batch", 2 * p.pp * p.micro_batch * p.dp), one_of("schedule", "zbv")},
                      "schedule dualpipev with {} micro batches and pp {}: it needs two for each stage",
                      p.micro_batches(), p.pp);
  if (is_v_shaped(p.schedule) && (p.first_stage_layers > 0 || p.last_stage_layers > 0))
    return infeasible(
        {exactly("first_stage_layers", 0), exactly("last_stage_layers", 0), kOneByOne},
        "first_stage_layers {} and last_stage_layers {} with schedule {}, whose first stage has both ends",
        p.first_stage_layers, p.last_stage_layers, name);
  if (p.adapter.on()) return not_built_in({one_of("adapter", "none"), kOneByOne}, "schedule {} with an adapter", name);
  if (p.defer_embedding_wgrad)
    return infeasible({one_of("defer_embedding_wgrad", "false"), kOneByOne},
                      "defer_embedding_wgrad true with schedule {}, which defers the gradients of all weights", name);
  return std::nullopt;
}

MaybeFault bad_schedule(const Point& p) {
  if (splits_backward(p.schedule)) return bad_split(p);
  if (p.schedule != ScheduleKind::interleaved) {
    if (p.virtual_stages > 1)
      return infeasible({kInterleaved, exactly("virtual_stages", 1)}, "virtual_stages {} with schedule {}",
                        p.virtual_stages, name_of(p.schedule));
    if (p.micro_batch_group > 0)
      return infeasible({kInterleaved, exactly("micro_batch_group", 0)}, "micro_batch_group {} with schedule {}",
                        p.micro_batch_group, name_of(p.schedule));
    return std::nullopt;
  }
  if (p.pp == 1) return infeasible({within("pp", 2, p.model.layers), kOneByOne}, "schedule interleaved with pp 1");
  if (p.virtual_stages == 1)
    return infeasible({within("virtual_stages", 2, p.model.layers), kOneByOne},
                      "schedule interleaved with virtual_stages 1");
  return bad_group(p);
}

MaybeFault refuse(const Point& p) {
  // Public runs of models that this engine does not have cut otherwise: of those it is not for us to say.
  if (!model().why_not(p))
    if (auto bad = bad_stages(p)) return bad;
  return bad_schedule(p);
}

// Up to two layers less at the ends than between; of two stages, up to two more or less in the first.
Choice choices_of_stages(const Point& p) {
  constexpr std::int64_t kFewer = 2;
  Choice ends{"first_stage_layers,last_stage_layers", {json::array({0, 0})}, true};
  const std::int64_t mean = p.model.layers / p.pp;
  const auto add = [&](std::int64_t first, std::int64_t last) {
    Point other = p;
    other.pipeline_layout.clear();
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

// As the other fields have it, and layers spread evenly: alone, with one or both ends as a layer, and with the head as two. The loss
// reads a whole vocabulary, and the embedding next to nothing.
Choice choices_of_layout(const Point& p) {
  Choice layouts{"pipeline_layout", {}, true};
  std::vector<PipelineLayout> tables;  // each once, however it is said
  const auto add = [&](const std::string& layout) {
    Point other = p;
    other.pipeline_layout = layout;
    if (refuse(other)) return;
    PipelineLayout table = stages_of(other);
    if (std::ranges::find(tables, table) != tables.end()) return;
    layouts.values.emplace_back(layout);
    tables.push_back(std::move(table));
  };
  add("");
  if (p.pp > 1)
    for (const EndsCount ends : {EndsCount{1, 1}, EndsCount{0, 0}, EndsCount{0, 1}, EndsCount{1, 2}, EndsCount{0, 2}})
      add(even_text(p, ends));
  return layouts;
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

// Sharded gradients are summed over several micro batches under a schedule that splits backward, until the last of their GEMMs. Each micro
// batch then has a recording of its own, and a step takes thirty times as long to simulate. Few trainers have both: they are offered where a
// framework names both, and simulated wherever a spec gives them.
bool is_offered(const Point& p, ScheduleKind kind) {
  const bool sharded = p.zero == Zero::stage_2 || p.zero == Zero::stage_3 || (p.zero == Zero::fsdp && !p.fsdp_no_sync);
  if (!sharded || !splits_backward(kind)) return true;
  const Abilities& can = framework_of(p.framework)->can;
  const std::string_view zero = p.zero == Zero::stage_2 ? "2" : p.zero == Zero::stage_3 ? "3" : "fsdp";
  return lists(can, "zero", zero) && lists(can, "schedule", name_of(kind));
}

std::vector<Choice> choices(const Point& p, std::int64_t devices) {
  Choice pp{"pp", {}}, schedule{"schedule,virtual_stages", {}};
  for (std::int64_t n = 1; n <= std::min(p.model.layers, devices); ++n) {
    Point other = p;
    other.pp = n;
    if (!refuse(other)) pp.values.push_back(n);
  }
  // Of a single stage all are the same.
  using enum ScheduleKind;
  for (const ScheduleKind kind : {one_f_one_b, interleaved, gpipe, zb_h1, zbv, v_half, v_min, dualpipev})
    for (std::int64_t n = 1; n <= p.model.layers / p.pp; ++n) {
      Point other = p;
      other.schedule = kind;
      other.virtual_stages = n;
      if (is_offered(p, kind) && !refuse(other)) schedule.values.push_back({name_of(kind), n});
      if (kind != interleaved && n == kChunksOfV) break;
    }
  if (p.pp == 1) schedule.values.resize(1);
  return {pp, schedule, choices_of_group(p), choices_of_stages(p), choices_of_layout(p)};
}

constexpr Way kNotDeferred = one_of("defer_embedding_wgrad", "false");

MaybeFault bad_deferral(const Point& p) {
  if (!p.defer_embedding_wgrad) {
    if (p.wgrad_deferral_limit == 0) return std::nullopt;
    return infeasible({exactly("wgrad_deferral_limit", 0), one_of("defer_embedding_wgrad", "true")},
                      "wgrad_deferral_limit {} with defer_embedding_wgrad false", p.wgrad_deferral_limit);
  }
  if (p.pp == 1)
    return infeasible({within("pp", 2, p.model.layers), kNotDeferred}, "defer_embedding_wgrad true with pp 1");
  if (framework_of(p.framework)->keeps.weight_gradients == WeightGradients::apart)
    return infeasible({one_of("framework.gradient_accumulation_fusion", "true"), kNotDeferred},
                      "defer_embedding_wgrad true with gradient_accumulation_fusion false");
  // Gradients that each micro batch reduces and drops.
  if (p.zero == Zero::stage_2 || p.zero == Zero::stage_3 || p.zero == Zero::fsdp || p.zero == Zero::oss_sdp)
    return not_built_in({one_of("zero", "0|1|oss"), kNotDeferred}, "defer_embedding_wgrad with zero {}",
                        name_of(p.zero));
  if (p.offload != Offload::none)
    return not_built_in({one_of("offload", "none"), kNotDeferred}, "defer_embedding_wgrad with offload {}",
                        name_of(p.offload));
  if (p.model.labels > 0)
    return infeasible({exactly("model.labels", 0), kNotDeferred},
                      "defer_embedding_wgrad with {} labels, and no logits of words", p.model.labels);
  if (p.model.mtp_layers > 0)
    return not_built_in({exactly("model.mtp_layers", 0), kNotDeferred}, "defer_embedding_wgrad with mtp_layers {}",
                        p.model.mtp_layers);
  return std::nullopt;
}

MaybeFault why_not_pipelined(const Point& p) {
  if (auto why = refuse(p)) return why;
  return bad_deferral(p);
}

int expert_layers_of(const ModelSpec& m, const ChunkPlan& chunk) {
  std::int64_t layers = 0;
  for (std::int64_t i = chunk.first_layer; i < chunk.first_layer + chunk.layers; ++i)
    layers += m.has_experts(i) ? 1 : 0;
  if (m.has_experts(m.layers - 1)) layers += chunk.depths;  // depths have a layer as the last one is
  return static_cast<int>(layers);
}

void write_schedule(const Point& point, Plan& plan) {
  const int stages = static_cast<int>(point.pp), micro_batches = static_cast<int>(point.micro_batches()),
            group = static_cast<int>(point.micro_batch_group);
  if (!point.overlap_moe) {
    plan.schedule =
        make_schedules(point.schedule, stages, static_cast<int>(point.virtual_stages), micro_batches, group);
    return;
  }
  std::vector<std::vector<int>> pauses;
  for (auto& stage : plan.chunks) {
    pauses.emplace_back();
    // A forward stops where its tokens travel to experts, and where they come back; so does a backward.
    for (ChunkPlan& chunk : stage) pauses.back().push_back(chunk.pauses = 2 * chunk.expert_layers);
  }
  plan.schedule = make_schedules_in_turns(point.schedule, stages, micro_batches, group, pauses);
  plan.delay_wgrad = point.delay_wgrad;
}

// The position that has the last layer.
int last_layer_at(const PipelineLayout& table) {
  int at = static_cast<int>(table.size()) - 1;
  while (at > 0 && table[static_cast<std::size_t>(at)].layers == 0) --at;
  return at;
}

void write(const Point& point, Plan& plan) {
  const int stages = static_cast<int>(point.pp), chunks = static_cast<int>(point.virtual_stages);
  plan.mesh.resize(Axis::pp, stages);
  const int all = stages * chunks;
  const PipelineLayout table = stages_of(point);
  // Depths read what is behind the norm: it is where the last layer is, as Megatron-Core has it.
  const int norm_at = point.model.mtp_layers > 0 ? last_layer_at(table) : all - 1;
  std::int64_t first_layer = 0;
  bool ahead = false;  // depths are behind us, and the head is not
  std::vector<ChunkPlan> in_order;
  for (int position = 0; position < all; ++position) {
    const StageParts& parts = table[static_cast<std::size_t>(position)];
    const int received = ahead ? 1 + static_cast<int>(point.model.mtp_layers) : 1;
    ahead = (ahead || parts.depths > 0) && !parts.loss;
    const int sent = ahead ? 1 + static_cast<int>(point.model.mtp_layers) : 1;
    in_order.push_back({0, position, first_layer, parts.layers, parts.embedding, parts.loss, position == norm_at,
                        parts.depths, received, sent});
    in_order.back().expert_layers = expert_layers_of(point.model, in_order.back());
    first_layer += parts.layers;
  }
  plan.chunks.assign(stages, {});
  for (int stage = 0; stage < stages; ++stage)
    for (int c = 0; c < chunks; ++c) {
      ChunkPlan& chunk = in_order[static_cast<std::size_t>(position_of(point.schedule, stages, stage, c))];
      chunk.stage = stage;
      plan.chunks[stage].push_back(chunk);
    }
  write_schedule(point, plan);
  if (point.defer_embedding_wgrad)
    plan.deferred_gemms = point.wgrad_deferral_limit == 0 ? point.micro_batches()
                                                          : std::min(point.wgrad_deferral_limit, point.micro_batches());
}

}  // namespace

Strategy pipeline() {
  return {"pipeline",
          {"pp", "schedule", "virtual_stages", "micro_batch_group", "first_stage_layers", "last_stage_layers",
           "pipeline_layout", "defer_embedding_wgrad", "wgrad_deferral_limit"},
          why_not_pipelined,
          choices,
          write};
}

}  // namespace mbench::strategies
